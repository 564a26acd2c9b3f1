"""Read literals as values of a type, and cast implicitly.

Also reads intervals as months, days and microseconds, and adds them to timestamps.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from sinkql import logical
from sinkql.errors import SinkqlError, Span
from sinkql.logical import NUMERIC, Call, Interval, Literal, Type, time
from sinkql.logical import function as functions
from sinkql.logical.expression import as_call, as_literal, constant_value, single, text_of
from sinkql.logical.jsonb import jsonb
from sinkql.logical.nested import Items, UnevenError, entries, map_levels, read_array, read_map, read_record, squared
from sinkql.logical.numeric_type import RANGES
from sinkql.logical.range import SUBTYPES, UPSIDE_DOWN, BeyondError, BoundsError, read_range
from sinkql.logical.time import RangeError, read_interval, show_interval
from sinkql.logical.type import BIGINT, SECOND
from sinkql.planner import types
from sinkql.planner.expression.typed_expression import Typed, call, cast_to, check_scale, constant, exact, null_of

_TRUE = ("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1")
_FALSE = ("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0")
_MAX_EXPONENT = 1000  # far above the digits of a numeric, and still short as text
_EXACT = Context(prec=80)
_BLANK = " \t\n\r\f\v"
_MAX_SCALE = 16_383
"""The maximum number of fraction digits in the text of a numeric."""


def untyped(text: str, span: Span) -> Typed:
    """Return a string literal without a type: it takes the type of its context, by default text."""
    return constant(text, types.UNKNOWN, span)


def untyped_null(span: Span) -> Typed:
    """Return the literal NULL."""
    return null_of(types.UNKNOWN, span)


def number(text: str, span: Span, *, negative: bool = False) -> Typed:
    """Return a number literal as integer, bigint or numeric, by its form, sign and size."""
    try:
        value = Decimal(text.replace("_", ""))
    except InvalidOperation:
        raise _too_long_error(span) from None
    value = value.copy_negate() if negative and value else value
    if re.fullmatch(r"[0-9_]+", text) and -(2**63) <= value < 2**63:
        return constant(int(value), types.INTEGER if -(2**31) <= value < 2**31 else types.BIGINT, span)
    return decimal(value, span)


def decimal(value: Decimal, span: Span) -> Typed:
    """Return a numeric literal; its tree has exactly the digits of the number."""
    if abs(int(value.as_tuple().exponent)) > _MAX_EXPONENT:
        raise _too_long_error(span)
    shown = format(value, "f")
    scale = len(shown.partition(".")[2])
    precision = max(len(shown.replace(".", "").replace("-", "").lstrip("0")), scale, 1)
    if precision > 38:
        raise _too_long_error(span)
    return Typed(logical.literal(value, Type("numeric", precision, scale), span), NUMERIC)


def _too_long_error(span: Span) -> SinkqlError:
    return SinkqlError("SQ2212", "a numeric constant has more than 38 digits", span)


def coerced(value: Typed, target: Type) -> Typed:
    """Cast implicitly to a type, so that the tree has exactly this type."""
    if value.type == types.UNKNOWN:
        return null_of(target, value.span) if value.null else literal(str(value.constant), target, value.span)
    if value.type == target:
        return exact(value)
    if target == NUMERIC and value.raw.name == "numeric":
        check_scale(value)
    constant_ = value.constant
    if types.is_floating(target) and isinstance(constant_, int | Decimal):
        return literal(str(constant_), target, value.span)
    if types.is_signed_integer(target) and isinstance(constant_, int):
        return constant(constant_, target, value.span)
    return cast_to(value, target)


def literal(text: str, target: Type, span: Span) -> Typed:
    """Return a string literal read as a value of a type; raise SQ2212 if it is invalid."""
    if target in (types.TEXT, types.UNKNOWN):
        return constant(text, types.TEXT, span)
    if target == types.INTERVAL:
        return constant(parse_interval(text, span), types.INTERVAL, span)
    if target.name in ("map", "record"):
        return constant(_read_composite(text, target, span), target, span)
    if target.element is not None:
        return constant(_read_items(text, target, span), target, span)
    if types.is_range(target):
        return constant(_read_range(text, target, span), target, span)
    if target == types.JSONB:
        document(text, span)
        return cast_to(constant(text, types.TEXT, span), target)
    try:
        value = _READERS[target.name](text if target in (types.UUID, types.BYTEA) else text.strip(_BLANK), target)
    except time.OutOfRangeError:
        hint = "Use a value in the years 1 to 9999, or NULL."
        raise SinkqlError("SQ2212", f"{target} out of range: '{text}'", span, hint=hint) from None
    if value is None and target.name == "numeric" and _NUMBER.fullmatch(text.strip(_BLANK)):
        raise _overflow_error(text, target, span)
    if value is None and target.name in _INTEGERS and _WHOLE.fullmatch(text.strip(_BLANK)):
        hint = "Use numeric." if target.name in ("bigint", "uint8") else "Use bigint or numeric."
        raise SinkqlError("SQ2212", f"'{text}' is out of range for type {target}", span, hint=hint)
    if value is None:
        raise SinkqlError("SQ2212", f"invalid input syntax for type {target}: '{text}'", span, hint=_hint(target))
    return constant(value, target, span)


def _overflow_error(text: str, target: Type, span: Span) -> SinkqlError:
    """Return the error for a number that does not fit a numeric type."""
    digits = (target.precision or 0) - (target.scale or 0)
    try:
        over = Decimal(text.strip(_BLANK)).adjusted() >= digits
    except InvalidOperation:
        over = re.search(r"[eE]-", text) is None
    if over:
        message = f"numeric field overflow: '{text}' does not fit {target}"
        return SinkqlError("SQ2212", message, span, hint=f"A {target} has at most {digits} digits before the point.")
    message = f"'{text}' has too many digits after the point for {target}"
    hint = f"A {target} has {target.scale} digits after the point: round it, or cast it to another numeric(p,s)."
    return SinkqlError("SQ2212", message, span, hint=hint)


def _read_items(text: str, target: Type, span: Span) -> tuple[logical.Value | None, ...]:
    """Return the value of the text of an array or list; raise SQ2212."""
    try:
        items = read_array(text, map_levels(target))
    except ValueError:
        hint = "Write its elements in braces, as '{1,2,NULL}'."
        raise SinkqlError("SQ2212", f"invalid input syntax for type {target}: '{text}'", span, hint=hint) from None
    return _read_values(items, target, span)


def _read_values(items: Items, target: Type, span: Span) -> tuple[logical.Value | None, ...]:
    element = target.item
    values = [None if item is None else _read_element(item, element, target, span) for item in items]
    try:
        return tuple(squared(values, target))
    except UnevenError:
        message = f"the arrays in a value of type {target} have different lengths"
        hint = "Write the same number of elements in each, as in '{{1,2},{3,4}}'."
        raise SinkqlError("SQ2212", message, span, hint=hint) from None


def _read_element(item: str | Items, element: Type, target: Type, span: Span) -> logical.Value | None:
    if isinstance(item, list):
        if element.element is not None:
            return _read_values(item, element, span)
        nested = "lists within a list" if target.name == "list" else "an array of two dimensions"
        hint = f"Write {nested} into a column of type {element}{' list list' if target.name == 'list' else '[][]'}."
        raise SinkqlError("SQ2214", f"an array within a value of type {target} is not supported", span, hint=hint)
    if target.name == element.name == "array":
        hint = "Write arrays as its elements, as in '{{1,2},{3,4}}'."
        raise SinkqlError("SQ2212", f"a value of type {target} has an element that is not an array", span, hint=hint)
    return _read_part(item, element, span)


def _read_composite(text: str, target: Type, span: Span) -> tuple[Any, ...]:
    """Return the value of the text of a map or record; raise SQ2212."""
    try:
        if target.name == "map":
            return entries((key, _read_part(value, target.value, span)) for key, value in read_map(text))
        texts = read_record(text, len(target.fields))
    except ValueError:
        example = "{a=>1,b=>NULL}" if target.name == "map" else f"({','.join(['…'] * len(target.fields))})"
        hint = f"Write it as '{example}'."
        raise SinkqlError("SQ2212", f"invalid input syntax for type {target}: '{text}'", span, hint=hint) from None
    for part, field in zip(texts, target.fields, strict=True):
        if part is None and not field.nullable:
            raise SinkqlError("SQ2212", f'null value in field "{field.name}" of {target}, which is NOT NULL', span)
    return tuple(_read_part(text, field.type, span) for text, field in zip(texts, target.fields, strict=True))


def _read_part(text: str | None, type_: Type, span: Span) -> logical.Value | None:
    """Return the value of the text of a part."""
    if text is None:
        return None
    if type_ == types.JSONB:
        return document(text, span)
    if type_ == types.INTERVAL:
        return show_interval(parse_interval(text, span))  # columns store intervals as text
    return as_literal(literal(text, type_, span).tree).value


def _read_range(text: str, target: Type, span: Span) -> str:
    """Return the canonical text of a range; raise SQ2212."""

    def read(bound: str) -> logical.Value:
        tree = as_literal(literal(bound, SUBTYPES[target.name], span).tree)
        assert tree.value is not None
        return tree.value

    try:
        return read_range(text, target.name, read)
    except BoundsError:
        hint = "Write the lower bound first."
        raise SinkqlError("SQ2212", f"{UPSIDE_DOWN}: '{text}'", span, hint=hint) from None
    except BeyondError:
        raise SinkqlError("SQ2212", f"{SUBTYPES[target.name]} out of range: '{text}'", span) from None
    except ValueError:
        bounds = "2024-01-01,2024-02-01" if target.name in ("daterange", "tsrange", "tstzrange") else "1,5"
        hint = f"Write it as '[{bounds})', without a value for an infinite bound, or 'empty'."
        raise SinkqlError("SQ2212", f"invalid input syntax for type {target}: '{text}'", span, hint=hint) from None


def document(text: str, span: Span) -> str:
    """Return the jsonb text of a string literal; raise SQ2212 if it is not JSON."""
    try:
        return jsonb(text)
    except (ValueError, RecursionError):
        raise SinkqlError("SQ2212", f"invalid input syntax for type jsonb: '{text}'", span) from None


def _integer(text: str, target: Type) -> int | None:
    match = re.fullmatch(r"([+-]?)0*([0-9]{0,20})", text)
    if match is None or not text[-1:].isdigit():
        return None
    value = int(f"{match[1]}{match[2] or 0}")
    return value if value in RANGES[target.name] else None


_WHOLE = re.compile(r"[+-]?[0-9]+")
_INTEGERS = frozenset(RANGES)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def _numeric(text: str, target: Type) -> Decimal | None:
    if not _NUMBER.fullmatch(text):
        return None
    try:
        value, scale = Decimal(text), target.scale or 0
    except InvalidOperation:
        return None  # the exponent is out of range for a decimal
    if -int(value.as_tuple().exponent) > (types.MAX_SCALE if target == NUMERIC else _MAX_SCALE):
        return None
    if value.adjusted() > (target.precision or 0):
        return None
    rounded = _EXACT.plus(Decimal(text_of(value, target)))  # removes the sign of -0
    return rounded if abs(rounded) < Decimal(10) ** ((target.precision or 0) - scale) else None


def _floating(text: str, target: Type) -> float | None:
    if re.fullmatch(r"[+-]?(nan|inf|infinity)", text, re.IGNORECASE):
        return float(text)
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return None
    value = float(text)
    if target == types.REAL:
        value = single(value)
    lost = value == 0 and re.search(r"[1-9]", re.split("[eE]", text)[0])
    return None if math.isinf(value) or lost else value


def _boolean(text: str, _target: Type) -> bool | None:
    if text.lower() in _TRUE:
        return True
    return False if text.lower() in _FALSE else None


def _time_reader(read: Callable[[str], logical.Value]) -> Callable[[str, Type], logical.Value | None]:
    def read_or_none(text: str, _target: Type) -> logical.Value | None:
        try:
            return read(text)
        except time.OutOfRangeError:
            raise
        except ValueError:
            return None

    return read_or_none


def _uuid(text: str, _target: Type) -> str | None:
    if not re.fullmatch(r"([0-9a-fA-F]{4}-?){7}[0-9a-fA-F]{4}|\{([0-9a-fA-F]{4}-?){7}[0-9a-fA-F]{4}\}", text):
        return None
    digits = re.sub(r"[{}-]", "", text).lower()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _bytea(text: str, _target: Type) -> bytes | None:
    if re.fullmatch(r"\\x([0-9a-fA-F]{2})*", text):
        return bytes.fromhex(text[2:])
    return None if "\\" in text else text.encode()


_READERS: dict[str, Callable[[str, Type], logical.Value | None]] = {
    **dict.fromkeys(RANGES, _integer), "numeric": _numeric, "real": _floating,
    "double precision": _floating, "boolean": _boolean, "date": _time_reader(time.read_date),
    "time": _time_reader(time.read_time),
    "timestamp": _time_reader(time.read_timestamp), "timestamptz": _time_reader(time.read_timestamptz), "uuid": _uuid,
    "bytea": _bytea,
}  # fmt: skip
_HINTS = {
    **dict.fromkeys(RANGES, "Write an integer, or cast the opposite operand to text."),
    **dict.fromkeys(("numeric", "real", "double precision"), "Write a number, or cast the opposite operand to text."),
    "boolean": "Write true or false.",
    "uuid": "Write it as '00000000-0000-0000-0000-000000000000'.",
    "bytea": r"Write bytes in hexadecimal, as '\x01ff'.",
    "date": "Write dates as DATE '2024-02-29'.",
    "time": "Write times of day as TIME '12:30:00', of less than 24 hours.",
    "timestamp": "Write timestamps as TIMESTAMP '2024-02-29 12:30:00'.",
    "timestamptz": "Write them with a numeric zone, as TIMESTAMPTZ '2024-02-29 12:30:00+00'.",
}


def _hint(target: Type) -> str | None:
    return _HINTS.get(target.name)


def parse_interval(text: str, span: Span, unit: str | None = None) -> Interval:
    """Return the value of an interval literal; raise SQ2212 if its form is not supported."""
    try:
        return read_interval(text, unit)
    except RangeError:
        raise SinkqlError(
            "SQ2212", "the interval is out of range", span, hint="Write fewer years, days or hours."
        ) from None
    except ValueError:
        shown = text if len(text) <= 60 else f"{text[:20]}…"
        hint = "Write it as INTERVAL '1 year 2 months 3 days 04:05:06'."
        raise SinkqlError("SQ2212", f"invalid input syntax for type interval: '{shown}'", span, hint=hint) from None


def held(value: Typed) -> Typed:
    """Return an interval in the form that columns store, instead of Spark's."""
    if _is_product(value):
        return _scaled_interval(value)
    computed = value.difference is not None or isinstance(value.constant, Interval)
    return call("$held(interval)", (value,), value.span) if computed else value


