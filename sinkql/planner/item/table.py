"""Plan CREATE TABLE as a source with retractions, with the keys that its file enforces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from sinkql import ast, logical
from sinkql.connector_api.options import unknown_option_error
from sinkql.connector_api.types import column_type, later_type, length_hint, type_hint
from sinkql.errors import MissingColumnError, MissingError, SinkqlError, Span, nearest
from sinkql.logical.type import flat, shown_name
from sinkql.planner.expression.assign import assign
from sinkql.planner.name import check_columns
from sinkql.planner.types import describe, is_comparable, is_range

KIND = "TABLE"
_ANY_TIME = datetime(2000, 1, 1)
_TYPES = (
    "boolean, smallint, integer, bigint, uint2, uint4, uint8, real, double precision, numeric(p, s), date, "
    "time, timestamp, timestamptz, text, bytea, uuid or jsonb"
)
_LATER_OPTIONS = ("PARTITION BY", "RETAIN HISTORY")
_LENGTH = re.compile(r"(varchar|character varying|char|character) ?\( ?(\d+) ?\)")
_HINTS = {
    "CHECK": ("SQ2940", "CHECK constraints are", "Leave it out; filter the rows in a view with WHERE."),
    "FOREIGN KEY": ("SQ2941", "foreign keys are", "Leave it out; find rows without a partner with a query."),
    "REFERENCES": ("SQ2941", "foreign keys are", "Leave it out; find rows without a partner with a query."),
}


def plan_table(full_name: str, statement: ast.CreateTable, facts: logical.Facts) -> logical.Source:
    """Plan columns, keys and defaults; the rows are in the file that `facts` names."""
    _check_supported(statement)
    if not statement.columns:
        raise SinkqlError(
            "SQ2426", "the table has no columns", statement.name.span, hint="Write CREATE TABLE name (id bigint)."
        )
    check_columns(tuple((column.name.value, column.name.span) for column in statement.columns))
    primary = {name for kind, names in rules(statement) if kind == "PRIMARY KEY" for name in names}
    columns = tuple(_column(column, primary) for column in statement.columns)
    nullable = {column.name for column in columns if column.nullable}
    keys = tuple(frozenset(key) for key in unique_keys(statement) if not nullable & set(key))
    for column, written in zip(columns, statement.columns, strict=True):
        _check_default(column, written)
    shape = logical.Shape(columns, tuple(dict.fromkeys(keys)), logical.Change.RETRACT)
    return logical.Source(full_name, KIND, {"table_id": facts.get("table_id")}, shape, common=True)


def unique_keys(statement: ast.CreateTable) -> tuple[tuple[str, ...], ...]:
    """Return the columns of each key that the table enforces, the PRIMARY KEY first.

    Raises SQ2204 (no such column), SQ2304 (a duplicate column), SQ2427 (two primary keys), SQ2428 (a type that cannot
    be compared exactly).
    """
    keys = sorted(rules(statement), key=lambda rule: rule[0] != "PRIMARY KEY")
    return tuple(dict.fromkeys(names for _, names in keys))


def rules(statement: ast.CreateTable) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the PRIMARY KEY and each UNIQUE with its columns; raise like `unique_keys`."""
    primary: Span | None = None
    for kind, names, span in _declared_keys(statement):
        if kind == "PRIMARY KEY":
            if primary is not None:
                raise SinkqlError(
                    "SQ2427", "multiple primary keys are not allowed", span, hint="Make one of them UNIQUE."
                )
            primary = span
        for name in names:
            _check_key_column(statement, name, names)
        yield kind, tuple(name.value for name in names)


def length(column: ast.ColumnDef) -> int | None:
    """Return the maximum number of characters of a varchar(n) or char(n) column."""
    match = _LENGTH.fullmatch(flat(column.type.text)) if column.type is not None else None
    return int(match[2]) if match else 1 if is_char(column) else None


def is_char(column: ast.ColumnDef) -> bool:
    """Return whether a column is char or char(n), where trailing blanks are not significant."""
    text = flat(column.type.text) if column.type is not None else ""
    match = _LENGTH.fullmatch(text)
    return (match[1] if match else text) in ("char", "character")


def default(column: ast.ColumnDef) -> ast.Expression | None:
    """Return a column's DEFAULT."""
    return next((constraint.expression for constraint in column.constraints if constraint.kind == "DEFAULT"), None)


