"""A table's schema and the columns of a sink that goes on in it → the schema that the table gets with the claim.

Columns keep their field ids, by which readers find them in files of any age: a new column has a new id, and is NULL in
files that were there before, also where one that went had its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import DoubleType, FloatType, IcebergType, IntegerType, LongType, NestedField

from sinkql.connectors.iceberg.table.table import Expected


def evolved(metadata: TableMetadata, expected: Expected, renamed: Mapping[str, str | None]) -> Schema | None:
    """Return the new schema, None where the table has it; `renamed` are new names by the old ones, None of what goes.

    What a table cannot do stays as it is: the check of the columns tells.
    """
    present = metadata.schema()
    wanted = {field.name: field for field in expected.schema.fields}
    goes = {name for name, now in renamed.items() if now is None}
    fields = [_kept(field, renamed, wanted) for field in present.fields if field.name not in goes]
    names = {field.name for field in fields}
    fresh = count(metadata.last_column_id + 1)
    before = None
    for name, field in wanted.items():
        if name not in names:
            (added,) = assign_fresh_schema_ids(Schema(field), lambda: next(fresh)).fields
            fields.insert(_after(fields, before), added.model_copy(update={"required": False}))
        before = name
    if tuple(fields) == present.fields:
        return None
    known = next((each.schema_id for each in metadata.schemas if each.fields == tuple(fields)), None)
    id_ = max(each.schema_id for each in metadata.schemas) + 1 if known is None else known
    return Schema(*fields, schema_id=id_, identifier_field_ids=present.identifier_field_ids)


def with_schema(table: Table, schema: Schema | None) -> Table:
    """Return a loaded table as it will be once it gets a schema, None where it gets none; nothing is committed."""
    if schema is None:
        return table
    metadata = table.metadata
    others = [each for each in metadata.schemas if each.schema_id != schema.schema_id]
    update = {
        "schemas": [*others, schema],
        "current_schema_id": schema.schema_id,
        "last_column_id": max(metadata.last_column_id, schema.highest_field_id),
    }
    return Table(table.name(), metadata.model_copy(update=update), table.metadata_location, table.io, table.catalog)


def _kept(field: NestedField, renamed: Mapping[str, str | None], wanted: Mapping[str, NestedField]) -> NestedField:
    name = renamed.get(field.name) or field.name
    if name not in wanted:
        return field
    type_ = wanted[name].field_type if _widens(field.field_type, wanted[name].field_type) else field.field_type
    required = field.required and wanted[name].required
    return field.model_copy(update={"name": name, "field_type": type_, "required": required})


def _widens(old: IcebergType, new: IcebergType) -> bool:
    return isinstance(old, IntegerType | FloatType) and isinstance(
        new, LongType if isinstance(old, IntegerType) else DoubleType
    )


def _after(fields: list[NestedField], name: str | None) -> int:
    """Return the place behind the column of that name."""
    return next((place for place, field in enumerate(fields, 1) if field.name == name), 0)
