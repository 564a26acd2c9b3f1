"""A catalog → a copy of it in memory, whose changes can be done in the catalog later, all or none."""

from __future__ import annotations

from typing import Any, TypeVar

from sinkql.catalog.catalog import Catalog, Operation
from sinkql.catalog.memory import WithBroken
from sinkql.catalog.operation import conflict
from sinkql.catalog.store import Connection
from sinkql.errors import Family, SinkqlError

_T = TypeVar("_T")


class Draft(Catalog):
    """A copy of a catalog in memory. It records what changes it, and `apply` repeats that in the catalog."""

    def __init__(self, original: Catalog) -> None:
        self.operations: list[Operation[Any]] = []
        super().__init__(original.database.copy(), original.registry, project=original.project)
        for name, value in original.variables.items():
            self.set_variable(name, value)
        self._id = original.catalog_id()
        self.before = WithBroken(self.plans.copy())
        self._base = self.generation

    def change(self, operation: Operation[_T]) -> _T:
        """Do an operation in the copy, and record it."""
        result = super().change(operation)
        self.operations.append(operation)
        return result

    def apply(self, catalog: Catalog) -> None:
        """Repeat all operations in a catalog, all or nothing; raises SQ5210 if it changed so that one no longer fits.

        Raises ChangedError as `Catalog.change` does.
        """

        def whole(catalog: Catalog, connection: Connection) -> None:
            for operation in self.operations:
                operation(catalog, connection)

        moved = catalog.generation != self._base
        try:
            catalog.change(whole)
        except SinkqlError as error:
            if moved and error.family is Family.MEANING:
                raise conflict(error.message) from error
            raise
