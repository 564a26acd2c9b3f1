"""Create a sink's table, or compare an existing one with the sink; find the schema that a changed sink gives it.

Columns keep their field ids, by which readers find them in files of any age. A new column has a new id, and is NULL in
earlier files, even if a deleted column had its name.
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
from sinkql.connectors.iceberg.table.failure import catalog_error
from sinkql.connectors.iceberg.table.schema import (
    Layout,
    describe_order,
    describe_spec,
    fits,
    has_only_columns,
    is_expressible,
    table_schema,
)
from sinkql.connectors.iceberg.table.target import TargetTable
from sinkql.errors import SinkqlError, UnfitTableError
from sinkql.keywords import qualified_name

CREATED_BY = "sinkql.created-by"
METADATA_FILES, NEW_METADATA_FILES = "write.metadata.previous-versions-max", "20"
"""The property with the number of old metadata files that a table keeps, and its value in new tables."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The table that a sink expects: its columns, a changelog or not, and no equality deletes for an upsert sink."""

    columns: tuple[physical.Column, ...]
    changelog: bool
    upsert: bool
    layout: Layout = field(default=Layout())
    version: int = 2

    @property
    def schema(self) -> Schema:
        """Return the schema of a new table."""
        return table_schema(self.columns, changelog=self.changelog)


def ensure_table(target: TargetTable, expected: Expected, *, sink_id: str, claimed: bool = False) -> Table:
    """Return the table, and create it with its namespace if absent; another process may do the same.

    Raises SQ3503 if the sink has claimed the table before: a new table would get all rows from the start.
    """
    try:
        return target.load()
    except NoSuchTableError:
        if claimed:
            raise target.dropped_error() from None
    try:
        _create(target, expected, sink_id)
    except SinkqlError:
        raise
    except Exception as error:
        raise catalog_error(error, target.connection) from error
    # If another process was first, some catalogs return its table from the creation: only a load is reliable.
    return target.load()


