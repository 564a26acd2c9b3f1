"""An expression → a function of Arrow columns, with the values of `evaluate`, for whole batches of rows.

Not every expression has such a function. All operands are computed for all rows, also those that AND, OR or CASE do not
need. If any row fails, `RowsNeededError` is raised, and `evaluate` computes the rows one by one: it knows which row
fails, or that none does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from sinkql.connector_api.types import arrow_type
from sinkql.logical import Call, Case, Cast, Expression, Literal, Reference, Type
from sinkql.logical.numeric_type import FLOATS, RANGES, SIGNED, sum_fits
from sinkql.logical.short_circuit import evaluates_before, is_decided
from sinkql.logical.type import NUMERIC
from sinkql.runtime.state.arithmetic import ordered

Column: TypeAlias = Any  # pyarrow publishes no types
"""The values of an expression: an array, or a scalar for a constant."""
Compute = Callable[[pa.Table], Column]


class RowsNeededError(Exception):
    """The rows must be computed one by one: one of them may fail."""


def arrow_form(expression: Expression) -> Callable[[pa.Table], pa.Array] | None:
    """Return an expression as a function of rows; None if it must be evaluated row by row.

    The function returns an array of `arrow_type(expression.type)`, or raises RowsNeededError.
    """
    compute, type_ = _form(expression), arrow_type(expression.type)
    if compute is None:
        return None

    def array(rows: pa.Table) -> pa.Array:
        try:
            values = compute(rows)
            values = pa.repeat(values, len(rows)) if isinstance(values, pa.Scalar) else values
            return values if values.type == type_ else values.cast(type_)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise RowsNeededError from error

    return array


def _form(expression: Expression) -> Compute | None:
    match expression:
        case Reference():
            name, type_ = expression.name, arrow_type(expression.type)
            return lambda rows: rows.column(name).combine_chunks().cast(type_)
        case Literal():
            return _literal(expression)
        case Cast():
            operand, convert = _form(expression.operand), _conversion(expression.operand.type, expression.type)
            if operand is None or convert is None:
                return None
            return lambda rows: convert(operand(rows))
        case Case():
            return _case(expression)
        case Call():
            make = _FORMS.get(expression.function)
            operands = [_form(argument) for argument in expression.arguments]
            computes = [operand for operand in operands if operand is not None]
            if make is None or len(computes) < len(operands):
                return None
            function = make(expression)
            return None if function is None else lambda rows: function(*(compute(rows) for compute in computes))


_PLAIN = frozenset({"boolean", "date", "time", "timestamp", "timestamptz", "text", "uuid", "bytea", "numeric", *RANGES})
"""The types whose order and equality are those of their Arrow values."""
_FLOATS = frozenset(FLOATS)


def _literal(literal: Literal) -> Compute | None:
    if literal.type.name not in _PLAIN | _FLOATS:
        return None
    scalar = pa.scalar(literal.value, arrow_type(literal.type))
    return lambda rows: scalar


def _case(case: Case) -> Compute | None:
    whens = [_form(branch.when) for branch in case.branches]
    thens = [_form(branch.then) for branch in case.branches]
    nothing = pa.scalar(None, arrow_type(case.type))
    otherwise = (lambda rows: nothing) if case.otherwise is None else _form(case.otherwise)
    pairs = [(when, then) for when, then in zip(whens, thens, strict=True) if when is not None and then is not None]
    results = [branch.then for branch in case.branches] + ([] if case.otherwise is None else [case.otherwise])
    if otherwise is None or len(pairs) < len(whens) or any(result.type != case.type for result in results):
        return None

    def compute(rows: pa.Table) -> Column:
        result = otherwise(rows)
        for when, then in reversed(pairs):
            result = pc.if_else(pc.fill_null(when(rows), False), then(rows), result)
        return result

    return compute


# --- casts -----------------------------------------------------------------------------------------------------------

Convert = Callable[[Column], Column]
_WIDE = 76
"""The most digits of Arrow's numbers."""


