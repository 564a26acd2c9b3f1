"""Names and the values that options take."""

from __future__ import annotations

from dataclasses import dataclass, field

from sinkql.errors import Span

_NOWHERE = Span(0, 0)


def at() -> Span:
    """Declare a span: it takes no part in comparison, so that printed and parsed again means equal."""
    return field(repr=False, compare=False, default=_NOWHERE)


@dataclass(frozen=True, slots=True)
class Ident:
    """Hold one identifier, folded to lower case unless it was quoted."""

    value: str
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Name:
    """Hold an item's name: `item`, `schema.item` or `database.schema.item`."""

    parts: tuple[Ident, ...]
    span: Span = at()

    @property
    def text(self) -> str:
        return ".".join(part.value for part in self.parts)


@dataclass(frozen=True, slots=True)
class Text:
    """Hold a string literal's value."""

    value: str
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Number:
    """Hold a number as written, sign included."""

    text: str
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Boolean:
    value: bool
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Null:
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Interval:
    """Hold the text of `INTERVAL '…'`, unit words included."""

    text: str
    span: Span = at()


@dataclass(frozen=True, slots=True)
class SecretRef:
    """Hold `SECRET name`."""

    name: Name
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Word:
    """Hold a bare name where a value stands: a text without quotes, or the name of an item."""

    name: Name
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Concat:
    """Hold `part || part …`, each part a string literal or a secret."""

    parts: tuple[Text | SecretRef, ...]
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Sequence:
    items: tuple[Value, ...]
    span: Span = at()


@dataclass(frozen=True, slots=True)
class MapEntry:
    key: str
    value: Value


@dataclass(frozen=True, slots=True)
class Map:
    """Hold `MAP['key' => value, …]`."""

    entries: tuple[MapEntry, ...]
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Hex:
    """Hold `X'…'`, its digits as written."""

    digits: str
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Expression:
    """Hold the text of an expression (or a list of them) as written; spans in it start at `span.start`."""

    text: str
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Phrase:
    """Hold a value among keywords, with options of its own and another phrase behind it, each where it is given.

    `FOR '1 day'`, `EVERY '1 day' ALIGNED TO now()`, `ON REFRESH (HYDRATION TIME ESTIMATE = '1h')`, and without words
    `'host:9092' USING AWS PRIVATELINK p (PORT = 9001)` and `r1 (SIZE = 'small')`.
    """

    words: str = ""
    value: Value | None = None
    options: tuple[Option, ...] = ()
    then: Phrase | None = None
    span: Span = at()


Value = (
    Text | Number | Boolean | Null | Interval | Hex | SecretRef | Word | Concat | Sequence | Map | Phrase | Expression
)


@dataclass(frozen=True, slots=True)
class Option:
    """Hold `NAME = value`; the name in upper case with single spaces, the value None where it is left out."""

    name: str
    value: Value | None
    span: Span = at()
    name_span: Span = at()
