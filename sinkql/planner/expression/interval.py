"""An interval's text → months, days and microseconds; intervals in columns, and added to timestamps."""

from __future__ import annotations

from sinkql import logical
from sinkql.errors import SinkqlError, Span
from sinkql.logical import Call, Interval, Literal
from sinkql.logical import function as functions
from sinkql.logical.interval import RangeError, read_interval
from sinkql.logical.type import BIGINT, SECOND, Type
from sinkql.planner.expression.typed_expression import Typed, call


def parse_interval(text: str, span: Span, unit: str | None = None) -> Interval:
    """Return an interval literal's value; raises SinkqlError (SQ2212) for a form that is not understood."""
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
    """Return an interval as columns have it, and not as Spark computes with it."""
    if _product(value):
        return _multiple(value)
    computed = value.difference is not None or isinstance(value.constant, Interval)
    return call("$held(interval)", (value,), value.span) if computed else value


def _multiple(value: Typed) -> Typed:
    """Return a multiple of a constant interval by its parts."""
    assert isinstance(value.tree, Call)
    factor, interval = value.tree.arguments
    assert isinstance(interval, Literal)
    assert isinstance(interval.value, Interval)
    times = functions.cast(factor, BIGINT) if factor.type != BIGINT else factor
    parts = (interval.value.months, interval.value.days, interval.value.micros)
    products = [
        functions.call("*(bigint,bigint)", (times, logical.literal(part, BIGINT, value.span)), value.span)
        if part
        else logical.literal(0, BIGINT, value.span)
        for part in parts
    ]
    tree = functions.call("$interval(bigint,bigint,bigint)", products, value.span)
    return Typed(tree, tree.type)


def _product(value: Typed) -> bool:
    return isinstance(value.tree, Call) and value.tree.function.startswith("*(")


def order(value: Typed) -> Typed:
    """Return what an interval is compared by, a whole number."""
    return call("$order(interval)", (held(value),), value.span, type_=Type("numeric", 38, 0))


def shift(instant: Typed, interval: Typed, *, sign: str) -> Typed:
    """Add an interval to a timestamp (`+`), or take it off (`-`): months first, then days and time."""
    plain = _is_plain(interval) if _product(interval) else isinstance(interval.constant, Interval)
    if not plain:
        interval = held(interval)
    return call(f"{sign}({instant.type.name},interval)", (instant, interval))


def _is_plain(product: Typed) -> bool:
    """Tell whether this is a multiple of a constant number of days or whole seconds, which has a form of its own."""
    assert isinstance(product.tree, Call)
    interval = product.tree.arguments[1]
    value = interval.value if isinstance(interval, Literal) else None
    return (
        isinstance(value, Interval)
        and not value.months
        and not value.micros % SECOND
        and not (value.days and value.micros)
    )
