"""Plan functions of text and bytes whose overloads depend on more than types.

Also plans LIKE and regular expressions, whose constant patterns use the syntax that Postgres and Java share.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sinkql.connector_api.types import nested_type
from sinkql.errors import SinkqlError, Span
from sinkql.logical.pattern import (
    Pattern,
    PatternError,
    anchored,
    format_pieces,
    java_replacement,
    matches_empty,
    read_match,
    read_regex,
)
from sinkql.planner import types
from sinkql.planner.expression.cast import cast
from sinkql.planner.expression.literal import coerced
from sinkql.planner.expression.typed_expression import Typed, call, constant
from sinkql.planner.function.argument import Handler, arity, constant_text, typed
from sinkql.planner.types import BOOLEAN, BYTEA, INTEGER, TEXT, UNKNOWN

_FORMATS = ("hex", "base64")
_FORMATS_HINT = "The formats are hex and base64."
ALIASES = {"character_length": "char_length"}
"""Alternative names of functions."""


def _substring(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 3)
    if len(arguments) == 2 and arguments[1].type in (TEXT, UNKNOWN):
        return substring(arguments[0], arguments[1], span)
    values = [typed(name, arguments[0], TEXT), *(typed(name, value, INTEGER) for value in arguments[1:])]
    return call(f"substring(text{',integer' * (len(values) - 1)})", values)


def _concat(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 1, 99)
    return call("concat(any…)", [_printable(value) for value in arguments], span)


def _concat_ws(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 99)
    return call("concat_ws(text,any…)", [typed(name, arguments[0], TEXT), *map(_printable, arguments[1:])], span)


def _format(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 1, 99)
    text = constant_text(name, arguments[0], "pattern")
    with refused(arguments[0].span):
        pieces = format_pieces(text)
    if len(pieces) != len(arguments):
        raise SinkqlError("SQ2214", "format() takes one argument for each %s", arguments[0].span)
    return call("format(any…)", [typed(name, arguments[0], TEXT), *map(_printable, arguments[1:])], span)


def _printable(value: Typed) -> Typed:
    """Return a value that concat() and format() print: a boolean, or a value with an exact text."""
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
    hint = "The format base64 takes only constants." if kind == "base64" else _FORMATS_HINT
    raise SinkqlError("SQ2214", f"decode() from {kind} is not supported here", span, hint=hint)


def _convert(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    encoding = constant_text(name, arguments[1], "encoding").upper().replace("-", "")
    if encoding != "UTF8":
        raise SinkqlError("SQ2214", f"{name}() takes only the encoding UTF8", arguments[1].span)
    argument_type = "text" if name == "convert_to" else "bytea"
    value = typed(name, arguments[0], TEXT if name == "convert_to" else BYTEA)
    return call(f"{name}({argument_type},text)", (value, constant("UTF8", TEXT, arguments[1].span)))


def trim(kind: str, text: Typed, characters: Typed | None, span: Span) -> Typed:
    """Plan TRIM([BOTH | LEADING | TRAILING] [characters] FROM text)."""
    if text.type not in (TEXT, UNKNOWN):
        raise SinkqlError("SQ2211", f"trim() takes text, found {text.type.name}", text.span)
    values = [typed("trim", value, TEXT) for value in (text, characters) if value is not None]
    return call(f"{_TRIMS[kind]}({','.join(['text'] * len(values))})", values, span)


_TRIMS = {"BOTH": "btrim", "LEADING": "ltrim", "TRAILING": "rtrim"}


@contextmanager
def refused(span: Span, **spans: Span) -> Iterator[None]:
    """Turn an error of a pattern that is read within into SQ2214; `spans` has the spans of further arguments."""
    try:
        yield
    except PatternError as error:
        raise SinkqlError("SQ2214", error.message, spans.get(error.of, span), hint=error.hint) from None


def like(subject: Typed, pattern: Typed, escape: Typed | None, *, ignore_case: bool) -> Typed:
    """Plan `subject LIKE pattern`."""
    if any(value.type not in (types.TEXT, types.UNKNOWN) for value in (subject, pattern)):
        wrong = next(value for value in (subject, pattern) if value.type not in (types.TEXT, types.UNKNOWN))
        raise SinkqlError("SQ2211", f"LIKE takes text, found {wrong.type.name}", wrong.span)
    values = [coerced(value, types.TEXT) for value in (subject, pattern)]
    if escape is not None:
        if not isinstance(escape.constant, str) or len(escape.constant) != 1:
            raise SinkqlError("SQ2214", "ESCAPE takes one constant character", escape.span)
        if escape.constant != "\\":
            values.append(coerced(escape, types.TEXT))
    if isinstance(pattern.constant, str):
        _check_escapes(pattern.constant, str(escape.constant) if escape else "\\", pattern)
    return call(f"{'ILIKE' if ignore_case else 'LIKE'}({','.join(['text'] * len(values))})", values)


def _check_escapes(text: str, escape: str, pattern: Typed) -> None:
    """Raise SQ2214 for an escape before an ordinary character: Postgres ignores it, Spark raises an error."""
    position = 0
    while position < len(text):
        if text[position] == escape:
            if text[position + 1 : position + 2] not in ("%", "_", escape):
                hint = "Escape only %, _ and the escape character itself."
                raise SinkqlError(
                    "SQ2214", f"the pattern escapes a character that needs no escape: {text!r}", pattern.span, hint=hint
                )
            position += 1
        position += 1


def matches(subject: Typed, pattern: Typed, *, ignore_case: bool) -> Typed:
    """Plan `subject ~ 'pattern'`."""
    text = constant_text("~", pattern, "pattern")
    with refused(pattern.span):
        read_regex(text)
    values = (typed("~", subject, types.TEXT), coerced(pattern, types.TEXT))
    return call("~*(text,text)" if ignore_case else "~(text,text)", values)


def substring(text: Typed, pattern: Typed, span: Span) -> Typed:
    """Plan substring(text FROM 'pattern'): the first group of the match, or the whole match."""
    regex = _match("substring", pattern)
    _check_group(regex, min(regex.groups, 1), pattern.span)
    values = (typed("substring", text, types.TEXT), coerced(pattern, types.TEXT))
    return call("substring(text,text)", values, span)


def match_group(text: Typed, pattern: Typed, index: int) -> Typed:
    """Plan (regexp_match(text, 'pattern'))[index]."""
    regex = _match("regexp_match", pattern)
    if not 1 <= index <= max(regex.groups, 1):
        raise SinkqlError("SQ2214", f"the pattern has no group {index}", pattern.span)
    _check_group(regex, index if regex.groups else 0, pattern.span)
    values = (typed("regexp_match", text, types.TEXT), coerced(pattern, types.TEXT))
    return call("REGEXP_MATCH(text,text,integer)", (*values, constant(index, types.INTEGER, pattern.span)))


def _match(name: str, pattern: Typed) -> Pattern:
    text = constant_text(name, pattern, "pattern")
    with refused(pattern.span):
        return read_match(text)


def _check_group(regex: Pattern, index: int, span: Span) -> None:
    if index and regex.optional:
        raise SinkqlError("SQ2214", "an optional group is not supported", span)


def _replace(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 3, 4)
    texts = [constant_text(name, argument, what) for argument, what in zip(arguments[1:], _PARTS, strict=False)]
    spans = dict(zip(_PARTS, (argument.span for argument in arguments[1:]), strict=False))
    with refused(span, **spans):
        java_replacement(texts[0], texts[1], texts[2] if len(texts) == 3 else "")
    values = [typed(name, arguments[0], types.TEXT), *(coerced(argument, types.TEXT) for argument in arguments[1:])]
    return call(f"regexp_replace({','.join(['text'] * len(values))})", values)


_PARTS = ("pattern", "replacement", "flags")


def _count(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 4)
    flags = _flags(name, arguments, 3)
    regex = _match(name, arguments[1])
    text = _from_start(name, arguments, regex)
    if not flags:
        return call("regexp_count(text,text)", (text, coerced(arguments[1], types.TEXT)))
    more = (constant(1, types.INTEGER, span), constant(flags, types.TEXT, span))
    return call("regexp_count(text,text,integer,text)", (text, coerced(arguments[1], types.TEXT), *more))


def _substr(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    """Plan regexp_substr(string, pattern, start, N, flags, subexpr): the Nth match, or a group of it."""
    arity(name, arguments, span, 2, 6)
    regex = _match(name, arguments[1])
    number, index = _number(name, arguments, 3, least=1), _number(name, arguments, 5, least=0)
    if index > regex.groups:
        raise SinkqlError("SQ2214", f"the pattern has no group {index}", arguments[1].span)
    _check_group(regex, index, arguments[1].span)
    flags = constant(_flags(name, arguments, 4), types.TEXT, span)
    first, nth, group = (constant(value, types.INTEGER, span) for value in (1, number, index))
    values = (_from_start(name, arguments, regex), coerced(arguments[1], types.TEXT), first, nth, flags, group)
    return call("regexp_substr(text,text,integer,integer,text,integer)", values, span)


_WORDS = ("string", "pattern", "start", "N", "flags", "subexpr")


def _number(name: str, arguments: tuple[Typed, ...], place: int, *, least: int) -> int:
    """Return a constant integer argument, by default the minimum."""
    if len(arguments) <= place:
        return least
    value = arguments[place].constant
    if not isinstance(value, int) or isinstance(value, bool) or value >= 2**31:
        message = f"the argument {_WORDS[place]} of {name}() must be a constant number"
        raise SinkqlError("SQ2214", message, arguments[place].span)
    if value < least:
        message = f'invalid value for parameter "{_WORDS[place].lower()}": {value}'
        raise SinkqlError("SQ2212", message, arguments[place].span, hint=f"Write {least} or more.")
    return value


def _flags(name: str, arguments: tuple[Typed, ...], place: int) -> str:
    """Return i if a pattern ignores case, else an empty string; the last of the flags i and c counts."""
    if len(arguments) <= place:
        return ""
    text = constant_text(name, arguments[place], "flags")
    if not set(text) <= {"i", "c"}:
        message = f"the flags '{text}' of {name}() are not supported: only i and c"
        raise SinkqlError("SQ2214", message, arguments[place].span)
    return "i" if text.endswith("i") else ""


def _from_start(name: str, arguments: tuple[Typed, ...], regex: Pattern) -> Typed:
    """Return the text from the position of the argument `start`."""
    text, start = typed(name, arguments[0], types.TEXT), _number(name, arguments, 2, least=1)
    if start == 1:
        return text
    if anchored(regex.java) or matches_empty(regex.java):
        message = f"{name}() with a start takes no pattern that is anchored or matches an empty text"
        raise SinkqlError("SQ2214", message, arguments[1].span)
    return call("substring(text,integer)", (text, constant(start, types.INTEGER, arguments[2].span)))


def _split(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    regex = _match(name, arguments[1])
    if matches_empty(regex.java):
        message = f"a pattern of {name}() that matches an empty text is not supported"
        raise SinkqlError("SQ2214", message, arguments[1].span, hint=_NOT_EMPTY)
    values = (typed(name, arguments[0], types.TEXT), coerced(arguments[1], types.TEXT))
    return call("regexp_split_to_array(text,text)", values, span, type_=nested_type("array", types.TEXT))


def _like(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 3)
    return matches(arguments[0], arguments[1], ignore_case=_flags(name, arguments, 2) == "i")


_NOT_EMPTY = "Write + instead of *, or string_to_array(text, NULL) for single characters."
HANDLERS: dict[str, Handler] = {
    "substring": _substring,
    "substr": _substring,
    "concat": _concat,
    "concat_ws": _concat_ws,
    "format": _format,
    "encode": _encode,
    "decode": _decode,
    "convert_to": _convert,
    "convert_from": _convert,
    "regexp_replace": _replace,
    "regexp_count": _count,
    "regexp_like": _like,
    "regexp_split_to_array": _split,
    "regexp_substr": _substr,
}
