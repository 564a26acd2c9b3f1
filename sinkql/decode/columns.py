"""Columns that a source declares → typed columns."""

from __future__ import annotations

from collections.abc import Sequence

from sinkql import ast, logical
from sinkql.connector_api.type_hint import later_type, type_hint
from sinkql.connector_api.types import column_type, length_hint
from sinkql.errors import SinkqlError
from sinkql.logical.typetext import flat


def declared(columns: Sequence[ast.ColumnDef], *, owner: str) -> tuple[logical.Column, ...]:
    """Return typed columns, text where there is no type; `owner` is what messages call such sources. SQ2417, SQ2935."""
    check_names([column.name for column in columns])
    return tuple(_column(column, owner) for column in columns)


def check_names(names: Sequence[ast.Ident]) -> None:
    """Refuse a name that is given twice (SQ2008), and one that is reserved (SQ2009)."""
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
