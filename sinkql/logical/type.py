"""SQL types, and the parts of nested types like `map[text=>integer]` or `record(a integer, "b c" text NOT NULL)`.

The parts of a type's text are texts, as canonical as the whole text, without surrounding blanks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from sinkql.keywords import QUOTED, quoted

MOST_DIGITS = 38
"""The maximum number of digits of a numeric."""
_NESTED = {"array": "[]", "list": " list"}
_NAMES = re.compile(r"numeric\((\d+),(\d+)\)")


class Field(NamedTuple):
    """A field of a record."""

    name: str
    type: Type
    nullable: bool = True


class Type:
    """An SQL type by its canonical name; JSON contains its text.

    Names: boolean, smallint, integer, bigint, uint2, uint4, uint8, real, double precision, numeric, date, time,
    timestamp, timestamptz, interval, text, bytea, uuid, jsonb, the ranges of `logical.range`, unknown (an untyped NULL
    or string). Numeric always has precision and scale.
    An array (`integer[]`) and a list (`integer list`) have an element type, a record (`record(a integer, b text NOT
    NULL)`) has fields. The elements of a map (`map[text=>integer]`) are records of key and value, ordered by key.
    """

    __slots__ = ("_hash", "_text", "element", "fields", "name", "precision", "scale")

    def __init__(
        self,
        name: str,
        precision: int | None = None,
        scale: int | None = None,
        element: Type | None = None,
        fields: tuple[Field, ...] = (),
    ) -> None:
        self.name = name
        self.precision = precision
        self.scale = scale
        self.element = element
        self.fields = fields
        self._hash = hash((name, precision, scale, element, fields))
        self._text: str | None = None

    def __reduce__(self) -> tuple[type[Type], tuple[Any, ...]]:
        """Pickle the arguments: the hash of a text differs between processes."""
        return Type, (self.name, self.precision, self.scale, self.element, self.fields)

    def __str__(self) -> str:
        if self._text is None:
            self._text = self._canonical()
        return self._text

    def _canonical(self) -> str:
        if self.element is not None:
            if self.name == "map":
                return f"map[text=>{self.value}]"
            return f"{self.element}[]" if self.name == "array" else f"{self.element} list"
        if self.name == "record":
            listed = (written_field(field.name, str(field.type), not_null=not field.nullable) for field in self.fields)
            return f"record({', '.join(listed)})"
        return f"{self.name}({self.precision},{self.scale})" if self.name == "numeric" else self.name

    @property
    def item(self) -> Type:
        """The type of the elements; raises TypeError if values have no elements."""
        if self.element is None:
            raise TypeError(str(self))
        return self.element

    @property
    def value(self) -> Type:
        """The type of a map's values."""
        return self.item.fields[1].type

    @property
    def nested(self) -> bool:
        """Whether values contain values of other types."""
        return self.element is not None or self.name == "record"

    @property
    def whole_digits(self) -> int:
        """The maximum number of digits before a numeric's point."""
        return (self.precision or MOST_DIGITS) - (self.scale or 0)

    @property
    def called(self) -> str:
        """The type in messages, without a numeric's digits."""
        return str(self) if self.nested else self.name

    def __repr__(self) -> str:
        return f"Type({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Type):
            return NotImplemented
        mine, its = (self.name, self.precision, self.scale), (other.name, other.precision, other.scale)
        return mine == its and self.element == other.element and self.fields == other.fields

    def __hash__(self) -> int:
        return self._hash


def map_type(value: Type) -> Type:
    """Return the type of maps from text to values of a type."""
    return Type("map", element=record_type((Field("key", Type("text"), nullable=False), Field("value", value))))


def record_type(fields: Iterable[Field]) -> Type:
    """Return the type of records of these fields."""
    return Type("record", fields=tuple(fields))


_PARSED: dict[str, Type] = {}
_MOST_PARSED = 1024


def parse_type(text: str) -> Type:
    """Return the type of a canonical text, such as `numeric(38,10)`; equal texts give one object."""
    type_ = _PARSED.get(text)
    if type_ is None:
        if len(_PARSED) >= _MOST_PARSED:
            _PARSED.clear()
        type_ = _PARSED[text] = _parse(text)
    return type_


def _parse(text: str) -> Type:
    for name, suffix in _NESTED.items():
        if text.endswith(suffix):
            return Type(name, element=parse_type(text.removesuffix(suffix)))
    value = map_value(text)
    if value is not None:
        return map_type(parse_type(value))
    fields = record_fields(text)
    if fields is not None:
        return record_type(Field(name, parse_type(type_), nullable=not not_null) for name, type_, not_null in fields)
    match = _NAMES.fullmatch(text)
    return Type("numeric", int(match[1]), int(match[2])) if match else Type(text)


