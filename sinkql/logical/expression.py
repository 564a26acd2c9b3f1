"""An expression's meaning: a tree of typed nodes over the columns of one relation.

A tree says what to compute, and nothing about the spelling in an engine. Equal trees have equal meanings; their
places in the text (`span`) do not count. The union is closed, so code matches on it without a default.
"""

from __future__ import annotations

import json
import math
import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, TypeVar

import msgspec

from sinkql.errors import Span
from sinkql.logical.type import Type

NOWHERE = Span(0, 0)
_DIGITS = Context(prec=80)
MAX_FRAMES = 5000
"""The depth of Python calls for the deepest trees; a thread's stack of 8 MB has room for eight times as many."""
MAX_DEPTH = 600 if sys.version_info[:2] == (3, 12) else 1100
"""The maximum depth of a tree: code that reads trees makes up to four calls per node.

In Python 3.12, libraries in C can nest 1,500 calls, and JSON makes two per node.
"""


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval as Postgres stores it: months, days and microseconds, each with its sign."""

    months: int = 0
    days: int = 0
    micros: int = 0


Value = bool | int | float | Decimal | str | bytes | date | time | datetime | Interval | tuple[Any, ...]
"""A literal's value: the type's Python value; for arrays, lists and records a tuple, with None for NULL; for maps a
tuple of keys and values, ordered by key. Values of uuid and jsonb are str, timestamptz is in UTC."""


class _Node(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="node"):
    """The base of all nodes: nodes are equal if their meanings are equal; their places in the text do not count."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Node) and (self is other or _facts(self) == _facts(other))

    def __hash__(self) -> int:
        return hash(_facts(self))


class Reference(_Node, frozen=True, tag="column"):
    """A column of the relation below, by its name."""

    name: str
    type: Type
    nullable: bool = True
    span: Span = NOWHERE


class Literal(_Node, frozen=True, tag="literal"):
    """A constant; `text` is the canonical text of its value (see `text_of`), None is NULL.

    A numeric has exactly the precision and scale of its type, and its text has exactly that many fraction digits.
    """

    text: str | None
    type: Type
    span: Span = NOWHERE

    @property
    def nullable(self) -> bool:
        return self.text is None

    @property
    def value(self) -> Value | None:
        """The value in Python."""
        return None if self.text is None else value_of(self.text, self.type)


class Cast(_Node, frozen=True, tag="cast"):
    """The operand converted to another type as Postgres converts it, for explicit and implicit casts alike.

    `version` is the version of the cast's meaning at planning time. Build a cast with `function.cast`.
    """

    operand: Expression
    type: Type
    version: int = 1
    span: Span = NOWHERE

    @property
    def nullable(self) -> bool:
        return self.operand.nullable


class Branch(msgspec.Struct, frozen=True):
    """WHEN `when` THEN `then`."""

    when: Expression
    then: Expression


class Case(_Node, frozen=True, tag="case"):
    """The first branch whose condition is true, else `otherwise`, else NULL; all of one type."""

    branches: tuple[Branch, ...]
    otherwise: Expression | None
    type: Type
    span: Span = NOWHERE

    @property
    def nullable(self) -> bool:
        return (
            self.otherwise is None or self.otherwise.nullable or any(branch.then.nullable for branch in self.branches)
        )


class Call(_Node, frozen=True, tag="call"):
    """A call of an operator or function in the list of `logical.function` by its id, like `substring(text,integer)`.

    `version` is the version of the function's meaning at planning time. Build a call with `function.call`.
    """

    function: str
    version: int
    arguments: tuple[Expression, ...]
    type: Type
    nullable: bool
    span: Span = NOWHERE


Expression = Reference | Literal | Cast | Case | Call


def children(expression: Expression) -> tuple[Expression, ...]:
    """Return the expressions directly below one, in the order of the text."""
    match expression:
        case Reference() | Literal():
            return ()
        case Cast():
            return (expression.operand,)
        case Case():
            below = [each for branch in expression.branches for each in (branch.when, branch.then)]
            return (*below, *(() if expression.otherwise is None else (expression.otherwise,)))
        case Call():
            return expression.arguments


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield the expression and all expressions below it, parents first."""
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(children(node)))


def depth(expression: Expression) -> int:
    """Return the depth of the tree."""
    deepest, waiting = 0, [(expression, 1)]
    while waiting:
        node, level = waiting.pop()
        deepest = max(deepest, level)
        waiting.extend((child, level + 1) for child in children(node))
    return deepest


def with_children(expression: Expression, below: tuple[Expression, ...]) -> Expression:
    """Return the expression with other children, in the same number."""
    match expression:
        case Reference() | Literal():
            return expression
        case Cast():
            return msgspec.structs.replace(expression, operand=below[0])
        case Case():
            otherwise = below[-1] if expression.otherwise is not None else None
            pairs = zip(below[0::2], below[1::2], strict=False)
            return msgspec.structs.replace(
                expression, branches=tuple(Branch(when, then) for when, then in pairs), otherwise=otherwise
            )
        case Call():
            return msgspec.structs.replace(expression, arguments=below)


def at(expression: Expression, span: Span) -> Expression:
    """Return the expression with another place in the text."""
    return expression if expression.span == span else msgspec.structs.replace(expression, span=span)


def without_spans(expression: Expression) -> Expression:
    """Return the expression without places in the text."""
    made: list[Expression] = []
    for node in reversed([*walk(expression)]):  # the nodes below a node are at the end of `made`, the first one last
        made.append(at(with_children(node, tuple(made.pop() for _ in children(node))), NOWHERE))
    return made.pop()


def allow_deep_trees() -> None:
    """Raise Python's recursion limit for the deepest trees: code that reads trees is recursive."""
    sys.setrecursionlimit(max(MAX_FRAMES, sys.getrecursionlimit()))


