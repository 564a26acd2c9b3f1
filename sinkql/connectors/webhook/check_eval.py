"""The tree of a CHECK, and the values of its secrets → whether a request is let in.

A value that is missing is None, which goes through as NULL does; a request is let in where the whole is true.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

import msgspec

from sinkql.connectors.webhook.request import header_text

ALGORITHMS: Mapping[str, Callable[..., Any]] = {
    name: getattr(hashlib, name) for name in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")
}
ENCODINGS = ("base64", "hex")
_LINE = 76  # of base64, as Postgres has it


@dataclass(frozen=True, slots=True)
class CheckInput:
    """A request as a check sees it: headers have their names in lower case."""

    headers: Mapping[str, bytes]
    body: bytes


Value = Callable[[CheckInput], Any]


def compile_check(check: str | None, secret: Callable[[str], str]) -> Callable[[CheckInput], bool]:
    """Return what tells whether a request passes; one for which the check fails does not."""
    if check is None:
        return lambda given: True
    value = _value(msgspec.json.decode(check), secret)

    def passes(given: CheckInput) -> bool:
        try:
            return value(given) is True
        except (ValueError, LookupError, ArithmeticError, RecursionError):
            return False

    return passes


def _value(tree: Sequence[Any], secret: Callable[[str], str]) -> Value:
    operation, *rest = tree
    match operation:
        case "constant":
            return lambda given: rest[0]
        case "number":
            number = Decimal(rest[0])
            return lambda given: number
        case "secret":
            known: str | bytes = secret(rest[0]).encode() if rest[1] else secret(rest[0])
            return lambda given: known
        case "headers":
            return (lambda given: given.headers) if rest[0] else _text_headers
        case "body":
            return (lambda given: given.body) if rest[0] else (lambda given: given.body.decode())
    if operation == "call":
        return _strict(_FUNCTIONS[rest[0]], [_value(each, secret) for each in rest[1:]], lazy=rest[0] == "coalesce")
    values = [_value(each, secret) for each in rest]
    match operation:
        case "and":
            return lambda given: _both(values[0](given), values[1], given, decides=False)
        case "or":
            return lambda given: _both(values[0](given), values[1], given, decides=True)
        case "null":
            return lambda given: values[0](given) is None
    return _strict(_OPERATIONS[operation], values)


def _text_headers(given: CheckInput) -> dict[str, str]:
    return {name: header_text(value) for name, value in given.headers.items()}


def _both(first: bool | None, second: Value, given: CheckInput, *, decides: bool) -> bool | None:
    """Return AND or OR of two values; the second is not asked for where the first decides."""
    if first is decides:
        return decides
    other: bool | None = second(given)
    return decides if other is decides else None if first is None or other is None else not decides


def _strict(function: Callable[..., Any], values: Sequence[Value], *, lazy: bool = False) -> Value:
    """Return a call that is NULL where an argument is, unless it is one that takes NULL."""

    def call(given: CheckInput) -> Any:
        found = [each(given) for each in values]
        if not lazy and any(each is None for each in found):
            return None
        return function(*found)

    return call


def _element(items: Sequence[str], number: Decimal) -> str | None:
    place = int(number)
    return items[place - 1] if 1 <= place <= len(items) else None


def _number(text: str) -> Decimal:
    try:
        found = Decimal(text.strip())
    except InvalidOperation:
        raise ValueError(text) from None
    if not found.is_finite():
        raise ValueError(text)
    return found


_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "=": lambda one, other: one == other,
    "<>": lambda one, other: one != other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
    "not": lambda one: not one,
    "+": lambda one, other: one + other,
    "-": lambda one, other: one - other,
    "||": lambda one, other: one + other,
    "->": lambda headers, name: headers.get(name.lower()),
    "[]": _element,
    "to_number": _number,
    "epoch": lambda seconds: seconds,
}


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _hmac(message: str | bytes, key: str | bytes, algorithm: str) -> bytes:
    return hmac.digest(_bytes(key), _bytes(message), _known(algorithm))


def _digest(message: str | bytes, algorithm: str) -> bytes:
    found: bytes = ALGORITHMS[_known(algorithm)](_bytes(message)).digest()
    return found


def _known(algorithm: str) -> str:
    if algorithm.lower() not in ALGORITHMS:
        raise ValueError(algorithm)
    return algorithm.lower()


def _encode(value: bytes, encoding: str) -> str:
    if _known_encoding(encoding) == "hex":
        return value.hex()
    text = base64.b64encode(value).decode()
    return "\n".join(text[at : at + _LINE] for at in range(0, len(text), _LINE))


def _decode(text: str, encoding: str) -> bytes:
    plain = re.sub(r"\s", "", text)
    try:
        return bytes.fromhex(plain) if _known_encoding(encoding) == "hex" else base64.b64decode(plain, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _known_encoding(encoding: str) -> str:
    if encoding.lower() not in ENCODINGS:
        raise ValueError(encoding)
    return encoding.lower()


def _split_part(text: str, separator: str, number: Decimal) -> str:
    parts, place = text.split(separator) if separator else [text], int(number)
    if place == 0:
        raise ValueError("field position must not be zero")
    place = place - 1 if place > 0 else len(parts) + place
    return parts[place] if 0 <= place < len(parts) else ""


def _substring(text: str, start: Decimal, length: Decimal | None = None) -> str:
    first = int(start) - 1
    if length is None:
        return text[max(0, first) :]
    if length < 0:
        raise ValueError("negative substring length")
    return text[max(0, first) : max(0, first + int(length))]


def _place(items: Sequence[str], wanted: str) -> Decimal | None:
    return Decimal(items.index(wanted) + 1) if wanted in items else None


@lru_cache(64)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _split(text: str, pattern: str) -> list[str]:
    """Split without what groups matched."""
    found, at = [], 0
    for each in _pattern(pattern).finditer(text):
        if each.end() > each.start():
            found.append(text[at : each.start()])
            at = each.end()
    return [*found, text[at:]]


def _first(*values: Any) -> Any:
    return next((each for each in values if each is not None), None)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "constant_time_eq": lambda one, other: hmac.compare_digest(_bytes(one), _bytes(other)),
    "hmac": _hmac,
    "digest": _digest,
    "encode": _encode,
    "decode": _decode,
    "convert_from": lambda value, encoding: value.decode(),
    "convert_to": lambda value, encoding: value.encode(),
    "lower": str.lower,
    "upper": str.upper,
    "btrim": lambda text: text.strip(" "),
    "replace": lambda text, old, new: text.replace(old, new) if old else text,
    "starts_with": str.startswith,
    "split_part": _split_part,
    "substring": _substring,
    "regexp_split_to_array": _split,
    "array_position": _place,
    "coalesce": _first,
    "now": lambda: Decimal(time.time_ns()) / 1_000_000_000,
}

CALLS: Mapping[str, Sequence[tuple[Sequence[str], str]]] = {
    "constant_time_eq": ((("text", "text"), "boolean"), (("bytea", "bytea"), "boolean")),
    "hmac": ((("text", "text", "text"), "bytea"), (("bytea", "bytea", "text"), "bytea")),
    "digest": ((("text", "text"), "bytea"), (("bytea", "text"), "bytea")),
    "encode": ((("bytea", "text"), "text"),),
    "decode": ((("text", "text"), "bytea"),),
    "convert_from": ((("bytea", "text"), "text"),),
    "convert_to": ((("text", "text"), "bytea"),),
    "lower": ((("text",), "text"),),
    "upper": ((("text",), "text"),),
    "btrim": ((("text",), "text"),),
    "replace": ((("text", "text", "text"), "text"),),
    "starts_with": ((("text", "text"), "boolean"),),
    "split_part": ((("text", "text", "number"), "text"),),
    "substring": ((("text", "number"), "text"), (("text", "number", "number"), "text")),
    "regexp_split_to_array": ((("text", "text"), "text[]"),),
    "array_position": ((("text[]", "text"), "number"),),
    "coalesce": (
        (("text", "text"), "text"),
        (("bytea", "bytea"), "bytea"),
        (("boolean", "boolean"), "boolean"),
        (("number", "number"), "number"),
    ),
    "now": (((), "time"),),
}
"""The functions that a check may call, with the types of their parameters and results, one pair an overload."""
