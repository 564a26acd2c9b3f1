"""JSON text → the text that stands for it in a jsonb column: equal documents have equal texts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any

MOST_LEVELS = 400
"""How deeply arrays and objects may be nested; Python's own limit, less what may stand on its stack already."""

_MOST_DIGITS = 131_072  # before the point, and after it: what Postgres's numeric holds
_MOST_PLACES = 16_383
_LONG = 1000
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_NOT_BRACKETS = re.compile(r"[^\[\]{}]++")
_ESCAPED = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")


def jsonb(text: str) -> str:
    """Return JSON text as Postgres prints a jsonb: keys by length, then bytes, the last of a name; numbers as written.

    Raises ValueError for text that is not JSON, and for what a jsonb cannot hold: U+0000, half a surrogate pair,
    numbers out of numeric's range, more than `MOST_LEVELS` levels.
    """
    found = jsonbs([text])
    return _exactly(text) if found is None else found[0]


def jsonbs(texts: Sequence[str]) -> list[str] | None:
    """Return what `jsonb` gives for each text, in a fraction of the time; None where one must be looked at itself."""
    found: list[str] = []
    for first in range(0, len(texts), _AT_ONCE):
        part = _jsonbs(texts[first : first + _AT_ONCE])
        if part is None:
            return None
        found += part
    return found


_AT_ONCE = 200  # few enough objects that no garbage is collected among them


def _jsonbs(texts: Sequence[str]) -> list[str] | None:
    """Decode, encode and space texts as one array, with a string between two of them that none of them can have.

    It is where it was only if each text is one document.
    """
    decode, encode = _codec()
    array = f"[{_BETWEEN.join(texts)}]"
    if array.count(_NUL) != len(texts) - 1:
        return None
    try:
        found = decode(array)
        if len(found) != 2 * len(texts) - 1 or any(each != "\0" for each in found[1::2]):
            return None
        found[::2] = [_ordered(each, MOST_LEVELS) for each in found[::2]]
        return str(encode(found), "utf-8")[1:-1].split(_SPACED)
    except _failures():
        return None


def nested_deeply(text: str) -> bool:
    """Return whether a JSON text has more levels than are read."""
    if text.count("[") + text.count("{") <= MOST_LEVELS:
        return False
    depth = 0
    for bracket in _NOT_BRACKETS.sub("", _STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > MOST_LEVELS:
            return True
    return False


_NUL = "\\u0000"
_BETWEEN = ',"\\u0000",'
_SPACED = ', "\\u0000", '


@cache
def _codec() -> tuple[Callable[[str], list[Any]], Callable[[list[Any]], bytes]]:
    import msgspec  # not before there is a document

    decode = msgspec.json.Decoder(list[Any], float_hook=lambda digits: msgspec.Raw(_digits(digits).encode())).decode
    encode, spaced = msgspec.json.Encoder().encode, msgspec.json.format
    return decode, lambda found: spaced(encode(found), indent=0)


@cache
def _failures() -> tuple[type[Exception], ...]:
    import msgspec

    return msgspec.MsgspecError, ValueError, RecursionError


def _ordered(value: Any, levels: int) -> Any:
    """Return a value whose objects have their members in a jsonb's order; raises ValueError for too many levels."""
    kind = type(value)
    if kind not in _NESTED:
        return value
    if levels == 0:
        raise ValueError
    if kind is list:
        for place, each in enumerate(value):
            if type(each) in _NESTED:
                value[place] = _ordered(each, levels - 1)
        return value
    for name, each in value.items():
        if type(each) in _NESTED:
            value[name] = _ordered(each, levels - 1)
    names = _order(tuple(value))
    return value if names is None else {name: value[name] for name in names}


_NESTED = frozenset({dict, list})


@lru_cache(4096)
def _order(names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the order of an object's names; None where it is theirs already."""
    found = tuple(sorted(names, key=_by_length))
    return None if found == names else found


def _exactly(text: str) -> str:
    if nested_deeply(text):
        raise ValueError(f"it is nested more than {MOST_LEVELS} levels deep")
    value = json.loads(text, parse_float=_digits, parse_int=_digits, parse_constant=_no_constant)
    if _ESCAPED.search(text):
        _check_characters(text)
    parts: list[str] = []
    _print(value, parts)
    return "".join(parts)


class _Digits(str):
    """A number by its text, which is printed as it was written."""

    __slots__ = ()


def _digits(text: str) -> _Digits:
    """Return a number without exponent; raises ValueError where Postgres's numeric has no room for it."""
    mantissa, _, exponent = text.replace("E", "e").partition("e")
    if exponent or len(mantissa) > _LONG:
        _check_range(mantissa, exponent)
    found = format(Decimal(text), "f") if exponent else text
    return _Digits(found[1:] if found[0] == "-" and not found.strip("-0.") else found)


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _print(value: Any, parts: list[str]) -> None:
    """Append a value's text; one frame a level, since a generator's would halve what nests."""
    if isinstance(value, _Digits):
        parts.append(value)
    elif isinstance(value, dict):
        before = "{"
        for name in sorted(value, key=_by_length):
            parts.append(f"{before}{json.dumps(name, ensure_ascii=False)}: ")
            _print(value[name], parts)
            before = ", "
        parts.append("}" if value else "{}")
    elif isinstance(value, list):
        before = "["
        for each in value:
            parts.append(before)
            _print(each, parts)
            before = ", "
        parts.append("]" if value else "[]")
    else:
        parts.append(json.dumps(value, ensure_ascii=False))


def _by_length(name: str) -> tuple[int, bytes]:
    encoded = name.encode()
    return len(encoded), encoded


def _check_range(mantissa: str, exponent: str) -> None:
    """Raise ValueError for a number that Postgres refuses with `value overflows numeric format`."""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    shift = int(exponent or 0) if len(exponent) < 20 else _MOST_DIGITS * (-9 if exponent[0] == "-" else 9)
    digits = (whole + fraction).lstrip("0")
    before = len(digits) - len(fraction) + shift if digits else 0
    if before > _MOST_DIGITS or len(fraction) - shift > _MOST_PLACES or abs(shift) > 2**30:
        raise ValueError("a number is out of range for numeric")


def _check_characters(text: str) -> None:
    """Raise ValueError for what no text can hold, also in members that a later one of the same name replaces."""
    for string in _STRING.findall(text):
        value = json.loads(string)
        if "\0" in value:
            raise ValueError("invalid character U+0000")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("half of a surrogate pair") from None