def _conversion(source: Type, target: Type) -> Convert | None:
    """Return the function of a cast that `evaluate` and Arrow do alike; None for any other."""
    if source == target:
        return lambda values: values
    type_ = arrow_type(target)
    match source.name, target.name:
        case "numeric" | "uint8", "numeric" | "uint8":
            return _rescaled(source.scale or 0, target)
        case name, "numeric" | "uint8" if name in RANGES:
            return lambda values: _in_range(values.cast(pa.decimal128(19, 0)).cast(type_), target)
        case "numeric" | "uint8", name if name in RANGES:
            whole = _rescaled(source.scale or 0, Type("numeric", 38, 0))
            return lambda values: _in_range(whole(values).cast(type_), target)
        case name, other if name in RANGES and other in RANGES:
            return lambda values: _in_range(values.cast(type_), target)
        case name, other if name in RANGES and name != "uint8" and other in _FLOATS:
            return lambda values: values.cast(type_, safe=False)  # the nearest float, as in Python
        case "real", "double precision":
            return lambda values: values.cast(type_)
        case name, "text" if name in (*RANGES, "boolean") and name != "uint8":
            return lambda values: values.cast(type_)
        case ("boolean", "integer") | ("date", "timestamp" | "timestamptz"):
            return lambda values: values.cast(type_)
        case "integer", "boolean":
            return lambda values: pc.not_equal(values, 0)
    return None


def _rescaled(scale: int, target: Type) -> Convert:
    """Return the cast of a numeric, which rounds half away from zero."""
    type_, digits = arrow_type(target), target.scale or 0
    wide = pa.decimal256(_WIDE, scale)

    def convert(values: Column) -> Column:
        if digits < scale:
            values = pc.round(values.cast(wide), digits, round_mode="half_towards_infinity")
        return _in_range(values.cast(type_), target)

    return convert


def _in_range(values: Column, type_: Type) -> Column:
    """Return whole numbers; raises RowsNeededError if one does not fit an unsigned type, which Arrow does not know."""
    if type_.name in RANGES and type_.name not in SIGNED:
        limits = RANGES[type_.name]
        low, high = (pa.scalar(limit, values.type) for limit in (limits[0], limits[-1]))
        fits = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
        if not pc.fill_null(pc.all(fits) if isinstance(fits, pa.Array) else fits, True).as_py():
            raise RowsNeededError
    return values


# --- comparisons -----------------------------------------------------------------------------------------------------

Function = Callable[..., Column]


def _key(call: Call) -> Convert | None:
    """Return a function to values that compare as the operands do; None if their types differ or have another order."""
    names = {argument.type.name for argument in call.arguments}
    if len(names) > 1:
        return None
    if names <= _FLOATS:
        return _float_key
    return (lambda values: values) if names <= _PLAIN else None


def _float_key(values: Column) -> Column:
    """Return whole numbers in the order of floats: -0 equals 0, and NaN equals NaN and is greatest."""
    if isinstance(values, pa.Scalar):
        return _float_key(pa.array([values.as_py()], values.type))[0]
    one_zero = pc.if_else(pc.equal(values, 0), pa.scalar(0, values.type), values)
    return ordered(pc.if_else(pc.is_nan(one_zero), pa.scalar(float("nan"), values.type), one_zero))


def _comparison(compare: Function) -> Callable[[Call], Function | None]:
    def make(call: Call) -> Function | None:
        key = _key(call)
        return None if key is None else lambda *values: compare(*map(key, values))

    return make


def _between(subject: Column, low: Column, high: Column) -> Column:
    return pc.and_kleene(pc.greater_equal(subject, low), pc.less_equal(subject, high))


def _in(subject: Column, *values: Column) -> Column:
    return reduce(pc.or_kleene, (pc.equal(subject, value) for value in values))


def _not_distinct(left: Column, right: Column) -> Column:
    return pc.or_(pc.fill_null(pc.equal(left, right), False), pc.and_(pc.is_null(left), pc.is_null(right)))


def _nullif(call: Call) -> Function | None:
    key, nothing = _key(call), pa.scalar(None, arrow_type(call.type))
    if key is None or call.arguments[0].type != call.type:
        return None
    return lambda left, right: pc.if_else(pc.fill_null(pc.equal(key(left), key(right)), False), nothing, left)


