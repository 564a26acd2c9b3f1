"""Spark SQL text with its type, and how texts are put together: precedence, repeated operands, literals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from sinkql import logical
from sinkql.connector.types import spark_type
from sinkql.errors import SinkqlError, Span
from sinkql.logical import Type
from sinkql.planner.types import MAX_SCALE

# how strongly Spark SQL binds a text; an operand that binds more weakly stands in parentheses
OR, AND, NOT, PREDICATE, BITS, SUM, PRODUCT, SIGN, ATOM = range(9)
# an operand that a form repeats is bound to a name instead when it is longer than this
_REPEATABLE = 60


@dataclass(frozen=True, slots=True)
class Interval:
    """Hold an interval as Postgres does: months, days and microseconds, each with its sign."""

    months: int = 0
    days: int = 0
    micros: int = 0


Constant = str | int | Decimal | bool | Interval


@dataclass(frozen=True, slots=True)
class Typed:
    """Hold an expression: Spark SQL text over a relation's columns, its SQL type and where it was written.

    `held` is the type that the text really has where it is narrower than `type`: a literal 1.5 is numeric, its text a
    DECIMAL(2,1). `constant` is the value of a literal, `null` marks the literal NULL; an untyped string or NULL has
    type unknown. `difference` holds the two timestamps of `x - y`, `times` the factor of `n * INTERVAL '…'`.
    """

    sql: str
    type: Type
    nullable: bool
    span: Span
    binds: int = ATOM
    held: Type | None = None
    constant: Constant | None = None
    null: bool = False
    column: str | None = None
    difference: tuple[Typed, Typed] | None = field(default=None)
    times: Typed | None = field(default=None)

    def at(self, span: Span) -> Typed:
        """Return the same expression, written somewhere else."""
        return replace(self, span=span)

    def within(self, binds: int) -> str:
        """Return the text as it stands where something that binds at least so strongly is wanted."""
        return self.sql if self.binds >= binds else f"({self.sql})"

    @property
    def raw(self) -> Type:
        """Return the type that Spark sees."""
        return self.held or self.type


def settled(value: Typed) -> logical.Expression:
    """Return the expression with a text that has exactly its type."""
    value = exact(value)
    return logical.Expression(value.sql, value.type, value.nullable, value.span)


def exact(value: Typed) -> Typed:
    """Return the expression with a text that Spark sees in exactly its type."""
    if value.held is None or value.held == value.type:
        return value
    check_scale(value)
    return replace(value, sql=f"CAST({value.sql} AS {spark_type(value.type)})", held=None, binds=ATOM)


def check_scale(value: Typed) -> None:
    """Refuse a numeric with more fraction digits than plain numeric keeps: they would be rounded off silently."""
    if (value.raw.scale or 0) > MAX_SCALE:
        hint = f"Cast it to a numeric with at most {MAX_SCALE} fraction digits, or to double precision."
        message = f"numeric arithmetic keeps {MAX_SCALE} fraction digits, and this value has {value.raw.scale}"
        raise SinkqlError("SQ2214", message, value.span, hint=hint)


def column(name: str, type_: Type, *, nullable: bool, span: Span) -> Typed:
    """Refer to a column of the input."""
    return Typed(quoted(name), type_, nullable, span, column=name)


def quoted(name: str) -> str:
    """Return a column's name as Spark SQL takes it."""
    return "`" + name.replace("`", "``") + "`"


def text_literal(value: str) -> str:
    """Return a Spark SQL string literal of exactly that value."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + re.sub(r"[\x00-\x1f]", lambda match: f"\\u{ord(match[0]):04X}", escaped) + "'"


def constant_in_form(value: str) -> str:
    """Return the same literal for use inside a form: with no @, which stands for arguments there."""
    return text_literal(value).replace("@", "\\u0040")


def null_of(type_: Type, span: Span) -> Typed:
    """Return NULL of a type."""
    return Typed(f"CAST(NULL AS {spark_type(type_)})", type_, True, span, null=True)


def infix(operator: str, left: Typed, right: Typed, *, type_: Type, binds: int, held: Type | None = None) -> Typed:
    """Put two operands around an operator that groups to the left."""
    sql = f"{left.within(binds)} {operator} {right.within(binds + 1)}"
    span = Span(min(left.span.start, right.span.start), max(left.span.end, right.span.end))
    return Typed(sql, type_, left.nullable or right.nullable, span, binds=binds, held=held)


_PLACE = re.compile(r"@(\d)")


def form(
    template: str, arguments: Sequence[Typed], type_: Type, *, nullable: bool | None = None, binds: int = ATOM
) -> Typed:
    """Fill a verified form: `@0`, `@1`, … stand for the arguments.

    A long argument that the form repeats is evaluated once, under a name (a lambda's parameter), so that nested forms
    do not double at every level.
    """
    span = Span(min(a.span.start for a in arguments), max(a.span.end for a in arguments)) if arguments else Span(0, 0)
    uses = [int(place) for place in _PLACE.findall(template)]
    bound: list[tuple[str, str]] = []
    texts = []
    for index, argument in enumerate(arguments):
        if uses.count(index) > 1 and len(argument.sql) > _REPEATABLE:
            name = f"`$v{index}`"  # users' columns do not begin so; an inner parameter of that name is its own
            bound.append((name, argument.sql))
            texts.append((name, ATOM))
        else:
            texts.append((argument.sql, argument.binds))
    sql = _PLACE.sub(lambda match: _placed(template, match, texts[int(match[1])]), template)
    for name, value in reversed(bound):
        sql = f"transform(array({value}), {name} -> {sql})[0]"
        binds = ATOM
    may_be_null = any(argument.nullable for argument in arguments) if nullable is None else nullable
    return Typed(sql, type_, may_be_null, span, binds=binds)


def _placed(template: str, match: re.Match[str], text: tuple[str, int]) -> str:
    sql, binds = text
    alone = template[: match.start()].rstrip()[-1:] in ("(", ",") and template[match.end() :].lstrip()[:1] in (")", ",")
    # CAST(@0 AS …) takes any expression; elsewhere it stands among operators
    alone = alone or (template[: match.start()].endswith("CAST(") and template[match.end() :].startswith(" AS "))
    return sql if alone or binds == ATOM else f"({sql})"