def _declared_keys(statement: ast.CreateTable) -> Iterator[tuple[str, tuple[ast.Ident, ...], Span]]:
    for column in statement.columns:
        for constraint in column.constraints:
            if constraint.kind in ("PRIMARY KEY", "UNIQUE"):
                yield constraint.kind, (column.name,), constraint.span
    for rule in statement.constraints:
        if rule.kind in ("PRIMARY KEY", "UNIQUE"):
            yield rule.kind, rule.columns, rule.span


def _check_key_column(statement: ast.CreateTable, name: ast.Ident, key: tuple[ast.Ident, ...]) -> None:
    written = {column.name.value: column for column in statement.columns}
    if name.value not in written:
        near = nearest(name.value, list(written))
        hint = f'Did you mean "{near}"?' if near else f"The columns are {', '.join(map(shown_name, written))}."
        raise SinkqlError("SQ2204", f'column "{name.value}" does not exist', name.span, hint=hint)
    if sum(other.value == name.value for other in key) > 1:
        raise SinkqlError(
            "SQ2304", f'key column "{name.value}" is specified more than once', name.span, hint="Keep one of them."
        )
    type_ = written[name.value].type
    column_type_ = column_type(flat(type_.text)) if type_ is not None else None
    if column_type_ is not None and (not is_comparable(column_type_) or is_range(column_type_)):
        raise SinkqlError(
            "SQ2428",
            f'column "{name.value}" is of type {column_type_}, which cannot be in a key',
            name.span,
            hint="Add columns with the values that identify a row, and use them as the key.",
        )


def _is_type(text: str) -> bool:
    return column_type(text) is not None


def _column(column: ast.ColumnDef, primary: set[str]) -> logical.Column:
    name = column.name.value
    written = flat(column.type.text) if column.type is not None else ""
    type_ = column_type(written)
    later = later_type(written)
    if later is not None and type_ is None:
        raise SinkqlError(
            "SQ2935",
            f'column "{name}" has type {written}, which tables do not support yet',
            column.type.span if column.type is not None else column.name.span,
            hint=later,
        )
    if type_ is None:
        raise SinkqlError(
            "SQ2429",
            f'column "{name}" has a type that tables do not support: {written}',
            column.type.span if column.type is not None else column.name.span,
            hint=length_hint(written) or type_hint(written, _is_type, f"Use {_TYPES}."),
        )
    required = column.not_null or name in primary
    for constraint in column.constraints:
        if constraint.kind == "NULL" and required:
            raise SinkqlError(
                "SQ2430",
                f'conflicting NULL and NOT NULL declarations for column "{name}"',
                constraint.span,
                hint="Leave out one of them.",
            )
    return logical.Column(name, type_, not required)


def _check_default(column: logical.Column, written: ast.ColumnDef) -> None:
    expression = default(written)
    if expression is None:
        return
    from sinkql.planner.query.translate import scalar  # deferred: imports sqlglot

    try:
        assign(scalar(expression, _ANY_TIME), column)
    except (MissingColumnError, MissingError) as error:
        raise SinkqlError(
            "SQ2431",
            f'cannot refer to a column in the DEFAULT of column "{column.name}"',
            error.span,
            hint=f"Write a value for {describe(column)}, or compute it in INSERT.",
        ) from None


def _check_supported(statement: ast.CreateTable) -> None:
    if statement.temporary:
        head = Span(statement.span.start, statement.name.span.end)
        raise SinkqlError(
            "SQ2942",
            "temporary tables are not supported yet",
            head,
            hint="Leave out TEMPORARY, and drop it at the end.",
        )
    for option in statement.with_options:
        if option.name not in _LATER_OPTIONS:
            raise unknown_option_error(option, _LATER_OPTIONS, owner="tables")
        raise SinkqlError(
            "SQ2943", f"table option {option.name} is not supported yet", option.name_span, hint="Leave it out."
        )
    for column in statement.columns:
        if column.collation is not None:
            raise SinkqlError(
                "SQ2944",
                "COLLATE of columns is not supported yet",
                column.collation.span,
                hint="Leave it out: text is ordered by its bytes.",
            )
        for constraint in column.constraints:
            _check_constraint(constraint.kind, constraint.span)
    for rule in statement.constraints:
        _check_constraint(rule.kind, rule.span)


def _check_constraint(kind: str, span: Span) -> None:
    if kind in _HINTS:
        code, what, hint = _HINTS[kind]
        raise SinkqlError(code, f"{what} not supported yet", span, hint=hint)