def _scaled_interval(value: Typed) -> Typed:
    """Return a multiple of a constant interval, part by part."""
    factor, interval = as_call(value.tree).arguments
    unit = constant_value(interval, Interval)
    times = functions.cast(factor, BIGINT) if factor.type != BIGINT else factor
    parts = (unit.months, unit.days, unit.micros)
    products = [
        functions.call("*(bigint,bigint)", (times, logical.literal(part, BIGINT, value.span)), value.span)
        if part
        else logical.literal(0, BIGINT, value.span)
        for part in parts
    ]
    tree = functions.call("$interval(bigint,bigint,bigint)", products, value.span)
    return Typed(tree, tree.type)


def _is_product(value: Typed) -> bool:
    return isinstance(value.tree, Call) and value.tree.function.startswith("*(")


def order(value: Typed) -> Typed:
    """Return the integer by which an interval is compared."""
    return call("$order(interval)", (held(value),), value.span, type_=Type("numeric", 38, 0))


def shift(instant: Typed, interval: Typed, *, sign: str) -> Typed:
    """Add an interval to a timestamp (`+`) or subtract it (`-`): months first, then days and time."""
    plain = _is_plain(interval) if _is_product(interval) else isinstance(interval.constant, Interval)
    if not plain:
        interval = held(interval)
    return call(f"{sign}({instant.type.name},interval)", (instant, interval))


def _is_plain(product: Typed) -> bool:
    """Return whether this is a multiple of a constant number of days or of whole seconds, which Spark adds directly."""
    interval = as_call(product.tree).arguments[1]
    value = interval.value if isinstance(interval, Literal) else None
    return (
        isinstance(value, Interval)
        and not value.months
        and not value.micros % SECOND
        and not (value.days and value.micros)
    )
