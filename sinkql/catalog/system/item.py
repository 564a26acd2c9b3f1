"""System relations as items that any query can read: a catalog with them, and their rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sinkql import ast, logical
from sinkql.catalog.overlay import OverlayCatalog
from sinkql.catalog.store import Store
from sinkql.catalog.system import ON_PATH, RELATIONS
from sinkql.catalog.system.function import from_sqlite, is_known_type, stored_type
from sinkql.catalog.system.relation import Relation
from sinkql.planner import types
from sinkql.planner.name import is_system, qualified_name, split_name

if TYPE_CHECKING:
    import pyarrow as pa

_KIND = "SYSTEM"


class SystemCatalog(OverlayCatalog[logical.CatalogReader]):
    """A `CatalogReader` in which system relations are read like sources."""

    def overlaid(self, full_name: str) -> logical.Item | None:
        relation = relation_of(full_name)
        if relation is None:
            return None
        columns = tuple(logical.Column(column.name, _type(column.type), True) for column in relation.columns)
        return logical.Source(full_name, _KIND, {}, logical.Shape(columns))

    def resolve(self, name: ast.Name) -> str:
        full_name = self.plans.resolve(name)
        if len(name.parts) > 1 or self.plans.has(full_name):
            return full_name
        part = name.parts[0].value
        schema = next((column for column in ON_PATH if (column, part) in RELATIONS), None)
        return full_name if schema is None else qualified_name(schema, part)


def relation_of(full_name: str) -> Relation | None:
    """Return the system relation with a full name; None if it is not one."""
    if not is_system(full_name):
        return None
    schema, *rest = split_name(full_name)
    return RELATIONS.get((schema, ".".join(rest)))


@dataclass(frozen=True, slots=True)
class SystemRows:
    """The rows of a system relation in Arrow."""

    relation: Relation
    database: Store

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the current rows."""
        import pyarrow as pa

        from sinkql.table.row import Codec

        columns = [_type(column.type) for column in self.relation.columns]
        takes = [from_sqlite(column) for column in columns]
        with self.database.views() as connection:
            result = connection.execute(f'SELECT * FROM "{self.relation.view}"').fetchall()
        rows = [
            tuple(None if value is None else take(value) for take, value in zip(takes, row, strict=True))
            for row in result
        ]
        arrays = Codec(columns).arrays(rows)
        yield pa.RecordBatch.from_arrays(arrays, schema=self.schema())

    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""
        import pyarrow as pa

        from sinkql.connector_api.types import arrow_type

        return pa.schema([(column.name, arrow_type(_type(column.type))) for column in self.relation.columns])


def _type(name: str) -> logical.Type:
    """Return the type of a column; text if items cannot have columns of that type."""
    type_ = stored_type(name)
    return type_ if is_known_type(type_) and type_ != types.INTERVAL else types.TEXT
