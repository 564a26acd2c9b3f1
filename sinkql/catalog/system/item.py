"""System relations as items that any query reads: a catalog that has them too, and their rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sinkql import ast, logical
from sinkql.catalog.overlay import OverlayCatalog
from sinkql.catalog.store import Store
from sinkql.catalog.system import ON_PATH, RELATIONS
from sinkql.catalog.system.function import known, stored_type, taken
from sinkql.catalog.system.relation import Relation
from sinkql.connector_api.types import arrow_type
from sinkql.planner import types
from sinkql.planner.name import is_system, qualified_name, split_name
from sinkql.table.row import Codec

if TYPE_CHECKING:
    import pyarrow as pa

_KIND = "SYSTEM"


class SystemCatalog(OverlayCatalog[logical.CatalogReader]):
    """A catalog in which system relations are read as sources are; a `CatalogReader`."""

    def overlaid(self, full_name: str) -> logical.Item | None:
        relation = relation_of(full_name)
        if relation is None:
            return None
        columns = tuple(logical.Column(each.name, _type(each.type), True) for each in relation.columns)
        return logical.Source(full_name, _KIND, {}, logical.Shape(columns))

    def resolve(self, name: ast.Name) -> str:
        found = self.plans.resolve(name)
        if len(name.parts) > 1 or self.plans.has(found):
            return found
        part = name.parts[0].value
        schema = next((each for each in ON_PATH if (each, part) in RELATIONS), None)
        return found if schema is None else qualified_name(schema, part)


def relation_of(full_name: str) -> Relation | None:
    """Return the system relation of a full name, if there is one."""
    if not is_system(full_name):
        return None
    schema, *rest = split_name(full_name)
    return RELATIONS.get((schema, ".".join(rest)))


@dataclass(frozen=True, slots=True)
class SystemRows:
    """The rows of a system relation, as Arrow has them."""

    relation: Relation
    database: Store

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the current rows."""
        import pyarrow as pa

        columns = [_type(each.type) for each in self.relation.columns]
        takes = [taken(each) for each in columns]
        with self.database.views() as connection:
            found = connection.execute(f'SELECT * FROM "{self.relation.view}"').fetchall()
        rows = [
            tuple(None if value is None else take(value) for take, value in zip(takes, row, strict=True))
            for row in found
        ]
        arrays = Codec([str(each) for each in columns]).arrays(rows)
        yield pa.RecordBatch.from_arrays(arrays, schema=self.schema())

    def schema(self) -> pa.Schema:
        """Return what the rows are."""
        import pyarrow as pa

        return pa.schema([(each.name, arrow_type(str(_type(each.type)))) for each in self.relation.columns])


def _type(name: str) -> logical.Type:
    """Return the type of a column; text where items have no such columns."""
    type_ = stored_type(name)
    return type_ if known(type_) and type_ != types.INTERVAL else types.TEXT
