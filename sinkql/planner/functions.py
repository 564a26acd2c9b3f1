"""A function's name and typed arguments → Spark SQL: overloads, and how one is chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sinkql.errors import SinkqlError, Span
from sinkql.planner import (
    functions_condition,
    functions_json,
    functions_number,
    functions_pattern,
    functions_text,
    functions_time,
    types,
)  # fmt: skip
from sinkql.planner.expressions_literal import coerced
from sinkql.planner.expressions_typed import Typed, form
from sinkql.planner.functions_elsewhere import function_hint
from sinkql.planner.functions_overload import Handler, Overload

OVERLOADS: Mapping[str, tuple[Overload, ...]] = {
    **functions_number.OVERLOADS,
    **functions_text.OVERLOADS,
    **functions_time.OVERLOADS,
    **functions_json.OVERLOADS,
}
HANDLERS: Mapping[str, Handler] = {
    **functions_number.HANDLERS,
    **functions_text.HANDLERS,
    **functions_time.HANDLERS,
    **functions_condition.HANDLERS,
    **functions_json.HANDLERS,
    **functions_pattern.HANDLERS,
}
_VOLATILE = (
    "now", "current_timestamp", "current_date", "current_time", "localtime", "localtimestamp", "random",
    "clock_timestamp", "statement_timestamp", "transaction_timestamp", "timeofday", "gen_random_uuid",
    "uuid_generate_v4", "mz_now", "nextval", "setseed", "random_normal", "uuidv4", "uuidv7",
)  # fmt: skip
_SET_RETURNING = (
    "unnest", "generate_series", "jsonb_object_keys", "jsonb_array_elements", "jsonb_each", "regexp_matches",
    "regexp_split_to_table", "string_to_table",
)  # fmt: skip
AGGREGATES = ("count", "sum", "avg", "min", "max", "bool_and", "bool_or", "every")
UNSUPPORTED_AGGREGATES = (
    "string_agg", "array_agg", "list_agg", "jsonb_agg", "json_agg", "jsonb_object_agg", "stddev", "stddev_pop",
    "stddev_samp", "variance", "var_pop", "var_samp", "corr", "covar_pop", "covar_samp", "mode", "percentile_cont",
    "percentile_disc", "bit_and", "bit_or", "bit_xor", "regr_slope", "any_value",
)  # fmt: skip
_REASONS = {
    "age": "an interval of symbolic months has no exact type",
    "justify_hours": "an interval has no exact type",
    "to_date": "Postgres reads dates leniently; cast the text, as in text::date",
    "gcd": "Spark has no such function",
    "scale": "a numeric has a fixed scale here",
    "quote_literal": "it is not supported",
}


def call(name: str, arguments: Sequence[Typed], span: Span) -> Typed:
    """Plan a scalar call; raises SinkqlError: unknown (SQ2210), no such overload (SQ2211), refused (SQ2214, SQ2217)."""
    check(name, span)
    handler = HANDLERS.get(name)
    if handler is not None:
        return handler(name, tuple(arguments), span).at(span)
    return _choose(name, OVERLOADS[name], arguments, span).at(span)


def check(name: str, span: Span) -> None:
    """Raise SinkqlError for a name that no call may have, whatever its arguments: SQ2210, SQ2214, SQ2217, SQ2928."""
    if name in _VOLATILE:
        message = f"{name}() is volatile: a view's rows are a function of its inputs' rows alone"
        raise SinkqlError("SQ2217", message, span, hint="Let the source carry the time or the value as a column.")
    if name in _SET_RETURNING:
        raise SinkqlError("SQ2928", f"{name}() returns a set, which is not supported yet", span)
    if name in _REASONS:
        raise SinkqlError("SQ2214", f"{name}() has no exact form: {_REASONS[name]}", span)
    if name not in HANDLERS and name not in OVERLOADS:
        hint = function_hint(name, (*OVERLOADS, *HANDLERS, *AGGREGATES))
        raise SinkqlError("SQ2210", f'function "{name}" is not known', span, hint=hint)


def _choose(name: str, overloads: Sequence[Overload], arguments: Sequence[Typed], span: Span) -> Typed:
    fitting = [each for each in overloads if _fits(each, arguments)]
    if not fitting:
        shown = ", ".join(value.type.name for value in arguments)
        known = "; ".join(f"{name}({', '.join(type_.name for type_ in each.parameters)})" for each in overloads)
        raise SinkqlError("SQ2211", f"there is no function {name}({shown})", span, hint=f"There is {known}.")
    best = max(fitting, key=lambda each: _exact_matches(each, arguments))
    if best.refused is not None:
        raise SinkqlError("SQ2214", f"{name}({best.parameters[0].name}) has no exact form: {best.refused}", span)
    values = [coerced(value, type_) for value, type_ in zip(arguments, best.parameters, strict=True)]
    if not values:
        return Typed(best.template, best.result, False, span)
    return form(best.template, values, best.result, nullable=best.nullable)


def _fits(overload: Overload, arguments: Sequence[Typed]) -> bool:
    return len(overload.parameters) == len(arguments) and all(
        types.implicit(value.type, type_) for value, type_ in zip(arguments, overload.parameters, strict=True)
    )


def _exact_matches(overload: Overload, arguments: Sequence[Typed]) -> int:
    return sum(
        3 * (value.type.name == type_.name) + (type_ == types.DOUBLE)  # double precision is the preferred number
        for value, type_ in zip(arguments, overload.parameters, strict=True)
    )
