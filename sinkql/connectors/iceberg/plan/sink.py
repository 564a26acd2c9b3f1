"""CREATE SINK … INTO ICEBERG CATALOG → the writer's options, and the columns of its table.

The planned options, which `physical.Write.options` carries: `namespace`, `table`, `column_types` (column → Iceberg
type, changelog included, in order), `format_version`, `maintenance`,
`existing_rows` (keep, replace; left out: refuse), `retain_snapshots`, `maintenance_share` (left out: the default),
`partition_by` and `sort_by` (see `layout`), `branch` (left out: main).
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from sinkql import ast, logical, physical
from sinkql.connector_api.options import bind, option_field, option_labels, option_span
from sinkql.connector_api.planning import PlanningContext, SinkPlan
from sinkql.connector_api.sink_options import SinkOptions, check_positive
from sinkql.connectors.iceberg.plan.layout import plan_order, plan_partitions
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
"""Options in WITH (…) that say how a sink and its table begin."""
_APART = "Write another TABLE. Append sinks may share one if each of them has EXISTING ROWS = KEEP."
_SEPARATORS = "/\\#?%"
"""Characters that part paths and URLs, or stand for others there. Where a table lies is both."""
_LONGEST = 200
"""Bytes of a name: file systems take 255, and some names are made longer."""
_MAIN = "main"
_RANGE_FLAGS = ("lower_inclusive", "upper_inclusive", "empty")
_CHANGELOG = (
    logical.Column("_mz_diff", logical.Type("integer"), nullable=False),
    logical.Column("_mz_timestamp", logical.Type("bigint"), nullable=False),
)


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What INTO … (…) says: where the table is."""

    namespace: str = option_field("the namespace of the table")
    table: str = option_field("the name of the table; the sink creates it")


@dataclass(frozen=True, slots=True)
class IcebergOptions(SinkOptions):
    """What WITH (…) says."""

    format_version: int = option_field("the format version of a new table: 2 or 3", default=2)
    retain_snapshots: int | None = option_field(
        "the snapshots to keep; 100 by default, `history.expire` settings of the table override it",
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
    """Bind the options (SQ21xx, SQ2326, SQ2328, SQ2330), find each column's Iceberg type (SQ2310); see `layout`."""
    if planning.catalog.setting("enable_iceberg_sink") == "false":
        raise SinkqlError(
            "SQ2320",
            "sinks into Iceberg are switched off",
            statement.kind_span,
            hint="Run ALTER SYSTEM SET enable_iceberg_sink = true; before it.",
        )
    _check_places(statement)
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
    if any(_has_times(each.type) for each in columns):
        planning.notice(
            Notice(
                "SQ2329",
                "Spark cannot read Iceberg tables that have a column of type time",
                statement.relation.span,
                hint="Cast it to text in a materialized view if Spark is to read the table.",
            )
        )
    for first, second in _alike(columns):
        planning.notice(
            Notice(
                "SQ2369",
                f"{first} and {second} differ only in the case of letters, which Spark and Trino do not tell apart",
                statement.relation.span,
                hint=f"Give one of them another name in a materialized view: SELECT {second} AS other, ….",
            )
        )
    planned = _planned(target, options, types)
    if statement.partition_by:
        planned["partition_by"] = plan_partitions(statement, types)
    if statement.sort_by:
        planned["sort_by"] = plan_order(statement, types)
    return SinkPlan(planned, columns, options)


def _alike(columns: Sequence[logical.Column]) -> Iterator[tuple[str, str]]:
    """Yield the columns, as they are written, whose names differ only in the case of letters from an earlier one."""
    first: dict[str, str] = {}
    for column in columns:
        known = first.setdefault(column.name.casefold(), column.name)
        if known != column.name:
            yield shown_name(known), shown_name(column.name)


def _check_name(option: str, name: str, span: Span) -> None:
    """Refuse an empty name (SQ2328), and one that is not a single segment of paths and URLs as it is (SQ2333)."""
    if not name.strip():
        raise SinkqlError("SQ2328", f"{option} must not be empty", span, hint=f"Write {option} = '…' with its name.")
    odd = next((each for each in name if each in _SEPARATORS or unicodedata.category(each) in ("Cc", "Cs")), None)
    if odd is not None:
        what = f'"{odd}"' if odd.isprintable() else f"U+{ord(odd):04X}"
        raise UnfitNameError("SQ2333", f"{option} must not contain {what}", span, hint="Write another name.")
    if len(name.encode()) > _LONGEST:
        message = f"{option} is longer than {_LONGEST} bytes"
        raise UnfitNameError("SQ2333", message, span, hint="Write a shorter name.")
    if name != name.strip() or (option == "TABLE" and name in (".", "..")):
        raise UnfitNameError("SQ2333", f'{option} must not be "{name}"', span, hint="Write another name.")
    if option == "NAMESPACE" and not all(name.split(".")):
        message = f'NAMESPACE "{name}" has an empty level'
        raise UnfitNameError("SQ2333", message, span, hint="Write names with single dots between them.")


def _check_branch(name: str, span: Span) -> None:
    """Refuse the name of main, and what is none (SQ2346)."""
    if name == _MAIN:
        raise SinkqlError(
            "SQ2346", "BRANCH must not be main", span, hint="Leave it out: without BRANCH a sink commits to main."
        )
    if not name or name != name.strip() or not name.isprintable() or len(name.encode()) > _LONGEST:
        message = f"BRANCH must be a name of 1 to {_LONGEST} bytes, without blanks around it"
        raise SinkqlError("SQ2346", message, span, hint="Write BRANCH = 'audit', for instance.")


def destination(sink: logical.Sink) -> logical.Destination:
    """Return the table that a planned sink writes to; a branch is called as Spark does."""
    rows, branch = sink.options.get("existing_rows"), sink.options.get("branch")
    path = (sink.options["namespace"], sink.options["table"], *((f"branch_{branch}",) if branch is not None else ()))
    refused = None if rows else "name a new TABLE, or write EXISTING ROWS = KEEP or REPLACE"
    replaces = rows == "replace"
    alone = sink.mode == logical.SinkMode.UPSERT or replaces
    apart = _APART if branch is None else _APART.replace("TABLE", "BRANCH or TABLE", 1)
    return logical.Destination("table", path, refused, alone=alone, apart=apart, branch=branch, replaces=replaces)


def check_using(statement: ast.CreateSink, sink: logical.Sink, planning: PlanningContext) -> None:
    """Refuse keys of AWS for files of a catalog of Google's (SQ2535)."""
    catalog = planning.connection(statement.connection, sink.kind)
    if statement.using is not None and statement.using.kind == "AWS" and "gcp_connection" in catalog.options:
        raise SinkqlError(
            "SQ2535",
            f'the files of connection "{statement.connection.text}" are not in AWS',
            statement.using.span,
            hint="Leave out USING AWS CONNECTION: GCP CONNECTION of the catalog reaches the files too.",
        )


def _check_places(statement: ast.CreateSink) -> None:
    """Refuse an option of INTO … (…) in WITH (…), and the other way round (SQ2105)."""
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
            hint="Write MAINTENANCE SHARE = 15; MAINTENANCE = false leaves out the rest of maintenance too.",
        )


