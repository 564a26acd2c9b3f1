"""Convert JSON text to the canonical text of jsonb, and read and write paths into a jsonb.

Equal documents have equal texts. A path is an array of texts, `{a,0,"b c"}`; each step is a key or an index.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import chain
from types import GenericAlias
from typing import Any, NamedTuple

import msgspec

from sinkql.logical.nested import read_array
from sinkql.regex_repeat import RepeatedPattern

MOST_LEVELS = 400
"""The maximum nesting of arrays and objects: Python's limit minus the callers' frames."""

_MOST_DIGITS = 131_072  # before the point, and after it: the limits of Postgres's numeric
_MOST_PLACES = 16_383
_MOST_WRITTEN = 400
"""The maximum number of written digits; a longer number gets an exponent, so that its text stays short."""
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_IN_STRING = RepeatedPattern(r'[^"\\]+|\\.')
_BRACKET = re.compile(r"[\[\]{}]")
_ESCAPED = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")


def jsonb(text: str) -> str:
    """Return JSON text as Postgres prints a jsonb: keys by length, then bytes; the last of equal keys; numbers as
    written.

    A number that Postgres would print with more than 400 digits has an exponent here.

    Raises ValueError for text that is not JSON, and for values outside of jsonb: U+0000, half a surrogate pair, numbers
    out of range for numeric, more than `MOST_LEVELS` levels.
    """
    printed_texts = jsonbs([text])
    return _exactly(text) if printed_texts is None else printed_texts[0]


def jsonbs(texts: Sequence[str]) -> list[str] | None:
    """Return the result of `jsonb` for each text, much faster; None if a text needs separate processing."""
    printed_texts: list[str] = []
    shape: _Shape | None = None
    for first in range(0, len(texts), _AT_ONCE):
        part = _jsonbs(texts[first : first + _AT_ONCE], shape)
        if part is None and shape is not None:
            part = _jsonbs(texts[first : first + _AT_ONCE], None)
        if part is None:
            return None
        shape = part[1]
        printed_texts += part[0]
    return printed_texts


_AT_ONCE = 200  # few enough objects to avoid a garbage collection

_Shape = tuple[tuple[str, "_Shape | str"], ...]
"""The members of an object in jsonb order: each member is an object's shape, `array` or `value`; nested arrays and
objects are not described further."""


def _jsonbs(texts: Sequence[str], shape: _Shape | None) -> tuple[list[str], _Shape | None] | None:
    """Decode, encode and space texts as one array, with a string between them that cannot occur inside them.

    The string stays in its place only if each text is one document. Texts of the given `shape`, which earlier texts
    had, are not inspected one by one. Also returns the shape of the texts, if they share one.
    """
    array = f"[{_BETWEEN.join(texts)}]"
    if array.count(_NUL) != len(texts) - 1:
        return None
    try:
        if shape is None:
            values = _codec().decode(array)
        else:
            decode, objects, arrays = _shaped(shape)
            if array.count("{") != objects * len(texts) or array.count("[") != arrays * len(texts) + 1:
                return None  # a value of the shape has members
            values = decode(array)
            if str in set(map(type, values[::2])):
                return None  # brackets of other values may have been counted
        if len(values) != 2 * len(texts) - 1 or values[1::2] != ["\0"] * (len(texts) - 1):
            return None
        if shape is None:
            _order_members(values[::2])
            shape = _shape_of(values[::2])
        written = _codec().encode(values)
        if max(map(len, texts)) > _MOST_WRITTEN and has_long_number(written):
            return None  # whole numbers are printed as written
        return str(written, "utf-8")[1:-1].split(_SPACED), shape
    except _failures():
        return None


def parsed(text: str) -> Any:
    """Return the value of a jsonb's text; its numbers are `Digits`."""
    return json.loads(text, parse_float=Digits, parse_int=Digits)


def printed(value: Any) -> str:
    """Return the text of a jsonb with a value from `parsed`."""
    parts: list[str] = []
    _print(value, parts)
    return "".join(parts)


def has_long_number(documents: bytes) -> bool:
    """Return whether jsonb texts of Postgres may contain a number with more digits than are written here."""
    if len(documents) <= _MOST_WRITTEN:
        return False
    return documents.translate(_DIGITS).find(b"0" * (_MOST_WRITTEN + 1)) >= 0


_DIGITS = bytes(ord("0" if chr(code) in "0123456789." else " ") for code in range(256))


def member_order(name: str) -> tuple[int, bytes]:
    """Return the sort key of an object's member."""
    encoded = name.encode()
    return len(encoded), encoded


