"""An explicit cast → its tree; raises where there is no such cast, or none that is exact."""

from __future__ import annotations

from dataclasses import replace

from sinkql.errors import SinkqlError, Span
from sinkql.logical import NUMERIC, Type
from sinkql.logical.function import CASTS
from sinkql.logical.range import SUBTYPES
from sinkql.planner import types
from sinkql.planner.expression.composite import no_cast, recast, recasts
from sinkql.planner.expression.interval import held
from sinkql.planner.expression.literal import literal
from sinkql.planner.expression.typed_expression import Typed, call, cast_to, constant, exact, null_of

_REFUSED = {
    ("numeric", "text"): "the text of a numeric depends on a display scale; cast to numeric(p,s) first",
    ("real", "text"): "the text of a floating-point number differs; cast to numeric(p,s) first",
    ("double precision", "text"): "the text of a floating-point number differs; cast to numeric(p,s) first",
    ("text", "interval"): "of texts, only constants are read as intervals",
    **{("text", name): "of texts, only constants are read as ranges" for name in SUBTYPES},
    ("numrange", "text"): "the text of a numeric depends on a display scale; take lower() and upper()",
}


def cast(value: Typed, target: Type, span: Span, length: int | None = None) -> Typed:
    """Convert explicitly; raises SinkqlError where there is no such cast (SQ2218) or no exact form of it (SQ2214)."""
    if value.type == types.UNKNOWN:
        found = null_of(target, span) if value.null else literal(str(value.constant), target, value.span)
    elif value.type == target and target != NUMERIC:  # which may have more digits in its tree
        found = exact(value)
    else:
        found = _converted(value, target, span)
    if target == NUMERIC:
        found = replace(found, scale=NUMERIC.scale)  # a column of it is of the type that is written
    if length is not None:
        bounds = (constant(number, types.INTEGER, span) for number in (1, length))
        found = call("substring(text,integer,integer)", (found, *bounds))
    return found.at(span)


def _converted(value: Typed, target: Type, span: Span) -> Typed:
    kinds = (value.type.name, target.name)
    if kinds[0] == "interval":
        value = held(value)
    if recasts(value.type, target):
        return recast(value, target, span, cast)
    if kinds in CASTS and not (target == types.TEXT and value.raw == NUMERIC):
        if value.raw == target:
            return value
        return cast_to(value, target)
    reason = _REFUSED.get(kinds)
    if reason is not None:
        raise SinkqlError("SQ2214", f"a cast of {kinds[0]} to {kinds[1]} is not exact: {reason}", span)
    raise no_cast(value.type, target, span)