def _facts(expression: Any) -> tuple[Any, ...]:
    """Return all that determines equality as a flat tuple, so that deep trees need no deep stack."""
    found: list[Any] = []
    for node in walk(expression):
        match node:
            case Reference():
                found += ("column", node.name, node.type, node.nullable)
            case Literal():
                found += ("literal", node.text, node.type)
            case Cast():
                found += ("cast", node.type, node.version)
            case Case():
                found += ("case", len(node.branches), node.otherwise is None, node.type)
            case Call():
                found += ("call", node.function, node.version, len(node.arguments), node.type, node.nullable)
    return tuple(found)


# --- literals ----------------------------------------------------------------------------------------------------


def as_call(expression: Expression) -> Call:
    """Return an expression that is a call; raise TypeError for another one."""
    if not isinstance(expression, Call):
        raise TypeError(repr(expression))
    return expression


Constant = TypeVar("Constant", int, str, tuple[Any, ...], Interval)


def constant_value(expression: Expression, kind: type[Constant]) -> Constant:
    """Return the value of a literal; raise TypeError for another expression, and for a value of another kind."""
    value = as_literal(expression).value
    if not isinstance(value, kind):
        raise TypeError(repr(value))
    return value


def as_literal(expression: Expression) -> Literal:
    """Return an expression that is a literal; raise TypeError for another one."""
    if not isinstance(expression, Literal):
        raise TypeError(repr(expression))
    return expression


def literal(value: Value | None, type_: Type, span: Span = NOWHERE) -> Literal:
    """Return a constant of a type; a numeric is rounded to the type's scale, and its digits must fit."""
    return Literal(None if value is None else text_of(value, type_), type_, span)


def text_of(value: Value, type_: Type) -> str:
    """Return the canonical text of a value: equal values of a type have equal texts.

    Numbers have plain digits (`-1.50`, `1e+22`, `nan`, `inf`), times are in ISO format with a blank, timestamptz with
    +00:00, bytea is hexadecimal, booleans are true or false, intervals `1 months 2 days 3 microseconds`; arrays, lists,
    maps and records are JSON of the texts of their parts.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case Decimal():
            return format(value.quantize(Decimal(1).scaleb(-(type_.scale or 0)), ROUND_HALF_UP, _DIGITS), "f")
        case float():
            return _shortest(single(value)) if type_.name == "real" else repr(value)
        case bytes():
            return value.hex()
        case datetime():
            shown = value.astimezone(UTC) if type_.name == "timestamptz" else value
            return shown.isoformat(" ")
        case date() | time():
            return value.isoformat()
        case Interval():
            return f"{value.months} months {value.days} days {value.micros} microseconds"
        case tuple():
            pairs = zip(value, held_types(type_, len(value)), strict=True)
            return json.dumps([None if each is None else text_of(each, of) for each, of in pairs], ensure_ascii=False)
        case int() | str():
            return str(value)


def value_of(text: str, type_: Type) -> Value:
    """Return the value of a canonical text; an interval inside another value is a text, as in a column."""
    if not type_.nested:
        found: Value = _VALUES.get(type_.name, str)(text)
        return found
    texts = json.loads(text)
    pairs = zip(texts, held_types(type_, len(texts)), strict=True)
    return tuple(None if each is None else value_of(each, of) for each, of in pairs)


def held_types(type_: Type, count: int) -> Sequence[Type]:
    """Return the types of the parts of a nested value with `count` parts: intervals are texts, as in columns."""
    own = (type_.element,) * count if type_.element is not None else [field.type for field in type_.fields]
    return [Type("text") if each.name == "interval" else each for each in own]


def single(value: float) -> float:
    """Return the nearest single-precision number; infinity for a number out of range."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _shortest(value: float) -> str:
    """Return the shortest digits that give the same single-precision number."""
    texts = (format(value, f".{digits}g") for digits in range(1, 10))
    return next((text for text in texts if single(float(text)) == value), repr(value))


def _interval(text: str) -> Interval:
    months, _, days, _, micros, _ = text.split(" ")
    return Interval(int(months), int(days), int(micros))


_VALUES: dict[str, Any] = {
    "boolean": lambda text: text == "true",
    "smallint": int, "integer": int, "bigint": int, "uint2": int, "uint4": int, "uint8": int, "numeric": Decimal,
    "real": lambda text: single(float(text)), "double precision": float,
    "date": date.fromisoformat, "time": time.fromisoformat, "timestamp": datetime.fromisoformat,
    "timestamptz": datetime.fromisoformat, "bytea": bytes.fromhex, "interval": _interval,
}  # fmt: skip
