"""Type the columns that a source declares, and find the type that all texts or values of a sample have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sinkql import ast, logical
from sinkql.connector_api.types import column_type, later_type, length_hint, type_hint
from sinkql.errors import SinkqlError
from sinkql.logical.type import flat


def declared(columns: Sequence[ast.ColumnDef], *, owner: str) -> tuple[logical.Column, ...]:
    """Return typed columns, text by default; `owner` names the sources in messages. Raise SQ2417 and SQ2935."""
    check_names([column.name for column in columns])
    return tuple(_column(column, owner) for column in columns)


def check_primary_key(statement: ast.CreateSource, columns: Sequence[str]) -> None:
    """Raise SQ2204 if a column of the primary key is not among the source's columns."""
    for ident in statement.primary_key:
        if ident.value not in columns:
            raise SinkqlError(
                "SQ2204",
                f'column "{ident.value}" of source "{statement.name.text}" does not exist',
                ident.span,
                hint=f"Its columns are {', '.join(columns)}.",
            )


def check_names(names: Sequence[ast.Ident]) -> None:
    """Refuse a duplicate name (SQ2008) and a reserved name (SQ2009)."""
    seen: set[str] = set()
    for name in names:
        if name.value in seen:
            raise SinkqlError(
                "SQ2008", f'column "{name.value}" is specified more than once', name.span, hint="Rename one of them."
            )
        if name.value.startswith("$"):
            raise SinkqlError(
                "SQ2009",
                f'column name "{name.value}" is reserved',
                name.span,
                hint="Choose a name that does not begin with $.",
            )
        seen.add(name.value)


_TYPES = (
    "Use boolean, smallint, integer, bigint, uint2, uint4, uint8, real, double precision, numeric(p, s), date, time, "
    "timestamp, timestamptz, text, bytea, uuid or jsonb."
)


def _column(column: ast.ColumnDef, owner: str) -> logical.Column:
    name = column.name.value
    if column.type is None:
        return logical.Column(name, logical.Type("text"), not column.not_null)
    type_ = column_type(flat(column.type.text))
    later = later_type(column.type.text)
    if type_ is None and later is not None:
        raise SinkqlError(
            "SQ2935",
            f'column "{name}" has type {column.type.text}, which {owner} do not support yet',
            column.type.span,
            hint=later,
        )
    if type_ is None:
        raise SinkqlError(
            "SQ2417",
            f'column "{name}" has a type that {owner} do not support: {column.type.text}',
            column.type.span,
            hint=length_hint(column.type.text)
            or type_hint(column.type.text, lambda text: column_type(text) is not None, _TYPES),
        )
    return logical.Column(name, type_, not column.not_null)


_TIME = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?"
_DAY = r"\d{4}-\d\d-\d\d"
_FORMS = (
    ("boolean", re.compile(r"true|false")),
    ("bigint", re.compile(r"0|-?[1-9]\d{0,17}")),
    ("double precision", re.compile(r"-?(0|[1-9]\d{0,14})(\.0{0,5}\d{1,17})?([eE][+-]?\d{1,2})?")),
    ("date", re.compile(_DAY)),
    ("timestamp", re.compile(rf"{_DAY}[ T]{_TIME}")),
    ("timestamptz", re.compile(rf"{_DAY}[ T]{_TIME}(Z|[+-]\d\d(:?\d\d)?)")),
)
"""Types of texts, the narrowest first. Numbers that begin with 0 are codes, and so texts."""


def type_of_texts(texts: Sequence[str]) -> str:
    """Return the narrowest type that all texts have; text for no texts."""
    if not texts:
        return "text"
    return next((type_ for type_, form in _FORMS if all(form.fullmatch(text) for text in texts)), "text")


def why_text(texts: Sequence[str]) -> str | None:
    """Return why texts have no narrower type although most of them do; None if most do not."""
    types = [type_of_texts([text]) for text in texts]
    if not texts or len(texts) > 2 * (len(types) - types.count("text")):
        return None
    if "text" in types:
        return f"{_shown(texts[types.index('text')])} is one"
    other = next((text for text, type_ in zip(texts, types, strict=True) if type_ != types[0]), texts[0])
    return f"{_shown(texts[0])} and {_shown(other)} are of different types"


def _shown(text: str) -> str:
    return f'"{text[:40]}…"' if len(text) > 40 else f'"{text}"'


def type_of_values(values: Sequence[Any]) -> str:
    """Return the type of JSON values other than null; jsonb if they have no type in common."""
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return "boolean"
    if kinds == {int} and all(-(1 << 63) <= value < 1 << 63 for value in values):
        return "bigint"
    if float in kinds and all(
        type(value) is float or (type(value) is int and abs(value) < 1 << 53) for value in values
    ):
        return "double precision"
    if kinds == {str}:
        type_ = type_of_texts(values)
        return type_ if type_ in ("date", "timestamp", "timestamptz") else "text"
    return "jsonb"
