"""Resolve a function's name and typed arguments to a call of `logical.function`'s list, or explain the error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sinkql.errors import NoFormError, SinkqlError, Span, UnknownNameError, nearest, one_of
from sinkql.logical.function import ANY, FUNCTIONS, Function
from sinkql.logical.type import NUMERIC, Type
from sinkql.parser.hint.other_dialects import call_hint, called_elsewhere
from sinkql.planner import types
from sinkql.planner.expression.literal import coerced
from sinkql.planner.expression.typed_expression import Typed, constant
from sinkql.planner.expression.typed_expression import call as listed
from sinkql.planner.function import (
    condition,
    json,
    nested,
    number,
    set_returning,
    text,
    time,
)
from sinkql.planner.function import (
    range as function_range,
)
from sinkql.planner.function.argument import Handler

# functions that check more than the types of their arguments
HANDLERS: Mapping[str, Handler] = {
    **number.HANDLERS,
    **text.HANDLERS,
    **time.HANDLERS,
    **condition.HANDLERS,
    **json.HANDLERS,
    **nested.HANDLERS,
    **function_range.HANDLERS,
}
ALIASES: Mapping[str, str] = {**number.ALIASES, **text.ALIASES, **nested.ALIASES}
_UNSUPPORTED_OVERLOADS: Mapping[str, str] = {**number.REFUSED}
_LISTED: dict[str, list[Function]] = {}
for _function in FUNCTIONS.values():
    if _function.name.islower() and ANY not in _function.parameters:  # operators have no calls by name
        _LISTED.setdefault(_function.name, []).append(_function)
NAMES = (*HANDLERS, *_LISTED, *ALIASES)
"""The names of all functions that are not aggregates."""
_VOLATILE = (
    "now", "current_timestamp", "current_date", "current_time", "localtime", "localtimestamp", "random",
    "clock_timestamp", "statement_timestamp", "transaction_timestamp", "timeofday", "gen_random_uuid",
    "uuid_generate_v4", "nextval", "setseed", "random_normal", "uuidv4", "uuidv7",
)  # fmt: skip
_SET_RETURNING = (
    *set_returning.HANDLERS,
    "regexp_matches", "regexp_split_to_table", "string_to_table", "json_array_elements", "json_each",
    "json_object_keys", "jsonb_to_recordset", "jsonb_path_query",
)  # fmt: skip
AGGREGATES = (
    "count", "sum", "avg", "min", "max", "bool_and", "bool_or", "every", "grouping", "any_value", "string_agg",
    "array_agg", "variance", "var_samp", "var_pop", "stddev", "stddev_samp", "stddev_pop", "bit_and",
    "bit_or", "bit_xor", "jsonb_agg", "jsonb_object_agg", "percentile_cont", "percentile_disc", "mode",
)  # fmt: skip
WINDOW_FUNCTIONS = (
    "row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead", "first_value",
    "last_value", "nth_value",
)  # fmt: skip
UNSUPPORTED_AGGREGATES = (
    "list_agg",
    "json_agg",
    "json_object_agg",
    "corr",
    "covar_pop",
    "covar_samp",
    "regr_slope",
)
SORTED_AGGREGATES = ("percentile_cont", "percentile_disc", "mode")
"""Aggregates over the values of WITHIN GROUP."""
_REASONS = {
    "age": "an interval of months has no exact length",
    "justify_hours": "computed intervals have no exact type",
    "gcd": "Spark has no such function",
    "scale": "a numeric has a fixed scale here",
    "range_merge": "use the least lower() and the greatest upper()",
    "quote_literal": "SinkQL does not have it",
}


def call(name: str, arguments: Sequence[Typed], span: Span) -> Typed:
    """Plan a scalar call.

    Raises SQ2210 for an unknown function, SQ2211 for a missing overload, SQ2214 or SQ2217 for an unsupported one.
    """
    check(name, span, len(arguments))
    handler = HANDLERS.get(name)
    if name in ("lower", "upper") and any(types.is_range(argument.type) for argument in arguments):
        handler = function_range.bound
    if handler is not None:
        return handler(name, tuple(arguments), span).at(span)
    return _choose(name, arguments, span)


_PARAMETERS = {
    **time.PARAMETERS,
    "regexp_count": ("string pattern", "string pattern start", "string pattern start flags"),
    "regexp_like": ("string pattern", "string pattern flags"),
    "regexp_substr": tuple(
        f"string pattern{more}" for more in ("", " start", " start n", " start n flags", " start n flags subexpr")
    ),
    "regexp_replace": ("string pattern replacement", "string pattern replacement flags"),
    "regexp_split_to_array": ("string pattern",),
}
_ZERO_DEFAULTS = ("make_interval",)
"""Functions whose missing arguments default to 0."""


def ordered(name: str, values: Sequence[Typed], names: Sequence[tuple[str, Span]]) -> list[Typed]:
    """Return arguments, the last of which are named, in the order of the parameters; raise SQ2211."""
    overloads = [overload.split() for overload in _PARAMETERS.get(name, ())]
    if not overloads:
        message = f"{name}() takes no named arguments"
        raise SinkqlError("SQ2211", message, names[0][1], hint="Write the values in their order, without names.")
    positional, filled = len(values) - len(names), name in _ZERO_DEFAULTS
    wanted = {parameter for parameter, _ in names}
    parameters = next(
        (
            overload
            for overload in overloads
            if positional + len(names) == len(overload) and wanted <= {*overload[positional:]}
        ),
        None,
    )
    if parameters is None:
        parameters = overloads[-1]
        _check_names(name, parameters, positional, names, filled=filled)
    by_parameter = dict(zip(parameters, values[:positional], strict=False))
    by_parameter |= {parameter: value for (parameter, _), value in zip(names, values[positional:], strict=True)}
    return [by_parameter.get(parameter) or constant(0, types.INTEGER, names[0][1]) for parameter in parameters]


def _check_names(
    name: str, parameters: Sequence[str], positional: int, names: Sequence[tuple[str, Span]], *, filled: bool
) -> None:
    seen = {*parameters[:positional]}
    for parameter, span in names:
        if parameter not in parameters:
            near = nearest(parameter, parameters)
            hint = f"Did you mean {near}?" if near else f"The arguments are {', '.join(parameters)}."
            raise SinkqlError("SQ2211", f"argument {parameter} of {name}() does not exist", span, hint=hint)
        if parameter in seen:
            hint = f"The arguments are {', '.join(parameters)}."
            raise SinkqlError("SQ2211", f"argument {parameter} of {name}() is specified twice", span, hint=hint)
        seen.add(parameter)
    missing = [parameter for parameter in parameters if parameter not in seen]
    if missing and not filled:
        raise SinkqlError("SQ2211", f"argument {missing[0]} of {name}() is missing", names[0][1])


def check(name: str, span: Span, arity: int) -> None:
    """Raise an error for a name that cannot be called with any arguments: SQ2210, SQ2214, SQ2217, SQ2928."""
    if name in _VOLATILE:
        message = f"{name}() is volatile, which views do not allow"
        raise SinkqlError("SQ2217", message, span, hint="Let the source carry the time or the value as a column.")
    if name in _SET_RETURNING:
        if name in set_returning.HANDLERS:
            hint = "Write it in FROM, or as an item of the select list."
            raise NoFormError("SQ2928", f"{name}() returns a set, which is not supported here", span, hint=hint)
        raise NoFormError("SQ2928", f"{name}() returns a set, which is not supported yet", span)
    if name in _REASONS:
        raise SinkqlError("SQ2214", f"{name}() is not supported: {_REASONS[name]}", span)
    if name in WINDOW_FUNCTIONS:
        hint = f"Write {name}({'…' if arity else ''}) OVER (PARTITION BY … ORDER BY …)."
        raise SinkqlError("SQ2211", f"window function {name}() requires OVER", span, hint=hint)
    if name not in NAMES:
        hint = _hint(name, arity)
        raise UnknownNameError("SQ2210", f'function "{name}" does not exist', span, hint=hint)


def _hint(name: str, arity: int) -> str:
    instead = call_hint(name, arity)
    if instead is not None:
        return instead
    # a function of another SQL dialect is not a misspelling of a similar name
    close = None if called_elsewhere(name) else nearest(name, (*NAMES, *AGGREGATES), cutoff=0.7)
    return f"Did you mean {close}()?" if close else "Use functions and operators of Postgres."


def _choose(name: str, arguments: Sequence[Typed], span: Span) -> Typed:
    """Call the overload that takes the arguments, with the most exact matches of types."""
    canonical = ALIASES.get(name, name)
    overloads = {name.id: _types(name.parameters) for name in _LISTED[canonical]}
    refused = {
        id_: _types(id_[len(canonical) + 1 : -1].split(","))
        for id_ in _UNSUPPORTED_OVERLOADS
        if id_.startswith(f"{canonical}(")
    }
    candidates = {**overloads, **refused}
    fitting = [id_ for id_, parameters in candidates.items() if _fits(parameters, arguments)]
    if not fitting:
        raise _overload_error(name, list(overloads.values()), arguments, span)
    best = max(fitting, key=lambda id_: _exact_matches(candidates[id_], arguments))
    if best in refused:
        raise SinkqlError(
            "SQ2214", f"{name}({refused[best][0].name}) is not supported: {_UNSUPPORTED_OVERLOADS[best]}", span
        )
    values = [coerced(value, type_) for value, type_ in zip(arguments, candidates[best], strict=True)]
    return listed(best, values, span)


def _types(parameters: Sequence[str]) -> tuple[Type, ...]:
    return tuple(NUMERIC if parameter == "numeric" else Type(parameter) for parameter in parameters)


def _overload_error(
    name: str, overloads: Sequence[Sequence[Type]], arguments: Sequence[Typed], span: Span
) -> SinkqlError:
    shown = ", ".join(value.type.name for value in arguments)
    choices = one_of([f"{name}({', '.join(type_.name for type_ in overload)})" for overload in overloads])
    return SinkqlError("SQ2211", f"function {name}({shown}) does not exist", span, hint=f"Use {choices}.")


def _fits(parameters: Sequence[Type], arguments: Sequence[Typed]) -> bool:
    return len(parameters) == len(arguments) and all(
        types.is_implicit(value.type, type_) for value, type_ in zip(arguments, parameters, strict=True)
    )


def _exact_matches(parameters: Sequence[Type], arguments: Sequence[Typed]) -> int:
    return sum(
        3 * (value.type.name == type_.name) + (type_ == types.DOUBLE)  # double precision is the preferred number
        for value, type_ in zip(arguments, parameters, strict=True)
    )
