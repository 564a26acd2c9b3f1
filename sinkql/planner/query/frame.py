"""ROWS, RANGE and GROUPS of a window → the frame that they mean."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from sinkql import logical
from sinkql.errors import SinkqlError, Span
from sinkql.logical import Interval
from sinkql.planner import types
from sinkql.planner.expression.literal import coerced
from sinkql.planner.expression.typed_expression import Typed
from sinkql.planner.query.expression_context import Translation

_CODE = "SQ2242"
_CURRENT, _UNBOUNDED = "CURRENT ROW", "UNBOUNDED"
_DEFAULT = logical.Frame()
_LARGE = 1 << 62


def planned(t: Translation, spec: Any, order: Sequence[Typed]) -> logical.Frame | None:
    """Return the frame that a window has; None for the one that it has without a word."""
    if spec is None:
        return None
    t.only(spec, "kind", "start", "start_side", "end", "end_side", "exclude")
    unit = str(spec.args["kind"]).lower()
    sides = [
        (spec.args["start"], spec.args.get("start_side")),
        (spec.args.get("end") or _CURRENT, spec.args.get("end_side")),
    ]
    span = t.span(spec)
    _check(sides, span)
    if unit == "groups" and not order:
        raise _wrong("a frame of GROUPS requires ORDER BY in its window", span, "Add ORDER BY before GROUPS.")
    begin, until = (_Bound(t, unit, order, span).plan(value, side) for value, side in sides)
    exclude = spec.args.get("exclude")
    found = logical.Frame(unit, begin, until, str(exclude.name).lower() if exclude is not None else "no others")
    return None if found == _DEFAULT else found


def _check(sides: Sequence[tuple[Any, Any]], span: Span) -> None:
    """Refuse frames that end before they start, by the words alone, as Postgres does."""
    (start, start_side), (end, end_side) = sides
    if start == _UNBOUNDED and start_side == "FOLLOWING":
        raise _wrong("a frame cannot start at UNBOUNDED FOLLOWING", span, "Write UNBOUNDED PRECEDING.")
    if end == _UNBOUNDED and end_side == "PRECEDING":
        raise _wrong("a frame cannot end at UNBOUNDED PRECEDING", span, "Write UNBOUNDED FOLLOWING.")
    places = [_place(start, start_side), _place(end, end_side)]
    if places[0] > places[1]:
        raise _wrong("the frame ends before it starts", span, "Write the earlier bound first: BETWEEN … AND ….")


def _place(value: Any, side: Any) -> int:
    return 0 if value == _CURRENT else -1 if side == "PRECEDING" else 1


def _wrong(message: str, span: Span, hint: str | None = None) -> SinkqlError:
    return SinkqlError(_CODE, message, span, hint=hint)


class _Bound:
    """One end of a frame."""

    def __init__(self, t: Translation, unit: str, order: Sequence[Typed], span: Span) -> None:
        self._t, self._unit, self._order, self._span = t, unit, order, span

    def plan(self, value: Any, side: Any) -> logical.FrameBound:
        if value == _UNBOUNDED:
            return logical.FrameBound(None)
        if value == _CURRENT:
            return logical.FrameBound(0)
        sign = -1 if side == "PRECEDING" else 1
        offset = self._t.translate(value)
        return logical.FrameBound(self._far(offset, sign) if self._unit == "range" else self._rows(offset) * sign)

    def _rows(self, offset: Typed) -> int:
        constant = offset.constant
        if not isinstance(constant, int) or isinstance(constant, bool) or constant < 0:
            what = "rows" if self._unit == "rows" else "groups"
            message = f"a frame of {self._unit.upper()} takes a constant number of {what}, 0 or more"
            raise _wrong(message, offset.span, "Write a number, such as 1 PRECEDING.")
        return constant

    def _far(self, offset: Typed, sign: int) -> int | str:
        if len(self._order) != 1:
            message = "a frame of RANGE with an offset requires exactly one ORDER BY column"
            raise _wrong(message, self._span, "Order by one column, or count rows: ROWS instead of RANGE.")
        (by,) = self._order
        if types.instant(by.type) or by.type == types.TIME:
            return self._interval(offset, by, sign)
        if not types.number(by.type):
            message = f"a frame of RANGE with an offset is not supported for values of type {by.type}"
            raise _wrong(message, self._span, "Order by a number or a time, or use ROWS.")
        if offset.type == types.UNKNOWN:
            offset = coerced(offset, by.type)
        value = offset.constant
        if isinstance(value, bool) or not isinstance(value, int | Decimal) or value < 0:
            message = f"a frame of RANGE over {by.type} takes a constant number, 0 or more"
            raise _wrong(message, offset.span, "Write a number, such as 10 PRECEDING.")
        if types.whole(by.type) and value != int(value):
            message = f"a frame of RANGE over {by.type} takes a whole number"
            raise _wrong(message, offset.span, f"Order by {by.column or 'value'}::numeric.")
        if not value:
            return 0
        return sign * value if isinstance(value, int) and value < _LARGE else f"{sign * value:f}"

    def _interval(self, offset: Typed, by: Typed, sign: int) -> int | str:
        if offset.type == types.UNKNOWN:
            offset = coerced(offset, types.INTERVAL)
        value = offset.constant
        if not isinstance(value, Interval) or min(value.months, value.days, value.micros) < 0:
            message = f"a frame of RANGE over {by.type} takes a constant interval, zero or more"
            raise _wrong(message, offset.span, "Write an interval, such as INTERVAL '1 day' PRECEDING.")
        parts = (value.months, value.days, value.micros)
        return " ".join(str(sign * part) for part in parts) if any(parts) else 0
