"""CREATE SINK … INTO ICEBERG CATALOG → the writer's options, and the columns of its table.

The planned options, which `physical.Write.options` carries: `namespace`, `table`, `column_types` (column → Iceberg
type, changelog included, in order), `snapshot`, `max_rows_per_commit`, `format_version`, `maintenance`,
`existing_rows` (keep; left out: refuse) and `retain_snapshots` (left out: the default).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sinkql import ast, logical
from sinkql.connector.options import bind, labels, option_span
from sinkql.connector.plan import Planning, SinkPlan
from sinkql.connector.sink import SinkOptions, check_pace, check_positive
from sinkql.connectors.iceberg.connection import SUPPORTED, not_supported
from sinkql.errors import Notice, SinkqlError, Span

_TYPES = {
    "boolean": "boolean", "smallint": "int", "integer": "int", "bigint": "long",
    "real": "float", "double precision": "double",
    "date": "date", "time": "time", "timestamp": "timestamp", "timestamptz": "timestamptz",
    "text": "string", "uuid": "string", "jsonb": "string", "interval": "string", "bytea": "binary",
}  # fmt: skip
OWNER = "sinks into Iceberg"
AT_CREATION = ("SNAPSHOT", "FORMAT VERSION", "EXISTING ROWS")
"""Options in WITH (…) that say how a sink and its table begin."""
_CHANGELOG = (
    logical.Column("_mz_diff", logical.Type("integer"), nullable=False),
    logical.Column("_mz_timestamp", logical.Type("bigint"), nullable=False),
)


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What INTO … (…) says: where the table is."""

    namespace: str
    table: str


@dataclass(frozen=True, slots=True)
class IcebergOptions(SinkOptions):
    """What WITH (…) says."""

    format_version: int = 2
    retain_snapshots: int | None = None
    maintenance: bool = True
    existing_rows: Literal["KEEP", "REPLACE"] | None = None


def plan_sink(statement: ast.CreateSink, shape: logical.Shape, facts: logical.Facts, planning: Planning) -> SinkPlan:
    """Bind the options (SQ21xx, SQ2309, SQ2326, SQ2328, SQ2330), find each column's Iceberg type (SQ2310)."""
    _check_places(statement)
    target = bind(statement.options, TableOptions, owner=OWNER, span=statement.kind_span)
    for name, value in (("NAMESPACE", target.namespace), ("TABLE", target.table)):
        if not value.strip():
            raise SinkqlError(
                "SQ2328", f"{name} is empty", option_span(statement.options, name, statement.kind_span),
                hint=f"Write {name} = '…' with its name.",
            )  # fmt: skip
    options = bind(statement.with_options, IcebergOptions, owner=OWNER, span=statement.kind_span)
    check_pace(statement, options)
    check_positive(statement, "RETAIN SNAPSHOTS", options.retain_snapshots)
    _check_version(statement, options)
    columns = shape.columns + (_CHANGELOG if _changelog(statement) else ())
    types = _column_types(statement, columns)
    if "time" in types.values():
        planning.notice(
            Notice(
                "SQ2329",
                "Spark cannot read Iceberg tables that have a column of type time",
                statement.relation.span,
                hint="Cast it to text in a materialized view if Spark is to read the table.",
            )
        )
    return SinkPlan(_planned(target, options, types), columns, options.commit_interval)


def _check_places(statement: ast.CreateSink) -> None:
    """Refuse an option of INTO … (…) in WITH (…), and the other way round (SQ2105)."""
    target, behaviour = labels(TableOptions), labels(IcebergOptions)
    for options, there, place in (
        (statement.options, behaviour, "WITH (…)"),
        (statement.with_options, target, "the parentheses after the connection"),
    ):
        for option in options:
            if option.name in there:
                raise SinkqlError(
                    "SQ2105",
                    f"option {option.name} stands in the wrong place",
                    option.name_span,
                    hint=f"Write it in {place}.",
                )


