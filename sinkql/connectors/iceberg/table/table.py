"""A sink's table: created where it is absent, and held against what the sink writes where it is not.

A table's schema and the columns of a sink that goes on in it → the schema that the table gets with the claim.

Columns keep their field ids, by which readers find them in files of any age: a new column has a new id, and is NULL in
files that were there before, also where one that went had its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.manifest import DataFileContent, ManifestContent
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import DoubleType, FloatType, IcebergType, IntegerType, LongType, NestedField

from sinkql import physical
from sinkql.connectors.iceberg.file.manifest import manifests_of, said_of
from sinkql.connectors.iceberg.table.failure import explain
from sinkql.connectors.iceberg.table.schema import (
    Layout,
    described,
    described_order,
    fits,
    of_columns,
    sayable,
    table_schema,
)
from sinkql.connectors.iceberg.table.target import TargetTable
from sinkql.errors import SinkqlError, UnfitTableError
from sinkql.keywords import qualified_name

CREATED_BY = "sinkql.created-by"


@dataclass(frozen=True, slots=True)
class Expected:
    """What a sink expects of its table: its columns, the changelog's or not; no equality deletes below an upsert."""

    columns: tuple[physical.Column, ...]
    changelog: bool
    upsert: bool
    layout: Layout = field(default=Layout())
    version: int = 2

    @property
    def schema(self) -> Schema:
        return table_schema(self.columns, changelog=self.changelog)


def ensure(target: TargetTable, expected: Expected, *, sink_id: str, claimed: bool = False) -> Table:
    """Return the table, created with its namespace if absent; another process may be doing the same.

    Raises SQ3503 where the sink has claimed it before: a new one would get all rows from the start.
    """
    try:
        return target.load()
    except NoSuchTableError:
        if claimed:
            raise target.gone() from None
    try:
        _create(target, expected, sink_id)
    except SinkqlError:
        raise
    except Exception as error:
        raise explain(error, target.connection) from error
    # Some catalogs answer a lost race with the other's table: only a load tells what there is.
    return target.load()


def _create(target: TargetTable, expected: Expected, sink_id: str) -> None:
    levels = target.namespace.split(".")
    for depth in range(1, len(levels) + 1):
        target.patiently(partial(_create_namespace, target, tuple(levels[:depth])))
    properties = {
        "format-version": str(expected.version),
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "20",
        "write.parquet.compression-codec": "zstd",
        CREATED_BY: sink_id,
    }
    try:
        schema = expected.schema
        target.catalog.create_table(
            target.identifier,
            schema,
            partition_spec=expected.layout.spec(schema),
            sort_order=expected.layout.order(schema),
            properties=properties,
        )
    except TableAlreadyExistsError:
        return


def _create_namespace(target: TargetTable, namespace: tuple[str, ...]) -> None:
    try:
        if not target.catalog.namespace_exists(namespace):
            target.catalog.create_namespace(namespace)
    except NamespaceAlreadyExistsError:
        return


def check(table: Table, expected: Expected, schema: Schema | None = None) -> None:
    """Raise where the sink cannot write to this table.

    SQ3504 columns, SQ3505 and SQ3510 partitions, SQ3506 equality deletes, SQ3509 order, SQ3511 default values, SQ3512
    version. `schema` is the one that the table is about to get, if it gets another.
    """
    name = qualified_name(*table.name())
    _check_version(table, expected)
    differences = compare(schema or table.schema(), expected)
    if differences:
        raise UnfitTableError(
            "SQ3504",
            f'table "{name}" has other columns than the sink writes',
            detail="; ".join(differences),
            hint="Change the view or the table so that names and types are the same, or name another TABLE.",
        )
    if not expected.layout.partitions(table.spec(), schema or table.schema()):
        raise _other_partitions(table, expected.layout)
    if not expected.layout.sorts(table.sort_order(), schema or table.schema()):
        raise _other_order(table, expected.layout)
    lost = _lost_partitions(table)
    if lost:
        raise UnfitTableError(
            "SQ3510",
            f'table "{name}" has files partitioned by a column that its metadata no longer has',
            detail=f"partition fields: {', '.join(lost)}",
            hint="Name another TABLE.",
        )
    if expected.upsert and has_equality_deletes(table):
        raise SinkqlError(
            "SQ3506",
            f'table "{name}" has equality deletes, which an upsert sink cannot keep',
            hint="Rewrite the table without them first, for instance with Spark's rewrite_data_files.",
        )


def _check_version(table: Table, expected: Expected) -> None:
    """Raise SQ3512 for a table of version 1 or of a lower version than the sink asks for, SQ3511 for default values."""
    name, version = qualified_name(*table.name()), table.metadata.format_version
    if version < expected.version:
        raise UnfitTableError(
            "SQ3512",
            f'table "{name}" has format version {version}, expected {expected.version}',
            hint="Upgrade the table with the program that made it, or name another TABLE."
            if version == 1
            else "Leave out FORMAT VERSION, or name another TABLE.",
        )
    given = [field.name for field in table.schema().fields if field.initial_default is not None]
    if given:
        raise UnfitTableError(
            "SQ3511",
            f'column "{given[0]}" of table "{name}" has a default value for rows from before it was added',
            hint="Name another TABLE.",
        )