def _of_one_type(function: Function, *, floats: bool = True) -> Callable[[Call], Function | None]:
    """Make a call whose operands have its type."""

    def make(call: Call) -> Function | None:
        alike = all(argument.type == call.type for argument in call.arguments)
        has_form = call.type.name in (_PLAIN | _FLOATS if floats else _PLAIN)
        return function if alike and has_form else None

    return make


# --- logic and numbers -----------------------------------------------------------------------------------------------


def _logic(combine: Function, *, decisive: bool) -> Callable[[Call], Function | None]:
    def make(call: Call) -> Function | None:
        if is_decided(call):
            return lambda *values: pa.scalar(decisive)
        pairs = zip(call.arguments, call.arguments[1:], strict=False)
        if decisive and any(evaluates_before(*pair) for pair in pairs):
            return None
        return lambda *values: reduce(combine, values)

    return make


def _always(function: Function) -> Callable[[Call], Function | None]:
    return lambda call: function


def _whole(function: Function) -> Callable[[Call], Function | None]:
    """Make an operation on whole numbers whose Arrow function raises if the result does not fit."""
    return lambda call: lambda *values: _in_range(function(*values), call.type)


def _remainder(left: Column, right: Column) -> Column:
    return pc.subtract_checked(left, pc.multiply_checked(right, pc.divide_checked(left, right)))


def _numeric_sum(function: Function) -> Callable[[Call], Function | None]:
    def make(call: Call) -> Function | None:
        left, right = (argument.type for argument in call.arguments)
        scale = NUMERIC.scale or 0
        if not sum_fits(left, right) or max(left.scale or 0, right.scale or 0) > scale:
            return None
        wide, type_ = pa.decimal256(_WIDE // 2 + scale, scale), arrow_type(NUMERIC)
        return lambda one, other: function(one.cast(wide), other.cast(wide)).cast(type_)

    return make


_INTEGERS = tuple(type_ for type_ in RANGES if type_ != "uint8")
_FORMS: Mapping[str, Callable[[Call], Function | None]] = {
    "AND(boolean…)": _logic(pc.and_kleene, decisive=False),
    "OR(boolean…)": _logic(pc.or_kleene, decisive=True),
    "NOT(boolean)": _always(pc.invert),
    "=(any,any)": _comparison(pc.equal),
    "<>(any,any)": _comparison(pc.not_equal),
    "<(any,any)": _comparison(pc.less),
    "<=(any,any)": _comparison(pc.less_equal),
    ">(any,any)": _comparison(pc.greater),
    ">=(any,any)": _comparison(pc.greater_equal),
    "BETWEEN(any,any,any)": _comparison(_between),
    "IN(any,any…)": _comparison(_in),
    "IS NULL(any)": _always(pc.is_null),
    "IS TRUE(boolean)": _always(lambda value: pc.fill_null(value, False)),
    "IS FALSE(boolean)": _always(lambda value: pc.fill_null(pc.invert(value), False)),
    "IS NOT DISTINCT FROM(any,any)": _comparison(_not_distinct),
    "coalesce(any…)": _of_one_type(pc.coalesce),
    "nullif(any,any)": _nullif,
    "greatest(any…)": _of_one_type(pc.max_element_wise, floats=False),
    "least(any…)": _of_one_type(pc.min_element_wise, floats=False),
    "||(text,text)": _always(lambda left, right: pc.binary_join_element_wise(left, right, "")),
    **{f"+({type_},{type_})": _whole(pc.add_checked) for type_ in _INTEGERS},
    **{f"-({type_},{type_})": _whole(pc.subtract_checked) for type_ in _INTEGERS},
    **{f"*({type_},{type_})": _whole(pc.multiply_checked) for type_ in _INTEGERS},
    **{f"/({type_},{type_})": _whole(pc.divide_checked) for type_ in _INTEGERS},
    **{f"%({type_},{type_})": _whole(_remainder) for type_ in _INTEGERS},
    **{f"-({type_})": _whole(pc.negate_checked) for type_ in SIGNED},
    **{f"abs({type_})": _whole(pc.abs_checked) for type_ in SIGNED},
    "+(numeric,numeric)": _numeric_sum(pc.add),
    "-(numeric,numeric)": _numeric_sum(pc.subtract),
}
"""By id."""