def nested_deeply(text: str) -> bool:
    """Return whether a JSON text has more levels than supported."""
    if text.count("[") + text.count("{") <= MOST_LEVELS:
        return False
    outside = "".join((_ESCAPE.sub("", text) if "\\" in text else text).split('"')[::2])
    depth = 0
    for bracket in _BRACKET.finditer(outside):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > MOST_LEVELS:
            return True
    return False


_NUL = "\\u0000"
_BETWEEN = ',"\\u0000",'
_SPACED = ', "\\u0000", '


class _Codec(NamedTuple):
    decode: Callable[[str], list[Any]]
    encode: Callable[[list[Any]], bytes]


@cache
def _codec(type_: Any = list[Any]) -> _Codec:  # Any: a type for msgspec
    decode = msgspec.json.Decoder(type_, float_hook=lambda digits: msgspec.Raw(_digits(digits).encode())).decode
    encode, spaced = msgspec.json.Encoder().encode, msgspec.json.format
    return _Codec(decode, lambda document: spaced(encode(document), indent=0))


@cache
def _failures() -> tuple[type[Exception], ...]:
    return msgspec.MsgspecError, ValueError, RecursionError


def _order_members(values: Sequence[Any]) -> None:
    """Sort the members of all objects in values into jsonb order; raises ValueError for too many levels.

    Works level by level, and member by member if all objects have the same names, to do little per value.
    """
    for _ in range(MOST_LEVELS):
        objects = [value for value in values if type(value) is dict]
        alike = _alike(objects)
        for members_of in objects[:1] if alike and _order(tuple(objects[0])) is None else objects:
            for name in _order(tuple(members_of)) or ():
                members_of[name] = members_of.pop(name)
        members = map(dict.values, objects)
        parts = list(zip(*members, strict=True) if alike else map(tuple, members))
        parts += [tuple(chain.from_iterable(value for value in values if type(value) is list))]
        values = [value for part in parts if not _NESTED.isdisjoint(map(type, part)) for value in part]
        if not values:
            return
    raise ValueError


def _alike(objects: Sequence[dict[str, Any]]) -> bool:
    """Return whether all objects have the names of the first one, in the same order: then no object repeats a name."""
    return bool(objects) and [*chain.from_iterable(objects)] == [*objects[0]] * len(objects)


_NESTED = frozenset({dict, list})


