"""A catalog → a copy of it in memory, whose changes can be done in the catalog later, all or none."""

from __future__ import annotations

from typing import Any, TypeVar

from sqlalchemy.engine import Connection

from sinkql.catalog.change import Operation, conflict
from sinkql.catalog.database import Copy
from sinkql.catalog.store import Catalog
from sinkql.errors import SinkqlError

_T = TypeVar("_T")


class Draft(Catalog):
    """A copy of a catalog in memory. What changes it is kept, to be done in the catalog itself by `apply`."""

    def __init__(self, original: Catalog) -> None:
        self.operations: list[Operation[Any]] = []
        super().__init__(Copy(original.database), original.registry)
        for name, value in original.variables.items():
            self.set_variable(name, value)
        self._id = original.catalog_id()
        self.before = self.entries()
        self._base = self.generation

    def change(self, operation: Operation[_T]) -> _T:
        """Do an operation here, and note it."""
        result = super().change(operation)
        self.operations.append(operation)
        return result

    def apply(self, catalog: Catalog) -> None:
        """Do all that was done here in a catalog, all or nothing; raises SQ5210 if it changed so that this cannot be.

        Raises ChangedError as `Catalog.add` does.
        """

        def whole(catalog: Catalog, connection: Connection) -> None:
            for operation in self.operations:
                operation(catalog, connection)

        moved = catalog.generation != self._base
        try:
            catalog.change(whole)
        except SinkqlError as error:
            if moved and error.code.startswith("SQ2"):
                raise conflict(error.message) from error
            raise
