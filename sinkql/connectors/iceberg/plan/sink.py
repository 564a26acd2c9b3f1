"""Plan CREATE SINK … INTO ICEBERG CATALOG: check the options, and find the Iceberg type of each column.

`options.IcebergSink` describes the planned options, which `physical.Write.options` holds. Options without a value are
left out.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from sinkql import ast, logical, physical
from sinkql.connector_api.options import bind, option_field, option_labels, option_span
from sinkql.connector_api.planning import PlanningContext, SinkPlan
from sinkql.connector_api.sink_options import SinkOptions, check_positive
from sinkql.connectors.iceberg.plan.layout import plan_order, plan_partitions
from sinkql.connectors.iceberg.plan.options import CatalogConnection, IcebergSink
from sinkql.errors import Notice, SinkqlError, Span, UnfitNameError
from sinkql.logical.nested import leaf
from sinkql.logical.range import SUBTYPES
from sinkql.logical.type import INTEGER, TEXT, shown_name

_TYPES = {
    "boolean": "boolean", "smallint": "int", "integer": "int", "bigint": "long",
    "uint2": "int", "uint4": "long", "uint8": "decimal(20,0)",
    "real": "float", "double precision": "double",
    "date": "date", "time": "time", "timestamp": "timestamp", "timestamptz": "timestamptz",
    "text": "string", "uuid": "string", "jsonb": "string", "interval": "string", "bytea": "binary",
}  # fmt: skip
OWNER = "sinks into Iceberg"
ANEW = ("EXISTING ROWS", "BRANCH")
AT_CREATION = ("SNAPSHOT", "FORMAT VERSION", *ANEW)
"""Options in WITH (…) that only matter when the sink and its table are created."""
_APART = "Write another TABLE. Append sinks may share a table if each has EXISTING ROWS = KEEP."
_SEPARATORS = "/\\#?%"
"""Characters that separate or encode parts of paths and URLs; a table's location is both."""
_LONGEST = 200
"""The most bytes of a name: file systems allow 255, and some names get a suffix."""
_MAIN = "main"
_FAST_CATALOGS = ("memory", "sql")
_REMOTE_INTERVAL = timedelta(seconds=1)
"""Below this interval, commits by requests to a server may be too slow."""
_RANGE_FLAGS = ("lower_inclusive", "upper_inclusive", "empty")
_CHANGELOG = (
    logical.Column("_mz_diff", logical.Type("integer"), nullable=False),
    logical.Column("_mz_timestamp", logical.Type("bigint"), nullable=False),
)


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options in INTO … (…): the table."""

    namespace: str = option_field("the namespace of the table")
    table: str = option_field("the name of the table; the sink creates it")


@dataclass(frozen=True, slots=True)
class IcebergOptions(SinkOptions):
    """The options in WITH (…)."""

    format_version: int = option_field("the format version of a new table: 2 or 3", default=2)
    retain_snapshots: int | None = option_field(
        "the snapshots to keep; by default 100 or a minute's; `history.expire` settings override it",
        default=None,
    )
    maintenance: bool = option_field(
        "compact files, expire snapshots and remove orphan files; `gc.enabled = false` limits it to compaction",
        default=True,
    )
    maintenance_share: float | None = option_field(
        "the percentage of time for compaction; 15 by default",
        default=None,
    )
    existing_rows: Literal["KEEP", "REPLACE"] | None = option_field(
        "for a table with rows of others: `KEEP` adds to them, `REPLACE` replaces them", default=None
    )
    branch: str | None = option_field(
        "a branch of the table for commits, instead of main",
        default=None,
    )


def plan_sink(
    statement: ast.CreateSink, shape: logical.Shape, facts: logical.Facts, planning: PlanningContext
) -> SinkPlan:
    """Bind the options (SQ21xx, SQ2326, SQ2328, SQ2330), and find each column's Iceberg type (SQ2310).

    See `layout` for PARTITION BY and SORT BY.
    """
    if planning.catalog.setting("enable_iceberg_sink") == "false":
        raise SinkqlError(
            "SQ2320",
            "sinks into Iceberg are disabled",
            statement.kind_span,
            hint="Run ALTER SYSTEM SET enable_iceberg_sink = true; first.",
        )
    _check_placement(statement)
    target = bind(statement.options, TableOptions, owner=OWNER, span=statement.kind_span)
    for name, value in (("NAMESPACE", target.namespace), ("TABLE", target.table)):
        _check_name(name, value, option_span(statement.options, name, statement.kind_span))
    options = bind(statement.with_options, IcebergOptions, owner=OWNER, span=statement.kind_span)
    check_positive(statement, "RETAIN SNAPSHOTS", options.retain_snapshots, most=2**31 - 1)
    _check_share(statement, options)
    if options.branch is not None:
        _check_branch(options.branch, option_span(statement.with_options, "BRANCH", statement.kind_span))
    _check_version(statement, options)
    columns = shape.columns + (_CHANGELOG if _changelog(statement) else ())
    types = _column_types(statement, columns)
    _check_paths(statement, columns)
    if any(_has_time(column.type) for column in columns):
        planning.notice(
            Notice(
                "SQ2329",
                "Spark cannot read Iceberg tables that have a column of type time",
                statement.relation.span,
                hint="Cast it to text in a materialized view if Spark reads the table.",
            )
        )
    for first, second in _names_differing_in_case(columns):
        planning.notice(
            Notice(
                "SQ2369",
                f"{first} and {second} differ only in letter case, which Spark and Trino ignore",
                statement.relation.span,
                hint=f"Rename one of them in a materialized view: SELECT {second} AS other, ….",
            )
        )
    planned = _plan_options(target, options, types)
    if statement.partition_by:
        planned["partition_by"] = plan_partitions(statement, types)
    if statement.sort_by:
        planned["sort_by"] = plan_order(statement, types)
    return SinkPlan(planned, columns, options)


def _names_differing_in_case(columns: Sequence[logical.Column]) -> Iterator[tuple[str, str]]:
    """Yield pairs of column names, as written, that differ only in letter case; the earlier column comes first."""
    first: dict[str, str] = {}
    for column in columns:
        earlier = first.setdefault(column.name.casefold(), column.name)
        if earlier != column.name:
            yield shown_name(earlier), shown_name(column.name)


def _check_name(option: str, name: str, span: Span) -> None:
    """Refuse an empty name (SQ2328), and a name that is not a single segment of paths and URLs (SQ2333)."""
    if not name.strip():
        raise SinkqlError("SQ2328", f"{option} must not be empty", span, hint=f"Write {option} = '…' with its name.")
    odd = next(
        (
            character
            for character in name
            if character in _SEPARATORS or unicodedata.category(character) in ("Cc", "Cs")
        ),
        None,
    )
    if odd is not None:
        shown = f'"{odd}"' if odd.isprintable() else f"U+{ord(odd):04X}"
        raise UnfitNameError("SQ2333", f"{option} must not contain {shown}", span, hint="Write another name.")
    if len(name.encode()) > _LONGEST:
        message = f"{option} is longer than {_LONGEST} bytes"
        raise UnfitNameError("SQ2333", message, span, hint="Write a shorter name.")
    if name != name.strip() or (option == "TABLE" and name in (".", "..")):
        raise UnfitNameError("SQ2333", f'{option} must not be "{name}"', span, hint="Write another name.")
    if option == "NAMESPACE" and not all(name.split(".")):
        message = f'NAMESPACE "{name}" has an empty level'
        raise UnfitNameError("SQ2333", message, span, hint="Write names with single dots between them.")


def _check_branch(name: str, span: Span) -> None:
    """Refuse main and invalid names of a branch (SQ2346)."""
    if name == _MAIN:
        raise SinkqlError(
            "SQ2346", "BRANCH must not be main", span, hint="Leave out BRANCH: the sink then commits to main."
        )
    if not name or name != name.strip() or not name.isprintable() or len(name.encode()) > _LONGEST:
        message = f"BRANCH must be a name of 1 to {_LONGEST} bytes, without leading or trailing spaces"
        raise SinkqlError("SQ2346", message, span, hint="Write a name, for example BRANCH = 'audit'.")


def destination(sink: logical.Sink) -> logical.Destination:
    """Return the table that a planned sink writes to; a branch has the name that Spark uses."""
    options = IcebergSink.from_plan(sink.options)
    rows, branch = options.existing_rows, options.branch
    path = (options.namespace, options.table, *((f"branch_{branch}",) if branch is not None else ()))
    refused = None if rows else "name a new TABLE, or write EXISTING ROWS = KEEP or REPLACE"
    replaces = rows == "replace"
    alone = sink.mode == logical.SinkMode.UPSERT or replaces
    apart = _APART if branch is None else _APART.replace("TABLE", "BRANCH or TABLE", 1)
    return logical.Destination("table", path, refused, alone=alone, apart=apart, branch=branch, replaces=replaces)


def check_connection(statement: ast.CreateSink, sink: logical.Sink, planning: PlanningContext) -> None:
    """Refuse AWS keys for the files of a Google catalog (SQ2535); warn of an interval that is short for the catalog."""
    catalog = CatalogConnection.from_plan(planning.connection(statement.connection, sink.kind).options)
    if sink.commit_interval < _REMOTE_INTERVAL and catalog.catalog_type not in _FAST_CATALOGS:
        planning.notice(
            Notice(
                "SQ2375",
                f"a commit to a catalog of type {catalog.catalog_type} often takes longer than the COMMIT INTERVAL",
                option_span(statement.with_options, "COMMIT INTERVAL", statement.kind_span),
                hint="Use 1 second or more, unless the catalog is known to be fast.",
            )
        )
    if statement.using is None or statement.using.kind != "AWS":
        return
    if catalog.gcp_connection is not None:
        raise SinkqlError(
            "SQ2535",
            f'the files of connection "{statement.connection.text}" are not in AWS',
            statement.using.span,
            hint="Leave out USING AWS CONNECTION: the catalog's GCP CONNECTION also gives access to the files.",
        )


def _check_placement(statement: ast.CreateSink) -> None:
    """Refuse an option of INTO … (…) in WITH (…), and the reverse (SQ2105)."""
    target, behaviour = option_labels(TableOptions), option_labels(IcebergOptions)
    for options, there, place in (
        (statement.options, behaviour, "WITH (…)"),
        (statement.with_options, target, "the parentheses after the connection"),
    ):
        for option in options:
            if option.name in there:
                raise SinkqlError(
                    "SQ2105",
                    f"option {option.name} is in the wrong place",
                    option.name_span,
                    hint=f"Write it in {place}.",
                )


def _check_share(statement: ast.CreateSink, options: IcebergOptions) -> None:
    if options.maintenance_share is not None and not 0 <= options.maintenance_share <= 100:
        raise SinkqlError(
            "SQ2326",
            "MAINTENANCE SHARE must be from 0 to 100",
            option_span(statement.with_options, "MAINTENANCE SHARE", statement.kind_span),
            hint="Write MAINTENANCE SHARE = 15. To disable all maintenance, write MAINTENANCE = false.",
        )


def _check_version(statement: ast.CreateSink, options: IcebergOptions) -> None:
    if options.format_version not in (2, 3):
        raise SinkqlError(
            "SQ2330",
            f"FORMAT VERSION must be 2 or 3, not {options.format_version}",
            option_span(statement.with_options, "FORMAT VERSION", statement.kind_span),
            hint="Write FORMAT VERSION = 2, or 3 for deletion vectors and row ids.",
        )


def _has_time(type_: logical.Type) -> bool:
    nested = [field.type for field in type_.fields] if type_.element is None else [type_.element]
    return type_.name == "time" or any(map(_has_time, nested))


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
            hint=f"Cast them in a materialized view, for example {odd[0].name}::text.",
        )
    return {name: type_ for name, type_ in types.items() if type_ is not None}


def _check_paths(statement: ast.CreateSink, columns: tuple[logical.Column, ...]) -> None:
    """Refuse columns whose paths collide, because Iceberg separates nested names by dots (SQ2349)."""
    paths = Counter(path for column in columns for path in _paths(column.name, column.type))
    twice = next((path for path, count in paths.items() if count > 1), None)
    if twice is not None:
        raise SinkqlError(
            "SQ2349",
            f'two fields of the table would have the name "{twice}"',
            statement.relation.span,
            hint="In a materialized view, give one of them a name without dots.",
        )


def _paths(path: str, type_: logical.Type) -> Iterator[str]:
    """Yield the Iceberg paths of a column and of its nested fields."""
    yield path
    match type_.name:
        case "record":
            parts = {field.name: field.type for field in type_.fields}
        case "map":
            parts = {"key": TEXT, "value": type_.value}
        case "array":
            parts = {"items": logical.Type("list", element=leaf(type_)), "dimensions": INTEGER}
        case "list" if type_.element is not None:
            parts = {"element": type_.element}
        case name:
            parts = dict.fromkeys(("lower", "upper", *_RANGE_FLAGS), TEXT) if name in SUBTYPES else {}
    for name, part in parts.items():
        yield from _paths(f"{path}.{name}", part)


def _iceberg_type(type_: logical.Type) -> str | None:
    """Return the Iceberg type; None if Iceberg has none.

    For numeric, only the scale counts, so that a wider type still fits the table.
    """
    if type_.name == "record":
        types = [(field, _iceberg_type(field.type)) for field in type_.fields]
        if any(field_type is None for _, field_type in types):
            return None
        fields = (f"{field.name}: {field_type}{'' if field.nullable else ' required'}" for field, field_type in types)
        return f"struct<{', '.join(fields)}>"
    if type_.name == "map":
        value = _iceberg_type(type_.value)
        return None if value is None else f"map<string, {value}>"
    if type_.element is not None:
        element = _iceberg_type(leaf(type_) if type_.name == "array" else type_.element)
        items = None if element is None else f"list<{element}>"
        return items if items is None or type_.name == "list" else f"struct<items: {items}, dimensions: int>"
    subtype = SUBTYPES.get(type_.name)
    if subtype is not None:
        bound = _iceberg_type(subtype)
        flags = ", ".join(f"{name}: boolean" for name in _RANGE_FLAGS)
        return f"struct<lower: {bound}, upper: {bound}, {flags}>"
    return f"decimal(38,{type_.scale})" if type_.name == "numeric" else _TYPES.get(type_.name)


def _plan_options(target: TableOptions, options: IcebergOptions, types: Mapping[str, str]) -> dict[str, Any]:
    planned: dict[str, Any] = {
        "namespace": target.namespace,
        "table": target.table,
        "column_types": dict(types),
        "format_version": options.format_version,
        "maintenance": options.maintenance,
    }
    if options.branch is not None:
        planned["branch"] = options.branch
    if options.existing_rows is not None:
        planned["existing_rows"] = options.existing_rows.lower()
    if options.maintenance_share is not None:
        planned["maintenance_share"] = options.maintenance_share
    if options.retain_snapshots is not None:
        planned["retain_snapshots"] = options.retain_snapshots
    return planned


def dead_letter_write(write: physical.Write, columns: Sequence[physical.Column]) -> physical.Write:
    """Return the write of dead letters to the table `<table>__errors`."""
    options: dict[str, Any] = {
        name: write.options[name] for name in ("namespace", "format_version", "maintenance") if name in write.options
    }
    types = {column.name: _TYPES[column.type.name] for column in columns}
    named = {
        "table": f"{IcebergSink.from_plan(write.options).table}__errors",
        "column_types": types,
        "existing_rows": "keep",
        "letters": True,
    }
    return write.of_dead_letters(columns, {**options, **named})