def _check_version(statement: ast.CreateSink, options: IcebergOptions) -> None:
    if options.format_version not in (2, 3):
        raise SinkqlError(
            "SQ2330",
            f"FORMAT VERSION must be 2 or 3, not {options.format_version}",
            option_span(statement.with_options, "FORMAT VERSION", statement.kind_span),
            hint="Write FORMAT VERSION = 2, or 3 for deletion vectors and ids of rows.",
        )


def _has_times(type_: logical.Type) -> bool:
    within = [each.type for each in type_.fields] if type_.element is None else [type_.element]
    return type_.name == "time" or any(map(_has_times, within))


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


def _check_paths(statement: ast.CreateSink, columns: tuple[logical.Column, ...]) -> None:
    """Refuse columns of which one is called as a part of another one is: Iceberg parts names by dots (SQ2349)."""
    paths = Counter(path for column in columns for path in _paths(column.name, column.type))
    twice = next((path for path, count in paths.items() if count > 1), None)
    if twice is not None:
        raise SinkqlError(
            "SQ2349",
            f'two fields of the table would be called "{twice}"',
            statement.relation.span,
            hint="Give one of them a name without dots in a materialized view.",
        )


def _paths(path: str, type_: logical.Type) -> Iterator[str]:
    """Yield the names of a column and of all that is in it, as Iceberg has them."""
    yield path
    match type_.name:
        case "record":
            parts = {each.name: each.type for each in type_.fields}
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
    """Return the Iceberg type; of numeric only the scale is kept, so that a wider view still fits the table."""
    if type_.name == "record":
        types = [(each, _iceberg_type(each.type)) for each in type_.fields]
        if any(found is None for _, found in types):
            return None
        fields = (f"{each.name}: {found}{'' if each.nullable else ' required'}" for each, found in types)
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


def _planned(target: TableOptions, options: IcebergOptions, types: Mapping[str, str]) -> dict[str, Any]:
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


def letters(write: physical.Write, columns: Sequence[physical.Column]) -> physical.Write:
    """Return what writes the records that a sink's sources could not decode: to the table `<table>__errors`."""
    kept = {
        name: write.options[name] for name in ("namespace", "format_version", "maintenance") if name in write.options
    }
    types = {each.name: _TYPES[each.type.name] for each in columns}
    return msgspec.structs.replace(
        write,
        input=physical.Read("letters", "", {}, tuple(columns)),
        columns=tuple(columns),
        mode="append",
        change="append",
        changelog=False,
        key=(),
        proven=False,
        options={
            **kept,
            "table": f"{write.options['table']}__errors",
            "column_types": types,
            "existing_rows": "keep",
            "letters": True,
        },
    )
