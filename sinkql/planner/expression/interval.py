"""An interval's text → months, days and microseconds; intervals in columns, and added to timestamps."""

from __future__ import annotations

from sinkql.errors import SinkqlError, Span
from sinkql.logical import Call, Interval, Literal
from sinkql.logical.interval import RangeError, read_interval
from sinkql.logical.type import SECOND, Type
from sinkql.planner.expression.typed import Typed, call


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
        hint = "Use a constant interval, or the difference of two timestamps."
        raise SinkqlError("SQ2214", "a multiple of an interval is not supported here", value.span, hint=hint)
    computed = value.difference is not None or isinstance(value.constant, Interval)
    return call("$held(interval)", (value,), value.span) if computed else value


def _product(value: Typed) -> bool:
    return isinstance(value.tree, Call) and value.tree.function.startswith("*(")


def order(value: Typed) -> Typed:
    """Return what an interval is compared by, a whole number."""
    return call("$order(interval)", (held(value),), value.span, type_=Type("numeric", 38, 0))


def shift(instant: Typed, interval: Typed, *, sign: str) -> Typed:
    """Add an interval to a timestamp (`+`), or take it off (`-`): months first, then days and time."""
    if _product(interval):
        _check_times(interval)
    elif not isinstance(interval.constant, Interval):
        interval = held(interval)
    return call(f"{sign}({instant.type.name},interval)", (instant, interval))


def _check_times(product: Typed) -> None:
    """Refuse all multiples of an interval but those of a constant number of days or whole seconds."""
    assert isinstance(product.tree, Call)
    interval = product.tree.arguments[1]
    value = interval.value if isinstance(interval, Literal) else None
    if not isinstance(value, Interval) or value.months or value.micros % SECOND or (value.days and value.micros):
        hint = "Use a constant interval, n * INTERVAL '1 day' or n * INTERVAL '1 second'."
        raise SinkqlError("SQ2214", "this multiple of an interval is not supported", product.span, hint=hint)