def _create(target: TargetTable, expected: Expected, sink_id: str) -> None:
    levels = target.namespace.split(".")
    for depth in range(1, len(levels) + 1):
        target.patiently(partial(_create_namespace, target, tuple(levels[:depth])))
    properties = {
        "format-version": str(expected.version),
        "write.metadata.delete-after-commit.enabled": "true",
        METADATA_FILES: NEW_METADATA_FILES,
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


def check_table(table: Table, expected: Expected, schema: Schema | None = None) -> None:
    """Raise an error if the sink cannot write to this table.

    SQ3504 columns, SQ3505 and SQ3510 partitions, SQ3506 equality deletes, SQ3509 order, SQ3511 default values, SQ3512
    version. `schema` is the schema that the table will get with the next commit, if it changes.
    """
    name = qualified_name(*table.name())
    _check_version(table, expected)
    differences = column_differences(schema or table.schema(), expected)
    if differences:
        raise UnfitTableError(
            "SQ3504",
            f'table "{name}" has other columns than the sink writes',
            detail="; ".join(differences),
            hint="Change the view or the table so that names and types are equal, or set a different TABLE.",
        )
    if not expected.layout.has_spec(table.spec(), schema or table.schema()):
        raise _partitions_error(table, expected.layout)
    if not expected.layout.has_order(table.sort_order(), schema or table.schema()):
        raise _order_error(table, expected.layout)
    lost_fields = _lost_partitions(table)
    if lost_fields:
        raise UnfitTableError(
            "SQ3510",
            f'table "{name}" has files partitioned by a column that its metadata no longer has',
            detail=f"partition fields: {', '.join(lost_fields)}",
            hint="Set a different TABLE.",
        )
    if expected.upsert and has_equality_deletes(table):
        raise SinkqlError(
            "SQ3506",
            f'table "{name}" has equality deletes, which an upsert sink does not support',
            hint="Rewrite the table without them first, for example with Spark's rewrite_data_files.",
        )


def _check_version(table: Table, expected: Expected) -> None:
    """Raise SQ3512 for a table of version 1 or a lower version than the sink requires, SQ3511 for default values."""
    name, version = qualified_name(*table.name()), table.metadata.format_version
    if version < expected.version:
        raise UnfitTableError(
            "SQ3512",
            f'table "{name}" has format version {version}, expected {expected.version}',
            hint="Upgrade the table with the program that created it, or set a different TABLE."
            if version == 1
            else "Leave out FORMAT VERSION, or set a different TABLE.",
        )
    defaults = [field.name for field in table.schema().fields if field.initial_default is not None]
    if defaults:
        raise UnfitTableError(
            "SQ3511",
            f'column "{defaults[0]}" of table "{name}" has a default value for rows written before it was added',
            hint="Set a different TABLE.",
        )


def _partitions_error(table: Table, layout: Layout) -> SinkqlError:
    spec, schema = table.spec(), table.schema()
    clause = f"PARTITION BY ({describe_spec(spec, schema)})"
    if not spec.fields:
        hint = "Leave out PARTITION BY, or set a different TABLE."
    elif is_expressible(spec, schema):
        hint = f"Write {clause}, or set a different TABLE."
    else:
        hint = "Set a different TABLE."
    return UnfitTableError(
        "SQ3505",
        f'table "{qualified_name(*table.name())}" has other partitions than the sink',
        detail=f"table: {clause if spec.fields else 'no partitions'}; sink: {layout.sql or 'no PARTITION BY'}",
        hint=hint,
    )


def _lost_partitions(table: Table) -> Sequence[str]:
    """Return the partition fields of files on main whose columns no schema has: manifests cannot store their values."""
    head = table.current_snapshot()
    field_ids = {id_ for schema in table.metadata.schemas for id_ in schema.field_ids}
    lost = {
        id_: [field.name for field in spec.fields if field.source_id not in field_ids]
        for id_, spec in table.metadata.specs().items()
    }
    if head is None or not any(lost.values()):
        return ()
    used = {manifest.partition_spec_id for manifest in manifests_of(table, head)}
    return sorted({name for id_ in used for name in lost[id_]})


def _order_error(table: Table, layout: Layout) -> SinkqlError:
    order, schema = table.sort_order(), table.schema()
    terms = describe_order(order, schema)
    if not order.fields:
        present, hint = "no sort order", "Leave out SORT BY, or set a different TABLE."
    elif has_only_columns(order, schema):
        present = f"SORT BY ({terms})"
        hint = "Leave out SORT BY: files are then sorted in the table's order. Or set a different TABLE."
    else:
        present, hint = terms, "Leave out SORT BY, or set a different TABLE."
    return UnfitTableError(
        "SQ3509",
        f'table "{qualified_name(*table.name())}" has another sort order than the sink',
        detail=f"table: {present}; sink: SORT BY ({', '.join(term.sql for term in layout.sort_by)})",
        hint=hint,
    )


def column_differences(schema: Schema, expected: Expected) -> Sequence[str]:
    """Return how a table's columns differ from the sink's apart from order and field ids; empty if they fit."""
    fields = {field.name: field for field in schema.fields}
    types: Mapping[str, str] = {column.name: str(column.type) for column in expected.columns}
    differences = []
    for wanted in expected.schema.fields:
        present = fields.pop(wanted.name, None)
        if present is None:
            differences.append(f'column "{wanted.name}" ({wanted.field_type}) is missing in the table')
        elif not fits(wanted.field_type, present.field_type, sql_type=types.get(wanted.name, "")):
            differences.append(
                f'column "{wanted.name}" is {present.field_type} in the table, {wanted.field_type} in the sink'
            )
        elif present.required and not wanted.required:
            differences.append(f'column "{wanted.name}" is required in the table, nullable in the sink')
    differences += [f'column "{name}" is only in the table' for name in fields]
    return differences


def is_own_and_empty(table: Table, sink_id: str) -> bool:
    """Return whether a sink created the table and no commit has been made to it."""
    return table.properties.get(CREATED_BY) == sink_id and table.current_snapshot() is None


def count_rows(table: Table) -> int:
    """Return the number of rows in the data files of main, including deleted ones."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return 0
    manifests = [manifest for manifest in manifests_of(table, snapshot) if manifest.content == ManifestContent.DATA]
    if any(manifest.added_rows_count is None or manifest.existing_rows_count is None for manifest in manifests):
        return 1  # an old manifest without counts may have rows
    return sum((manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0) for manifest in manifests)


def has_equality_deletes(table: Table) -> bool:
    """Return whether main has equality delete files."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return False
    total = snapshot.summary.get("total-equality-deletes") if snapshot.summary else None
    if total == "0":
        return False
    manifests = [manifest for manifest in manifests_of(table, snapshot) if manifest.content == ManifestContent.DELETES]
    entries = [entry for manifest in manifests for entry in said_of(table.io, manifest)]
    return any(entry.data_file.content == DataFileContent.EQUALITY_DELETES for entry in entries)


def foreign_rows_error(table: Table) -> SinkqlError:
    """Return the error for a new sink on a table with rows."""
    return SinkqlError(
        "SQ3507",
        f'table "{qualified_name(*table.name())}" has rows that this sink did not write',
        hint="Set a different TABLE. Or write WITH (EXISTING ROWS = KEEP) to add rows to the table, or WITH (EXISTING "
        "ROWS = REPLACE) to replace its rows.",
    )


def evolved_schema(metadata: TableMetadata, expected: Expected, renamed: Mapping[str, str | None]) -> Schema | None:
    """Return the schema that gives a table the sink's columns; None if it has them.

    `renamed` has the new name of each old column, None for deleted ones. Changes that Iceberg does not allow are left
    out, so that the check of the columns reports them.
    """
    present = metadata.schema()
    wanted = {field.name: field for field in expected.schema.fields}
    deleted = {name for name, new_name in renamed.items() if new_name is None}
    fields = [_evolve_field(field, renamed, wanted) for field in present.fields if field.name not in deleted]
    names = {field.name for field in fields}
    new_ids = count(metadata.last_column_id + 1)
    before = None
    for name, wanted_field in wanted.items():
        if name not in names:
            (added,) = assign_fresh_schema_ids(Schema(wanted_field), lambda: next(new_ids)).fields
            fields.insert(_place_after(fields, before), added.model_copy(update={"required": False}))
        before = name
    if tuple(fields) == present.fields:
        return None
    existing = next((schema.schema_id for schema in metadata.schemas if schema.fields == tuple(fields)), None)
    id_ = max(schema.schema_id for schema in metadata.schemas) + 1 if existing is None else existing
    return Schema(*fields, schema_id=id_, identifier_field_ids=present.identifier_field_ids)


def with_schema(table: Table, schema: Schema | None) -> Table:
    """Return a loaded table with another schema, if given; nothing is committed."""
    if schema is None:
        return table
    metadata = table.metadata
    others = [other for other in metadata.schemas if other.schema_id != schema.schema_id]
    update = {
        "schemas": [*others, schema],
        "current_schema_id": schema.schema_id,
        "last_column_id": max(metadata.last_column_id, schema.highest_field_id),
    }
    return Table(table.name(), metadata.model_copy(update=update), table.metadata_location, table.io, table.catalog)


def _evolve_field(
    field: NestedField, renamed: Mapping[str, str | None], wanted: Mapping[str, NestedField]
) -> NestedField:
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


def _place_after(fields: list[NestedField], name: str | None) -> int:
    """Return the place after the column of that name; 0 if no column has it."""
    return next((place for place, field in enumerate(fields, 1) if field.name == name), 0)
