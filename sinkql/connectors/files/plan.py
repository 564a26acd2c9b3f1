"""CREATE SOURCE … FROM FILES → typed columns and the reader's options."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from sinkql import ast, logical
from sinkql.connector.options import bind, option_span
from sinkql.connector.plan import Planning, SourcePlan
from sinkql.connector.type_hint import type_hint
from sinkql.connector.types import column_type
from sinkql.errors import SinkqlError, Span

_LATER = ("PARQUET", "AVRO")
_DATA = logical.Column("data", logical.Type("jsonb"))


@dataclass(frozen=True, slots=True)
class FilesOptions:
    """The options of FROM FILES: `path` is a folder or a file, `glob` a pattern of the names in it."""

    path: str
    glob: str = "*"
    recursive: bool = False
    follow: bool = True
    max_files_per_commit: int | None = None


@dataclass(frozen=True, slots=True)
class FilesSourceOptions:
    """The options of WITH (…)."""

    on_error: Literal["FAIL", "SKIP"] = "FAIL"


def plan(statement: ast.CreateSource, facts: logical.Facts, planning: Planning) -> SourcePlan:
    """Plan a FILES source: append-only rows of the declared columns."""
    if statement.connection is not None:
        raise _later("files on a connection are", statement.connection.span, "Leave out CONNECTION: PATH is local.")
    options = bind(statement.options, FilesOptions, owner="files sources", span=statement.kind_span)
    for option in statement.with_options:
        if option.name == "ON ERROR" and isinstance(option.value, ast.Text) and option.value.value == "DEAD LETTER":
            hint = "Use ON ERROR = SKIP, which counts the rows, or FAIL."
            raise _later("ON ERROR = DEAD LETTER is", option.span, hint)
    source_options = bind(statement.with_options, FilesSourceOptions, owner="files sources", span=statement.kind_span)
    if options.max_files_per_commit == 0:
        raise SinkqlError(
            "SQ2403",
            "MAX FILES PER COMMIT is 0",
            option_span(statement.options, "MAX FILES PER COMMIT", statement.kind_span),
            hint="Write MAX FILES PER COMMIT 1 or more.",
        )
    if statement.include:
        raise _later("INCLUDE for files is", statement.include[0].span, "Leave out INCLUDE.")
    if statement.envelope not in (None, "NONE"):
        raise _later(f"ENVELOPE {statement.envelope} for files is", statement.kind_span, "Leave out ENVELOPE.")
    format_ = _format(statement)
    columns = _columns(statement, format_)
    names = [column.name for column in columns]
    keys = (frozenset(ident.value for ident in statement.primary_key),) if statement.primary_key else ()
    for ident in statement.primary_key:
        if ident.value not in names:
            raise SinkqlError(
                "SQ2415",
                f'source "{statement.name.text}" has no column "{ident.value}"',
                ident.span,
                hint=f"Its columns are {', '.join(names)}.",
            )
    tuning: dict[str, Any] = {"max_files_per_commit": options.max_files_per_commit}
    return SourcePlan(
        {
            "path": options.path,
            "glob": options.glob,
            "recursive": options.recursive,
            "follow": options.follow,
            "on_error": source_options.on_error.lower(),
            "format": format_,
            "tuning": tuning,
        },
        logical.Shape(columns, keys, logical.Change.APPEND),
    )


def _format(statement: ast.CreateSource) -> dict[str, Any]:
    format_ = statement.format
    if format_ is None:
        raise SinkqlError(
            "SQ2410",
            "files sources need a FORMAT",
            statement.kind_span,
            hint="Add FORMAT JSON or FORMAT CSV WITH HEADER.",
        )
    if format_.name in _LATER:
        raise _later(f"FORMAT {format_.name} for files is", format_.span, "Use FORMAT JSON or FORMAT CSV.")
    if format_.name not in ("JSON", "CSV"):
        raise SinkqlError(
            "SQ2411",
            f"files sources have no FORMAT {format_.name}",
            format_.span,
            hint="Use FORMAT JSON or FORMAT CSV.",
        )
    if format_.array:
        raise _later("FORMAT JSON ARRAY for files is", format_.span, "Use FORMAT JSON: one object a line.")
    if format_.name == "JSON":
        return {"name": "JSON", "whole": not statement.columns}
    delimiter = format_.delimiter or ","
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise SinkqlError(
            "SQ2412",
            "DELIMITED BY takes an ASCII character, no quote or line end",
            format_.span,
            hint="Write DELIMITED BY ';'.",
        )
    return {"name": "CSV", "header": format_.header, "delimiter": delimiter}


def _columns(statement: ast.CreateSource, format_: dict[str, Any]) -> tuple[logical.Column, ...]:
    written = statement.format
    if not statement.columns and format_["name"] == "JSON":
        return (_DATA,)
    if not statement.columns and written is not None:
        names = [ident.value for ident in written.names] or [f"column{i + 1}" for i in range(written.column_count or 0)]
        if not names:
            raise SinkqlError(
                "SQ2413",
                "a CSV source needs columns",
                written.span,
                hint=f"Write CREATE SOURCE {statement.name.text} (id bigint, name text) FROM FILES ….",
            )
        _check_names(written.names)
        return tuple(logical.Column(name, logical.Type("text")) for name in names)
    _check_names(tuple(column.name for column in statement.columns))
    return tuple(_column(column) for column in statement.columns)


def _check_names(names: tuple[ast.Ident, ...]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.value in seen:
            raise SinkqlError("SQ2414", f'column "{name.value}" is given twice', name.span, hint="Rename one of them.")
        if name.value.startswith("$"):
            raise SinkqlError(
                "SQ2416", f'column "{name.value}" begins with $', name.span, hint="Names with $ at the start are taken."
            )
        seen.add(name.value)


_TYPES = (
    "Use boolean, smallint, integer, bigint, real, double precision, numeric(p, s), date, time, timestamp, "
    "timestamptz, text, bytea, uuid or jsonb."
)


def _column(column: ast.ColumnDef) -> logical.Column:
    name = column.name.value
    if column.type is None:
        return logical.Column(name, logical.Type("text"), not column.not_null)
    type_ = column_type(re.sub(r"\s+", " ", column.type.text.strip().lower()))
    if type_ is None:
        raise SinkqlError(
            "SQ2417",
            f'column "{name}" has a type that files sources do not have: {column.type.text}',
            column.type.span,
            hint=type_hint(column.type.text, lambda text: column_type(text) is not None, _TYPES),
        )
    return logical.Column(name, type_, not column.not_null)


def _later(what: str, span: Span, hint: str) -> SinkqlError:
    return SinkqlError("SQ2902", f"{what} not supported yet", span, hint=hint)