def encoded(value: Any) -> Any:
    """Return the JSON of a value that msgspec cannot encode: a type's text."""
    if isinstance(value, Type):
        return str(value)
    raise NotImplementedError(type(value).__name__)


def decoded(wanted: type, value: Any) -> Any:
    """Decode the JSON of `encoded`."""
    if wanted is Type:
        return _PARSED.get(value) or parse_type(value)
    raise NotImplementedError(wanted.__name__)


BOOLEAN, SMALLINT, INTEGER, BIGINT = Type("boolean"), Type("smallint"), Type("integer"), Type("bigint")
UINT2, UINT4, UINT8 = Type("uint2"), Type("uint4"), Type("uint8")
REAL, DOUBLE, TEXT, BYTEA = Type("real"), Type("double precision"), Type("text"), Type("bytea")
DATE, TIME, TIMESTAMP, TIMESTAMPTZ = Type("date"), Type("time"), Type("timestamp"), Type("timestamptz")
INTERVAL, UUID, JSONB, UNKNOWN = Type("interval"), Type("uuid"), Type("jsonb"), Type("unknown")
NUMERIC = Type("numeric", 38, 10)
"""The type of `numeric` without precision and scale, and of arithmetic."""

SECOND = 1_000_000
DAY = 86_400 * SECOND
"""Intervals have a resolution of microseconds."""


Part = tuple[str, str, bool]
"""A field: its name, its type's text, and whether it is NOT NULL."""

_MAP = re.compile(r"map\s*\[(.*)\]", re.IGNORECASE | re.DOTALL)
_TEXT = ("text", "string", "varchar", "character varying")
_RECORD = re.compile(r"record\s*\((.*)\)", re.IGNORECASE | re.DOTALL)
_FIELD = re.compile(r'(?:"((?:[^"]|"")+)"|([^\W\d][\w$]*))\s+(.+?)(\s+(?:not\s+)?null)?', re.IGNORECASE | re.DOTALL)
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_QUOTED = re.compile(r'"(?:[^"]|"")*"')


def map_value(text: str) -> str | None:
    """Return the text of a map's value type; None if the type is not a map from text."""
    inside = _inside(_MAP, text)
    key, arrow, value = (inside or "").partition("=>")
    return value.strip() if arrow and key.strip().lower() in _TEXT and value.strip() else None


def record_fields(text: str) -> list[Part] | None:
    """Return the fields of a record type; None for another type."""
    inside = _inside(_RECORD, text)
    if inside is None:
        return None
    found = [_FIELD.fullmatch(each.strip()) for each in _listed(inside)]
    fields = [
        (match[1].replace('""', '"') if match[1] else match[2].lower(), match[3], _not_null(match[4]))
        for match in found
        if match is not None
    ]
    return fields if len(fields) == len(found) == len({name for name, _, _ in fields}) else None


def _not_null(text: str | None) -> bool:
    return text is not None and text.split()[0].lower() == "not"


def written_field(name: str, type_: str, *, not_null: bool) -> str:
    """Return the canonical text of a field."""
    return f"{shown_name(name)} {type_}{' NOT NULL' if not_null else ''}"


def shown_name(name: str) -> str:
    """Return a name in SQL, in quotes if necessary."""
    return name if _PLAIN.fullmatch(name) and name.upper() not in QUOTED else quoted(name)


def flat(text: str) -> str:
    """Return a type's text in lower case with single blanks, except for names in quotes."""
    plain = _QUOTED.split(text.strip())
    names = [*_QUOTED.findall(text.strip()), ""]
    return "".join(re.sub(r"\s+", " ", before.lower()) + name for before, name in zip(plain, names, strict=True))


def _inside(form: re.Pattern[str], text: str) -> str | None:
    """Return the text inside the brackets; None if they do not enclose the whole text."""
    match = form.fullmatch(text)
    if match is None:
        return None
    depth = 0
    for sign in _signs(match[1]):
        depth += (sign[0] in "([") - (sign[0] in ")]")
        if depth < 0:
            return None
    return match[1] if depth == 0 else None


def _listed(text: str) -> Iterator[str]:
    """Yield the texts between the commas outside of brackets."""
    depth, part = 0, ""
    for sign in _signs(text):
        depth += (sign[0] in "([") - (sign[0] in ")]")
        if sign == "," and depth == 0:
            yield part
            part = ""
        else:
            part += sign
    yield part


def _signs(text: str) -> Iterator[str]:
    """Yield the characters; a quoted name counts as one."""
    return (match[0] for match in re.finditer(r'"(?:[^"]|"")*"|.', text, re.DOTALL))
