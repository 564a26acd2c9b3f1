"""Decide whether an expression can fail on a row, like a division, a cast or a sum that overflows.

The lists hold the functions that cannot fail; all other functions can.
"""

from __future__ import annotations

from sinkql.errors import SinkqlError
from sinkql.evaluate import NotEvaluableError, function_of
from sinkql.logical import Expression, Type
from sinkql.logical.expression import Call, Case, Cast, Literal, Reference, children
from sinkql.logical.nested import levels
from sinkql.logical.numeric_type import INTEGER_DIGITS, INTEGERS, widens

_SAFE = frozenset((
    "AND", "OR", "NOT", "=", "<>", "<", "<=", ">", ">=", "BETWEEN", "IN", "IS NULL", "IS TRUE", "IS FALSE",
    "IS NOT DISTINCT FROM", "coalesce", "greatest", "least", "nullif", "num_nulls", "num_nonnulls",
    "&", "|", "#", "~", "~*", "<<", ">>", "||", "LIKE", "ILIKE",
    "lower", "upper", "initcap", "reverse", "md5", "length", "char_length", "octet_length", "bit_length", "ascii",
    "btrim", "ltrim", "rtrim", "lpad", "rpad", "left", "right", "replace", "translate", "strpos", "starts_with",
    "concat", "concat_ws", "format", "sha224", "sha256", "sha384", "sha512", "encode", "convert_to", "to_hex",
    "regexp_count", "regexp_substr", "regexp_replace", "REGEXP_MATCH", "regexp_split_to_array",
    "->", "->>", "#>>", "?", "@>", "<@", "&&", "jsonb_typeof", "to_jsonb",
    "EXTRACT", "date_part", "date_trunc", "date_bin", "AT TIME ZONE", "to_char", "isfinite", "$held", "$order",
    "[]", "[:]", "array_length", "= ANY", "<> ANY", "< ANY", "<= ANY", "> ANY",
    ">= ANY", "cardinality", "$flat", "array_append", "array_prepend", "array_cat",
    "array_position", "array_remove", "array_replace", "array_to_string", "string_to_array", "ROW", ".",
    "isempty", "lower_inc", "upper_inc", "lower_inf", "upper_inf", "pi", "$root",
))  # fmt: skip
_SAFE_CASTS = frozenset((
    ("date", "timestamp"), ("date", "timestamptz"), ("boolean", "integer"), ("integer", "boolean"),
    *((instant, other) for instant in ("timestamp", "timestamptz") for other in ("date", "time")),
    ("timestamp", "timestamptz"), ("timestamptz", "timestamp"), ("real", "double precision"),
))  # fmt: skip


def can_fail(expression: Expression) -> bool:
    """Return whether there may be a row on which the expression fails."""
    constant, fails = _inspect(expression)
    return fails and not (constant and _has_value(expression))


def _inspect(expression: Expression) -> tuple[bool, bool]:
    """Return whether an expression is constant, and whether it can fail if it is not evaluated first."""
    match expression:
        case Reference():
            return False, False
        case Literal():
            return True, False
        case Cast():
            safe = _is_safe_cast(expression.operand.type, expression.type)
        case Case():
            safe = True
        case Call():
            safe = _is_safe_call(expression)
    below = [(child, *_inspect(child)) for child in children(expression)]
    if all(constant for _, constant, _ in below):
        return True, not safe or any(fails for *_, fails in below)
    return False, not safe or any(fails and not (constant and _has_value(child)) for child, constant, fails in below)


def _has_value(constant: Expression) -> bool:
    """Return whether a constant can be evaluated."""
    value = function_of(constant, ())
    if value is None:
        return False
    try:
        value(())
    except (SinkqlError, NotEvaluableError):
        return False
    return True


def _is_safe_call(call: Call) -> bool:
    name = call.function.partition("(")[0]
    match name:
        case "LIKE" | "ILIKE":
            return isinstance(call.arguments[1], Literal)  # a pattern may end in an escape character
        case "substring" if len(call.arguments) == 3:
            return _is_at_least(call.arguments[2], 0)
        case "substring":
            return True
        case "split_part":
            return _is_at_least(call.arguments[2], 1)
        case "ARRAY":
            return not levels(call.arguments[0].type)
        case "abs" | "ceil" | "floor" | "sign" | "round" | "trunc":
            return call.type.name == "double precision"
        case _:
            return name in _SAFE


def _is_at_least(expression: Expression, least: int) -> bool:
    value = expression.value if isinstance(expression, Literal) else None
    return isinstance(value, int) and value >= least


def _is_safe_cast(source: Type, target: Type) -> bool:
    if target.name == "text" or source == target or (source.name, target.name) in _SAFE_CASTS:
        return True
    if source.name in INTEGERS and target.name in INTEGERS:
        return widens(source.name, target.name)
    if target.name == "double precision":
        return source.name in (*INTEGERS, "numeric")
    if target.name != "numeric":
        return False
    if source.name in INTEGERS:
        return INTEGER_DIGITS[source.name] <= target.whole_digits
    if source.name != "numeric":
        return False
    rounded = (source.scale or 0) > (target.scale or 0)  # 9.9 may become 10
    return source.whole_digits + rounded <= target.whole_digits
