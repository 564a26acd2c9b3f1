"""Evaluate the tree of a CHECK, with the values of its secrets, for a request.

A missing value is None, and behaves as NULL does. A request passes if the whole expression is true.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

import msgspec

from sinkql.connectors.webhook.request import header_text
from sinkql.machine import clock

ALGORITHMS: Mapping[str, Callable[..., Any]] = {
    name: getattr(hashlib, name) for name in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")
}
ENCODINGS = ("base64", "hex")
_LINE = 76  # characters of a line of base64 in Postgres


@dataclass(frozen=True, slots=True)
class CheckInput:
    """A request as a check sees it; the names of headers are in lower case."""

    headers: Mapping[str, bytes]
    body: bytes


Value = Callable[[CheckInput], Any]


def compile_check(check: str | None, secret: Callable[[str], str]) -> Callable[[CheckInput], bool]:
    """Compile a CHECK into a predicate over requests. A request whose check raises an error is rejected."""
    if check is None:
        return lambda request: True
    value = _compile(msgspec.json.decode(check), secret)

    def passes(request: CheckInput) -> bool:
        try:
            return value(request) is True
        except (ValueError, LookupError, ArithmeticError, RecursionError):
            return False

    return passes


def _compile(tree: Sequence[Any], secret: Callable[[str], str]) -> Value:
    operation, *rest = tree
    match operation:
        case "constant":
            return lambda request: rest[0]
        case "number":
            number = Decimal(rest[0])
            return lambda request: number
        case "secret":
            value: str | bytes = secret(rest[0]).encode() if rest[1] else secret(rest[0])
            return lambda request: value
        case "headers":
            return (lambda request: request.headers) if rest[0] else _text_headers
        case "body":
            return (lambda request: request.body) if rest[0] else (lambda request: request.body.decode())
    if operation == "call":
        return _null_if_null(
            _FUNCTIONS[rest[0]], [_compile(operand, secret) for operand in rest[1:]], lazy=rest[0] == "coalesce"
        )
    values = [_compile(operand, secret) for operand in rest]
    match operation:
        case "and":
            return lambda request: _and_or(values[0](request), values[1], request, decides=False)
        case "or":
            return lambda request: _and_or(values[0](request), values[1], request, decides=True)
        case "null":
            return lambda request: values[0](request) is None
    return _null_if_null(_OPERATIONS[operation], values)


def _text_headers(request: CheckInput) -> dict[str, str]:
    return {name: header_text(value) for name, value in request.headers.items()}


def _and_or(first: bool | None, second: Value, request: CheckInput, *, decides: bool) -> bool | None:
    """Return AND or OR of two values; the second is evaluated only if the first does not decide."""
    if first is decides:
        return decides
    other: bool | None = second(request)
    return decides if other is decides else None if first is None or other is None else not decides


def _null_if_null(function: Callable[..., Any], values: Sequence[Value], *, lazy: bool = False) -> Value:
    """Return a call that is NULL if an argument is, unless the function is `lazy`."""

    def call(request: CheckInput) -> Any:
        arguments = [value(request) for value in values]
        if not lazy and any(argument is None for argument in arguments):
            return None
        return function(*arguments)

    return call


def _element(items: Sequence[str], number: Decimal) -> str | None:
    index = int(number)
    return items[index - 1] if 1 <= index <= len(items) else None


def _number(text: str) -> Decimal:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        raise ValueError(text) from None
    if not number.is_finite():
        raise ValueError(text)
    return number


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
    return hmac.digest(_bytes(key), _bytes(message), _checked_algorithm(algorithm))


def _digest(message: str | bytes, algorithm: str) -> bytes:
    value: bytes = ALGORITHMS[_checked_algorithm(algorithm)](_bytes(message)).digest()
    return value


def _checked_algorithm(algorithm: str) -> str:
    if algorithm.lower() not in ALGORITHMS:
        raise ValueError(algorithm)
    return algorithm.lower()


def _encode(value: bytes, encoding: str) -> str:
    if _checked_encoding(encoding) == "hex":
        return value.hex()
    text = base64.b64encode(value).decode()
    return "\n".join(text[at : at + _LINE] for at in range(0, len(text), _LINE))


def _decode(text: str, encoding: str) -> bytes:
    plain = re.sub(r"\s", "", text)
    try:
        return bytes.fromhex(plain) if _checked_encoding(encoding) == "hex" else base64.b64decode(plain, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _checked_encoding(encoding: str) -> str:
    if encoding.lower() not in ENCODINGS:
        raise ValueError(encoding)
    return encoding.lower()


def _split_part(text: str, separator: str, number: Decimal) -> str:
    parts, index = text.split(separator) if separator else [text], int(number)
    if index == 0:
        raise ValueError("field position must not be zero")
    index = index - 1 if index > 0 else len(parts) + index
    return parts[index] if 0 <= index < len(parts) else ""


def _substring(text: str, start: Decimal, length: Decimal | None = None) -> str:
    first = int(start) - 1
    if length is None:
        return text[max(0, first) :]
    if length < 0:
        raise ValueError("negative substring length")
    return text[max(0, first) : max(0, first + int(length))]


def _position(items: Sequence[str], wanted: str) -> Decimal | None:
    return Decimal(items.index(wanted) + 1) if wanted in items else None


@lru_cache(64)
def _compiled_pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _split_by_pattern(text: str, pattern: str) -> list[str]:
    """Split a text by a pattern, without the texts of groups."""
    parts, at = [], 0
    for match in _compiled_pattern(pattern).finditer(text):
        if match.end() > match.start():
            parts.append(text[at : match.start()])
            at = match.end()
    return [*parts, text[at:]]


def _coalesce(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


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
    "regexp_split_to_array": _split_by_pattern,
    "array_position": _position,
    "coalesce": _coalesce,
    "now": lambda: Decimal(clock.time_ns()) / 1_000_000_000,
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
"""The functions that a check may call, with the types of their parameters and results, one pair per overload."""