def _other_partitions(table: Table, layout: Layout) -> SinkqlError:
    spec, schema = table.spec(), table.schema()
    clause = f"PARTITION BY ({described(spec, schema)})"
    if not spec.fields:
        hint = "Leave out PARTITION BY, or name another TABLE."
    elif sayable(spec, schema):
        hint = f"Write {clause}, or name another TABLE."
    else:
        hint = "Name another TABLE."
    return UnfitTableError(
        "SQ3505",
        f'table "{qualified_name(*table.name())}" is not partitioned as the sink says',
        detail=f"table: {clause if spec.fields else 'no partitions'}; sink: {layout.sql or 'no PARTITION BY'}",
        hint=hint,
    )


def _lost_partitions(table: Table) -> Sequence[str]:
    """Return the partition fields of files on main whose columns no schema has: no manifest can name their values."""
    head = table.current_snapshot()
    known = {id_ for schema in table.metadata.schemas for id_ in schema.field_ids}
    lost = {
        id_: [field.name for field in spec.fields if field.source_id not in known]
        for id_, spec in table.metadata.specs().items()
    }
    if head is None or not any(lost.values()):
        return ()
    used = {manifest.partition_spec_id for manifest in manifests_of(table, head)}
    return sorted({name for id_ in used for name in lost[id_]})


def _other_order(table: Table, layout: Layout) -> SinkqlError:
    order, schema = table.sort_order(), table.schema()
    terms = described_order(order, schema)
    if not order.fields:
        found, hint = "no sort order", "Leave out SORT BY, or name another TABLE."
    elif of_columns(order, schema):
        found = f"SORT BY ({terms})"
        hint = "Leave out SORT BY: files are then sorted as the table says. Or name another TABLE."
    else:
        found, hint = terms, "Leave out SORT BY, or name another TABLE."
    return UnfitTableError(
        "SQ3509",
        f'table "{qualified_name(*table.name())}" has another sort order than SORT BY says',
        detail=f"table: {found}; sink: SORT BY ({', '.join(term.sql for term in layout.sort_by)})",
        hint=hint,
    )


def compare(schema: Schema, expected: Expected) -> Sequence[str]:
    """Return how a table's columns differ from the sink's, whatever their order and field ids; empty if they fit."""
    found = {field.name: field for field in schema.fields}
    types: Mapping[str, str] = {column.name: str(column.type) for column in expected.columns}
    differences = []
    for wanted in expected.schema.fields:
        there = found.pop(wanted.name, None)
        if there is None:
            differences.append(f'column "{wanted.name}" ({wanted.field_type}) is missing in the table')
        elif not fits(wanted.field_type, there.field_type, sql_type=types.get(wanted.name, "")):
            differences.append(
                f'column "{wanted.name}" is {there.field_type} in the table, {wanted.field_type} in the sink'
            )
        elif there.required and not wanted.required:
            differences.append(f'column "{wanted.name}" is required in the table, nullable in the sink')
    differences += [f'column "{name}" is only in the table' for name in found]
    return differences


def own_empty(table: Table, sink_id: str) -> bool:
    """Tell whether a sink made a table that nobody has written to."""
    return table.properties.get(CREATED_BY) == sink_id and table.current_snapshot() is None


def rows(table: Table) -> int:
    """Return how many rows the data files of main hold, deleted ones included."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return 0
    manifests = [each for each in manifests_of(table, snapshot) if each.content == ManifestContent.DATA]
    if any(each.added_rows_count is None or each.existing_rows_count is None for each in manifests):
        return 1  # an old manifest that does not count: take it that there are some
    return sum((each.added_rows_count or 0) + (each.existing_rows_count or 0) for each in manifests)


def has_equality_deletes(table: Table) -> bool:
    """Tell whether main has equality delete files."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return False
    total = snapshot.summary.get("total-equality-deletes") if snapshot.summary else None
    if total == "0":
        return False
    deletes = [each for each in manifests_of(table, snapshot) if each.content == ManifestContent.DELETES]
    entries = [entry for manifest in deletes for entry in said_of(table.io, manifest)]
    return any(entry.data_file.content == DataFileContent.EQUALITY_DELETES for entry in entries)


def foreign_rows(table: Table) -> SinkqlError:
    """Return the error for a new sink on a table that has rows already."""
    return SinkqlError(
        "SQ3507",
        f'table "{qualified_name(*table.name())}" has rows that this sink did not write',
        hint="Name another TABLE, or write WITH (EXISTING ROWS = KEEP) to add to the rows, or WITH (EXISTING ROWS = "
        "REPLACE) to put the sink's rows in their place.",
    )


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
    for name, wanted_field in wanted.items():
        if name not in names:
            (added,) = assign_fresh_schema_ids(Schema(wanted_field), lambda: next(fresh)).fields
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
