"""Define an expression's tree together with the SQL type that the user sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from sinkql import logical
from sinkql.errors import SinkqlError, Span, too_deep
from sinkql.logical import NUMERIC, Call, Cast, Expression, Interval, Literal, Reference, Type
from sinkql.logical import expression as trees
from sinkql.logical import function as functions
from sinkql.logical.type import MOST_DIGITS
from sinkql.planner.expression import scale as scales
from sinkql.planner.expression.exact_numeric import as_double, program, round_once
from sinkql.planner.types import INTEGER_DIGITS, MAX_SCALE, TIMESTAMP, TIMESTAMPTZ

Constant = str | int | Decimal | bool | Interval
_DIFFERENCES = tuple(f"-({type_},{type_})" for type_ in (TIMESTAMP, TIMESTAMPTZ))
# the types whose constants the planner evaluates
_CONSTANT_TYPES = ("unknown", "text", "smallint", "integer", "bigint", "numeric", "boolean", "interval")


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression over a relation's columns, and its SQL type.

    The tree of a numeric may have a narrower type: a literal 1.5 is numeric, its tree a numeric(2,1). `exact` makes
    both types equal. An untyped string or NULL has type unknown. `scale` is the number of fraction digits that Postgres
    shows for a plain numeric, if it is known and the tree does not say it.
    """

    tree: Expression
    type: Type
    scale: int | None = None

    @property
    def span(self) -> Span:
        return self.tree.span

    @property
    def nullable(self) -> bool:
        return self.tree.nullable

    @property
    def raw(self) -> Type:
        """Return the type of the tree."""
        return self.tree.type

    @property
    def shown(self) -> int | None:
        """Return the number of fraction digits that Postgres shows for this as a numeric, None if unknown."""
        if self.scale is not None:
            return self.scale
        if self.type.name in INTEGER_DIGITS:
            return 0
        return self.raw.scale if self.type.name == "numeric" and self.raw != NUMERIC else None

    @property
    def constant(self) -> Constant | None:
        """Return the value of a literal: text, number, boolean, interval or untyped string."""
        if not isinstance(self.tree, Literal) or self.tree.type.name not in _CONSTANT_TYPES:
            return None
        value = self.tree.value
        return value if isinstance(value, Constant) else None

    @property
    def null(self) -> bool:
        """Return whether this is the literal NULL."""
        return isinstance(self.tree, Literal) and self.tree.text is None

    @property
    def column(self) -> str | None:
        """Return the name of the column, None if this is not a column."""
        return self.tree.name if isinstance(self.tree, Reference) else None

    @property
    def difference(self) -> tuple[Typed, Typed] | None:
        """Return the two timestamps of `x - y`."""
        if not isinstance(self.tree, Call) or self.tree.function not in _DIFFERENCES:
            return None
        left, right = (Typed(argument, argument.type) for argument in self.tree.arguments)
        return left, right

    def at(self, span: Span) -> Typed:
        """Return the same expression with another span."""
        return self if span == self.tree.span else replace(self, tree=trees.at(self.tree, span))


def settled(value: Typed) -> Expression:
    """Return the tree with exactly the value's type; raise SQ2209 if the tree is too deep."""
    tree = exact(value).tree
    if trees.depth(tree) > trees.MAX_DEPTH:
        raise too_deep(value.span)
    return tree


def exact(value: Typed) -> Typed:
    """Return the expression with a tree of exactly its type."""
    if value.raw == value.type:
        return value
    check_scale(value)
    return Typed(functions.cast(value.tree, value.type), value.type, value.shown)


def narrowed(value: Typed, scale: int | None = None) -> Typed:
    """Return a plain numeric with the scale that Postgres shows, or with `scale`, if that is known and smaller.

    It has 38 digits, so that every former value still fits.
    """
    scale = value.shown if scale is None else scale
    if value.type != NUMERIC or scale is None or scale >= MAX_SCALE:
        return value
    tree, type_ = value.tree, Type("numeric", MOST_DIGITS, scale)
    if isinstance(tree, Cast) and tree.operand.type.name == "numeric" and (tree.operand.type.scale or 0) <= scale:
        tree = tree.operand  # undo the widening cast
    return Typed(tree if tree.type == type_ else functions.cast(tree, type_, tree.span), type_)


def alike_narrowed(values: Sequence[Typed]) -> tuple[Typed, ...]:
    """Return plain numerics with one scale, which fits the digits that Postgres shows for each."""
    scale = widest(values)
    return tuple(values) if scale is None else tuple(narrowed(value, scale) for value in values)


def widest(values: Sequence[Typed]) -> int | None:
    """Return the greatest scale of values, NULLs excepted; None if a scale is unknown."""
    return scales.widest([value.shown for value in values if not _is_null(value.tree)])


def _is_null(tree: Expression) -> bool:
    while isinstance(tree, Cast):
        tree = tree.operand
    return isinstance(tree, Literal) and tree.text is None


def check_scale(value: Typed) -> None:
    """Raise SQ2214 for a numeric with more fraction digits than a plain numeric, which would be rounded silently."""
    if (value.raw.scale or 0) > MAX_SCALE:
        hint = f"Cast it to a numeric with at most {MAX_SCALE} fraction digits, or to double precision."
        message = f"numeric arithmetic keeps {MAX_SCALE} fraction digits, and this value has {value.raw.scale}"
        raise SinkqlError("SQ2214", message, value.span, hint=hint)


def column(name: str, type_: Type, *, nullable: bool, span: Span) -> Typed:
    """Return a reference to a column of the input."""
    return Typed(Reference(name, type_, nullable, span), type_)


def constant(value: logical.Value | None, type_: Type, span: Span) -> Typed:
    """Return a literal of exactly this type; None is NULL."""
    return Typed(logical.literal(value, type_, span), type_)


def joined(word: str, values: Sequence[Typed], span: Span) -> Typed:
    """Combine conditions with AND or OR."""
    return values[0] if len(values) == 1 else call(f"{word}(boolean…)", values, span)


def null_of(type_: Type, span: Span) -> Typed:
    """Return NULL of a type."""
    return constant(None, type_, span)


def cast_to(value: Typed, target: Type) -> Typed:
    """Cast a value to another type; the cast must exist."""
    double = as_double(value.tree, value.span) if target.name == "double precision" else None
    if double is not None:
        return Typed(double, target)
    rounded = round_once(value.tree, target, value.span)
    if rounded is not None:
        return Typed(rounded if rounded.type == target else functions.cast(rounded, target), target)
    return Typed(functions.cast(value.tree, target), target, value.shown if target == NUMERIC else None)


def call(function: str, arguments: Sequence[Typed], span: Span | None = None, *, type_: Type | None = None) -> Typed:
    """Return a call of a function of `logical.function` by its id, with arguments of exactly its types.

    The default span reaches from the first argument to the last.
    """
    span_ = span if span is not None else around(arguments)
    trees_ = [value.tree for value in arguments]
    result = program(function, trees_, span_) or functions.call(function, trees_, span_, type_=type_)
    if result.type != NUMERIC:
        return Typed(result, result.type)
    chosen = function in scales.CHOICES
    shown = [argument.shown for argument in arguments if not (chosen and _is_null(argument.tree))]
    return Typed(result, result.type, scales.of_call(function, shown, [argument.constant for argument in arguments]))


def around(values: Sequence[Typed]) -> Span:
    """Return the span from the first value to the last."""
    if not values:
        return Span(0, 0)
    return Span(min(value.span.start for value in values), max(value.span.end for value in values))
