"""Names, and the values of options."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sinkql.errors import Span
from sinkql.keywords import qualified_name

_NOWHERE = Span(0, 0)


def at() -> Span:
    """Declare a span. Comparison ignores it, so that a statement equals its printed and parsed form."""
    return field(repr=False, compare=False, default=_NOWHERE)


def made() -> dict[str, Any]:
    """Declare a cache for the phases: each stores its result for this text under its name."""
    return field(init=False, repr=False, compare=False, default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ident:
    """An identifier, folded to lower case unless it was quoted."""

    value: str
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Name:
    """An item's name: `item`, `schema.item` or `database.schema.item`."""

    parts: tuple[Ident, ...]
    span: Span = at()

    @property
    def text(self) -> str:
        """The name as messages show it."""
        return qualified_name(*(part.value for part in self.parts))

    @property
    def value(self) -> str:
        """The text of the name, for an option that accepts text."""
        return ".".join(part.value for part in self.parts)


@dataclass(frozen=True, slots=True)
class Text:
    """A string literal; `value` has its quotes and escapes resolved."""

    value: str
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Number:
    """A number as written, with its sign."""

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
    """The text of `INTERVAL '…'`, with the words of its unit: `10 minutes`."""

    text: str
    span: Span = at()


@dataclass(frozen=True, slots=True)
class SecretRef:
    """`SECRET name`."""

    name: Name
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Word:
    """A bare name as a value: a text without quotes, or an item's name."""

    name: Name
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Concat:
    """`part || part …`, each part a string literal or a secret."""

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
    """`MAP['key' => value, …]`."""

    entries: tuple[MapEntry, ...]
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Hex:
    """`X'…'`, with its digits as written."""

    digits: str
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Expression:
    """The text of an expression (or a list of them) as written; spans in it are relative to `span.start`."""

    text: str
    span: Span = at()
    made: dict[str, Any] = made()


@dataclass(frozen=True, slots=True)
class Phrase:
    """A value after keywords, followed by options and by another phrase; each part may be missing.

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
    """`NAME = value`; the name is in upper case with single spaces, the value None if omitted."""

    name: str
    value: Value | None
    span: Span = at()
    name_span: Span = at()