@lru_cache(4096)
def _order(names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the order of an object's names; None if they are in order."""
    ordered = tuple(sorted(names, key=member_order))
    return None if ordered == names else ordered


def _shape_of(values: Sequence[Any]) -> _Shape | None:
    """Return the common shape of ordered objects; None if they differ."""
    if set(map(type, values)) != {dict} or not _alike(values) or not all(map(_NAME.fullmatch, values[0])):
        return None
    members: list[tuple[str, _Shape | str]] = []
    for name, column in zip(values[0], zip(*map(dict.values, values), strict=True), strict=True):
        kind: _Shape | str | None = "value"
        if not _NESTED.isdisjoint(map(type, column)):
            flat = set(map(type, column)) == {list} and _NESTED.isdisjoint(map(type, chain.from_iterable(column)))
            kind = "array" if flat else _shape_of(column)
        if kind is None:
            return None
        members.append((name, kind))
    return tuple(members)


_NAME = re.compile(r"[A-Za-z0-9_ .-]+")


@lru_cache(256)
def _shaped(shape: _Shape) -> tuple[Callable[[str], list[Any]], int, int]:
    """Return a decoder of documents of a shape, and the number of objects and arrays in each document."""
    struct, objects, arrays = _struct(shape)
    return _codec(GenericAlias(list, (struct | str,))).decode, objects, arrays


def _struct(shape: _Shape) -> tuple[Any, int, int]:
    """Return the class of objects of a shape: like jsonb, it keeps the last of repeated members."""
    fields: list[tuple[str, Any]] = []
    objects, arrays = 1, 0
    for place, (_, kind) in enumerate(shape):
        if isinstance(kind, str):
            fields.append((f"f{place}", list[Any] if kind == "array" else Any))
            arrays += kind == "array"
        else:
            inner, inner_objects, inner_arrays = _struct(kind)
            fields.append((f"f{place}", inner))
            objects, arrays = objects + inner_objects, arrays + inner_arrays
    renamed = {f"f{place}": name for place, (name, _) in enumerate(shape)}
    return msgspec.defstruct("Document", fields, rename=renamed, forbid_unknown_fields=True, gc=False), objects, arrays


def _exactly(text: str) -> str:
    if nested_deeply(text):
        raise ValueError(f"it is nested more than {MOST_LEVELS} levels deep")
    value = json.loads(text, parse_float=_digits, parse_int=_digits, parse_constant=_no_constant)
    if _ESCAPED.search(text):
        _check_characters(text)
    return printed(value)


class Digits(str):
    """A number as its text, which is printed unchanged."""

    __slots__ = ()


def _digits(text: str) -> Digits:
    """Return a number as Postgres writes it, with an exponent if it has more than `_MOST_WRITTEN` digits.

    Raises ValueError for a number out of range for Postgres's numeric.
    """
    mantissa, _, exponent = text.replace("E", "e").partition("e")
    if not exponent and len(mantissa) <= _MOST_WRITTEN:
        return Digits(mantissa[1:] if mantissa[0] == "-" and not mantissa.strip("-0.") else mantissa)
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    shift = _shift(exponent) - len(fraction)  # of the last digit
    digits = (whole + fraction).lstrip("0")
    places, before = max(-shift, 0), max(len(digits) + shift, 0) if digits else 0
    if before > _MOST_DIGITS or places > _MOST_PLACES:
        raise ValueError("a number is out of range for numeric")
    sign = "-" if digits and mantissa[0] == "-" else ""
    if max(before, 1) + places <= _MOST_WRITTEN:
        written = digits + "0" * shift if digits and shift > 0 else digits.rjust(places + 1, "0")
        return Digits(f"{sign}{written[:-places]}.{written[-places:]}" if places else sign + written)
    if shift > 0 or not places:
        shift += len(digits) - len(digits.rstrip("0"))
        digits = digits.rstrip("0")
    first, rest = digits[:1] or "0", digits[1:]
    return Digits(f"{sign}{first}{'.' if rest else ''}{rest}e{shift + len(rest)}")


def _shift(exponent: str) -> int:
    """Return the value of an exponent; raises ValueError for an exponent that Postgres does not read."""
    digits = exponent.lstrip("+-").lstrip("0")
    shift = int(digits or 0) if len(digits) < 20 else 2**31
    if shift > 2**30:
        raise ValueError("a number is out of range for numeric")
    return -shift if exponent.startswith("-") else shift


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _print(value: Any, parts: list[str]) -> None:
    """Append a value's text; one frame per level, since a generator would halve the possible nesting."""
    if isinstance(value, Digits):
        parts.append(value)
    elif isinstance(value, dict):
        before = "{"
        for name in sorted(value, key=member_order):
            parts.append(f"{before}{json.dumps(name, ensure_ascii=False)}: ")
            _print(value[name], parts)
            before = ", "
        parts.append("}" if value else "{}")
    elif isinstance(value, list):
        before = "["
        for element in value:
            parts.append(before)
            _print(element, parts)
            before = ", "
        parts.append("]" if value else "[]")
    else:
        parts.append(json.dumps(value, ensure_ascii=False))


def _check_characters(text: str) -> None:
    """Raise ValueError for characters that no text can contain, also in members that a later duplicate replaces."""
    end = 0
    while (begin := text.find('"', end)) >= 0:
        end = _IN_STRING.end(text, begin + 1) + 1
        value = json.loads(text[begin:end])
        if "\0" in value:
            raise ValueError("invalid character U+0000")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("half of a surrogate pair") from None


_INDEX = re.compile(r"[ \t\n\r\f\v]*[+-]?[0-9]+")
_PLAIN_KEY = re.compile(r"[\w .:/@#$%&+=~-]+")
_MOST = 2**31


def path_steps(text: str) -> list[str | None]:
    """Return the steps of a path, None for NULL, which matches nothing; raises ValueError for an invalid path."""
    steps = read_array(text)
    if any(isinstance(step, list) for step in steps):
        raise ValueError(text)
    return [None if step is None else str(step) for step in steps]


def format_path(steps: Sequence[str | None]) -> str:
    """Return the text of a path."""
    return "{" + ",".join(map(_written, steps)) + "}"


def _written(step: str | None) -> str:
    return "NULL" if step is None else '"' + re.sub(r'(["\\])', r"\\\1", step) + '"'


def is_index(step: str) -> bool:
    """Return whether a step can be an index of an array, besides the key of an object."""
    return bool(_INDEX.fullmatch(step))


def index_of(step: str) -> int | None:
    """Return the index of a step; None if it is not an index."""
    index = int(step) if is_index(step) else _MOST
    return index if -_MOST <= index < _MOST else None


def is_plain_key(step: str) -> bool:
    """Return whether an engine's path syntax can spell a key."""
    return bool(_PLAIN_KEY.fullmatch(step))