def _check_version(statement: ast.CreateSink, options: IcebergOptions) -> None:
    if options.format_version not in (2, 3):
        raise SinkqlError(
            "SQ2330",
            f"FORMAT VERSION is 2 or 3, not {options.format_version}",
            option_span(statement.with_options, "FORMAT VERSION", statement.kind_span),
            hint="Write FORMAT VERSION = 2.",
        )


def _changelog(statement: ast.CreateSink) -> bool:
    return statement.mode is not None and statement.mode.mode == "append" and statement.mode.changelog


def _column_types(statement: ast.CreateSink, columns: tuple[logical.Column, ...]) -> dict[str, str]:
    types = {column.name: _iceberg_type(column.type) for column in columns}
    odd = [column for column in columns if types[column.name] is None]
    if odd:
        listed = ", ".join(f'"{column.name}" ({column.type})' for column in odd)
        raise SinkqlError(
            "SQ2310",
            f"Iceberg has no type for {'column' if len(odd) == 1 else 'columns'} {listed}",
            statement.relation.span,
            hint=f"Cast them in a materialized view, as in {odd[0].name}::text.",
        )
    return {name: type_ for name, type_ in types.items() if type_ is not None}


def _iceberg_type(type_: logical.Type) -> str | None:
    """Return the Iceberg type; of numeric only the scale is kept, so that a wider view still fits the table."""
    return f"decimal(38,{type_.scale})" if type_.name == "numeric" else _TYPES.get(type_.name)


def _planned(target: TableOptions, options: IcebergOptions, types: Mapping[str, str]) -> dict[str, Any]:
    planned: dict[str, Any] = {
        "namespace": target.namespace,
        "table": target.table,
        "column_types": dict(types),
        "snapshot": options.snapshot,
        "max_rows_per_commit": options.max_rows_per_commit,
        "format_version": options.format_version,
        "maintenance": options.maintenance,
    }
    if options.existing_rows is not None:
        planned["existing_rows"] = options.existing_rows.lower()
    if options.retain_snapshots is not None:
        planned["retain_snapshots"] = options.retain_snapshots
    return planned


def check_supported(statement: ast.CreateSink, sink: logical.Sink, planning: Planning) -> None:
    """Refuse what is right but cannot be done yet (SQ2912 to SQ2916)."""
    span = statement.kind_span
    if sink.options["format_version"] != 2:
        raise _later(
            "SQ2914",
            "FORMAT VERSION = 3 is not supported yet",
            option_span(statement.with_options, "FORMAT VERSION", span),
            "FORMAT VERSION = 2",
        )
    catalog = planning.catalog.item(sink.connection)
    assert isinstance(catalog, logical.Connection)
    if catalog.options["catalog_type"] not in SUPPORTED:
        raise not_supported(catalog, span=statement.connection.span)
    if statement.partition_by:
        first, last = statement.partition_by[0].span, statement.partition_by[-1].span
        raise SinkqlError(
            "SQ2915", "PARTITION BY is not supported yet", Span(first.start, last.end), hint="Leave out PARTITION BY."
        )
    if sink.options.get("existing_rows") == "replace":
        raise _later(
            "SQ2916",
            "EXISTING ROWS = REPLACE is not supported yet",
            option_span(statement.with_options, "EXISTING ROWS", span),
            "EXISTING ROWS = KEEP, or name a new TABLE",
        )
    if statement.aws_connection is not None:
        assert sink.aws_connection is not None
        aws = planning.catalog.item(sink.aws_connection)
        assert isinstance(aws, logical.Connection)
        if "assume_role_arn" in aws.options:
            raise SinkqlError(
                "SQ2912",
                "AWS connections that assume a role are not supported yet",
                statement.aws_connection.span,
                hint="Make one with ACCESS KEY ID = '…', SECRET ACCESS KEY = SECRET name.",
            )


def _later(code: str, message: str, span: Span, instead: str) -> SinkqlError:
    return SinkqlError(code, message, span, hint=f"Write {instead}.")
