"""Functions of text and bytes whose overloads take more than types to find."""

from __future__ import annotations

from sinkql.errors import SinkqlError, Span
from sinkql.logical.pattern import format_pieces
from sinkql.planner.expression.cast import cast
from sinkql.planner.expression.typed_expression import Typed, call, constant
from sinkql.planner.function import pattern
from sinkql.planner.function.argument import Handler, arity, constant_text, typed
from sinkql.planner.types import BOOLEAN, BYTEA, INTEGER, TEXT, UNKNOWN

_FORMATS = ("hex", "base64")
_FORMATS_HINT = "The formats are hex and base64."
ALIASES = {"character_length": "char_length"}
"""Other names of functions: the same function under both."""


def _substring(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 3)
    if len(arguments) == 2 and arguments[1].type in (TEXT, UNKNOWN):
        return pattern.substring(arguments[0], arguments[1], span)
    values = [typed(name, arguments[0], TEXT), *(typed(name, value, INTEGER) for value in arguments[1:])]
    return call(f"substring(text{',integer' * (len(values) - 1)})", values)


def _concat(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 1, 99)
    return call("concat(any…)", [_shown(value) for value in arguments], span)


def _concat_ws(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 99)
    return call("concat_ws(text,any…)", [typed(name, arguments[0], TEXT), *map(_shown, arguments[1:])], span)


def _format(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 1, 99)
    text = constant_text(name, arguments[0], "pattern")
    with pattern.refused(arguments[0].span):
        pieces = format_pieces(text)
    if len(pieces) != len(arguments):
        raise SinkqlError("SQ2214", "format() takes one argument for each %s", arguments[0].span)
    return call("format(any…)", [typed(name, arguments[0], TEXT), *map(_shown, arguments[1:])], span)


def _shown(value: Typed) -> Typed:
    """Return a value that concat() and format() write: one that has an exact text, or a boolean."""
    if value.type == BOOLEAN:
        return value
    text = cast(value, TEXT, value.span)
    return text if value.type == UNKNOWN else value


def _encode(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    value, kind = typed(name, arguments[0], BYTEA), constant_text(name, arguments[1], "format").lower()
    if kind not in _FORMATS:
        raise SinkqlError("SQ2214", f"encode() to {kind} is not supported", arguments[1].span, hint=_FORMATS_HINT)
    return call("encode(bytea,text)", (value, constant(kind, TEXT, arguments[1].span)))


def _decode(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    value, kind = typed(name, arguments[0], TEXT), constant_text(name, arguments[1], "format").lower()
    if kind == "hex" or (kind == "base64" and value.constant is not None):
        return call("decode(text,text)", (value, constant(kind, TEXT, arguments[1].span)))
    hint = "The format base64 takes constants only." if kind == "base64" else _FORMATS_HINT
    raise SinkqlError("SQ2214", f"decode() from {kind} is not supported here", span, hint=hint)


def _convert(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    encoding = constant_text(name, arguments[1], "encoding").upper().replace("-", "")
    if encoding != "UTF8":
        raise SinkqlError("SQ2214", f"{name}() takes only the encoding UTF8", arguments[1].span)
    taken = "text" if name == "convert_to" else "bytea"
    value = typed(name, arguments[0], TEXT if name == "convert_to" else BYTEA)
    return call(f"{name}({taken},text)", (value, constant("UTF8", TEXT, arguments[1].span)))


def trim(kind: str, text: Typed, characters: Typed | None, span: Span) -> Typed:
    """Plan TRIM([BOTH | LEADING | TRAILING] [characters] FROM text)."""
    if text.type not in (TEXT, UNKNOWN):
        raise SinkqlError("SQ2211", f"trim() takes text, found {text.type.name}", text.span)
    values = [typed("trim", value, TEXT) for value in (text, characters) if value is not None]
    return call(f"{_TRIMS[kind]}({','.join(['text'] * len(values))})", values, span)


_TRIMS = {"BOTH": "btrim", "LEADING": "ltrim", "TRAILING": "rtrim"}
HANDLERS: dict[str, Handler] = {
    "substring": _substring, "substr": _substring, "concat": _concat, "concat_ws": _concat_ws, "format": _format,
    "encode": _encode, "decode": _decode, "convert_to": _convert, "convert_from": _convert,
}  # fmt: skip
