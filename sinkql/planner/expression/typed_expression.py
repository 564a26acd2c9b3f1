"""An expression's tree with what the planner has to know besides: the type that the user sees."""

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
_DIFFERENCES = tuple(f"-({each},{each})" for each in (TIMESTAMP, TIMESTAMPTZ))
# the types whose constants the planner looks at
_KNOWN = ("unknown", "text", "smallint", "integer", "bigint", "numeric", "boolean", "interval")


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression over a relation's columns, and its SQL type.

    The tree's own type is narrower where a numeric is: a literal 1.5 is numeric, its tree a numeric(2,1).
    `exact` brings the two together. An untyped string or NULL has type unknown. `scale` is how many digits after the
    point Postgres shows of a plain numeric, where that is known and its tree does not say it.
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
        """The tree's own type."""
        return self.tree.type

    @property
    def shown(self) -> int | None:
        """How many digits after the point Postgres shows of it as a numeric; None where that is not known."""
        if self.scale is not None:
            return self.scale
        if self.type.name in INTEGER_DIGITS:
            return 0
        return self.raw.scale if self.type.name == "numeric" and self.raw != NUMERIC else None

    @property
    def constant(self) -> Constant | None:
        """A literal's value: of text, numbers, booleans and intervals, and of strings that have no type yet."""
        if not isinstance(self.tree, Literal) or self.tree.type.name not in _KNOWN:
            return None
        value = self.tree.value
        return value if isinstance(value, Constant) else None

    @property
    def null(self) -> bool:
        """Whether this is the literal NULL."""
        return isinstance(self.tree, Literal) and self.tree.text is None

    @property
    def column(self) -> str | None:
        """The name of the column that this is."""
        return self.tree.name if isinstance(self.tree, Reference) else None

    @property
    def difference(self) -> tuple[Typed, Typed] | None:
        """The two timestamps of `x - y`."""
        if not isinstance(self.tree, Call) or self.tree.function not in _DIFFERENCES:
            return None
        left, right = (Typed(each, each.type) for each in self.tree.arguments)
        return left, right

    def at(self, span: Span) -> Typed:
        """Return the same expression, written somewhere else."""
        return self if span == self.tree.span else replace(self, tree=trees.at(self.tree, span))


def settled(value: Typed) -> Expression:
    """Return the tree, of exactly the value's type; raises SQ2209 for one that is too deep to be worked with."""
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
    """Return a plain numeric as one of the scale that Postgres shows, or of a given one, where that is known and less.

    It has 38 digits, so that each value has room that had it before.
    """
    scale = value.shown if scale is None else scale
    if value.type != NUMERIC or scale is None or scale >= MAX_SCALE:
        return value
    tree, type_ = value.tree, Type("numeric", MOST_DIGITS, scale)
    if isinstance(tree, Cast) and tree.operand.type.name == "numeric" and (tree.operand.type.scale or 0) <= scale:
        tree = tree.operand  # it was widened
    return Typed(tree if tree.type == type_ else functions.cast(tree, type_, tree.span), type_)


def alike_narrowed(values: Sequence[Typed]) -> tuple[Typed, ...]:
    """Return plain numerics as those of one scale, which has room for the digits that Postgres shows of each."""
    scale = widest(values)
    return tuple(values) if scale is None else tuple(narrowed(each, scale) for each in values)


def widest(values: Sequence[Typed]) -> int | None:
    """Return the greatest scale of several values, of which NULLs have none; None where one is not known."""
    return scales.widest([each.shown for each in values if not _is_null(each.tree)])


def _is_null(tree: Expression) -> bool:
    while isinstance(tree, Cast):
        tree = tree.operand
    return isinstance(tree, Literal) and tree.text is None


def check_scale(value: Typed) -> None:
    """Refuse a numeric with more fraction digits than plain numeric keeps: they would be rounded off silently."""
    if (value.raw.scale or 0) > MAX_SCALE:
        hint = f"Cast it to a numeric with at most {MAX_SCALE} fraction digits, or to double precision."
        message = f"numeric arithmetic keeps {MAX_SCALE} fraction digits, and this value has {value.raw.scale}"
        raise SinkqlError("SQ2214", message, value.span, hint=hint)


def column(name: str, type_: Type, *, nullable: bool, span: Span) -> Typed:
    """Refer to a column of the input."""
    return Typed(Reference(name, type_, nullable, span), type_)


def constant(value: logical.Value | None, type_: Type, span: Span) -> Typed:
    """Return a literal of exactly its type; None is NULL."""
    return Typed(logical.literal(value, type_, span), type_)


def joined(word: str, values: Sequence[Typed], span: Span) -> Typed:
    """Return conditions with AND or OR between them."""
    return values[0] if len(values) == 1 else call(f"{word}(boolean…)", values, span)


def null_of(type_: Type, span: Span) -> Typed:
    """Return NULL of a type."""
    return constant(None, type_, span)


def cast_to(value: Typed, target: Type) -> Typed:
    """Return a value as another type; there must be such a cast."""
    double = as_double(value.tree, value.span) if target.name == "double precision" else None
    if double is not None:
        return Typed(double, target)
    once = round_once(value.tree, target, value.span)
    if once is not None:
        return Typed(once if once.type == target else functions.cast(once, target), target)
    return Typed(functions.cast(value.tree, target), target, value.shown if target == NUMERIC else None)


def call(function: str, arguments: Sequence[Typed], span: Span | None = None, *, type_: Type | None = None) -> Typed:
    """Return a call of `logical.function`'s list by its id, over values of just the types that it takes.

    A span that is not given goes from the first argument to the last.
    """
    place = span if span is not None else around(arguments)
    trees_ = [value.tree for value in arguments]
    found = program(function, trees_, place) or functions.call(function, trees_, place, type_=type_)
    if found.type != NUMERIC:
        return Typed(found, found.type)
    chosen = function in scales.CHOICES
    shown = [each.shown for each in arguments if not (chosen and _is_null(each.tree))]
    return Typed(found, found.type, scales.of_call(function, shown, [each.constant for each in arguments]))


def around(values: Sequence[Typed]) -> Span:
    """Return the span from the first value to the last."""
    if not values:
        return Span(0, 0)
    return Span(min(value.span.start for value in values), max(value.span.end for value in values))
