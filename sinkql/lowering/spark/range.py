"""Ranges as Spark SQL, stored as Postgres's text: their bounds, order, containment and construction."""

from __future__ import annotations

from sinkql.logical import Call
from sinkql.logical.expression import constant_value
from sinkql.logical.range import DISCRETE, EMPTY, SUBTYPES, UPSIDE_DOWN
from sinkql.lowering.spark.cast import TO_TEXT
from sinkql.lowering.spark.sql import PREDICATE, Form, Spelling, raised, spark_type

_PARTS = r"""r'^[\[(]"?([^",]*)"?,"?([^",]*)"?[\])]$'"""
_LOWER, _UPPER = 1, 2


def _bound(place: str, number: int, range_type: str) -> str:
    """Return a bound's value, NULL for an infinite bound and for an empty range."""
    text = f"nullif(regexp_extract({place}, {_PARTS}, {number}), '')"
    zoned = f"concat({text}, ':00')" if range_type == "tstzrange" else text
    return f"CAST({zoned} AS {spark_type(SUBTYPES[range_type])})"


def _lower_order(place: str, range_type: str) -> str:
    return f"named_struct('v', {_bound(place, _LOWER, range_type)}, 'x', left({place}, 1) <> '[')"


def _upper_order(place: str, range_type: str) -> str:
    value = _bound(place, _UPPER, range_type)
    return f"named_struct('i', {value} IS NULL, 'v', {value}, 'n', right({place}, 1) = ']')"


def _order(call: Call) -> Form:
    type_ = call.arguments[0].type.name
    parts = f"'e', @0 <> '{EMPTY}', 'l', {_lower_order('@0', type_)}, 'u', {_upper_order('@0', type_)}"
    return Form(f"IF(@0 IS NULL, NULL, named_struct({parts}))")


def _of(number: int) -> Spelling:
    return lambda call: Form(_bound("@0", number, call.arguments[0].type.name))


def _contains(call: Call) -> Form:
    type_, other = (argument.type.name for argument in call.arguments)
    if other in SUBTYPES:
        above = f"{_lower_order('@0', type_)} <= {_lower_order('@1', type_)}"
        below = f"{_upper_order('@1', type_)} <= {_upper_order('@0', type_)}"
        within = f"@1 = '{EMPTY}' OR @0 <> '{EMPTY}' AND {above} AND {below}"
    else:
        lower, upper = (_bound("@0", number, type_) for number in (_LOWER, _UPPER))
        above = f"({lower} IS NULL OR {lower} < @1 OR {lower} = @1 AND left(@0, 1) = '[')"
        below = f"({upper} IS NULL OR {upper} > @1 OR {upper} = @1 AND right(@0, 1) = ']')"
        within = f"@0 <> '{EMPTY}' AND {above} AND {below}"
    return Form(f"IF(@0 IS NULL OR @1 IS NULL, NULL, {within})")


def _overlap(call: Call) -> Form:
    type_ = call.arguments[0].type.name
    within = f"@0 <> '{EMPTY}' AND @1 <> '{EMPTY}' AND {_reaches('@0', '@1', type_)} AND {_reaches('@1', '@0', type_)}"
    return Form(f"IF(@0 IS NULL OR @1 IS NULL, NULL, {within})")


def _reaches(one: str, other: str, type_: str) -> str:
    lower, upper = _bound(one, _LOWER, type_), _bound(other, _UPPER, type_)
    touching = f"{lower} = {upper} AND left({one}, 1) = '[' AND right({other}, 1) = ']'"
    return f"({lower} IS NULL OR {upper} IS NULL OR {lower} < {upper} OR {touching})"


def _made(call: Call) -> Form:
    type_, bounds = call.type.name, constant_value(call.arguments[2], str)
    lower_in, upper_in = bounds[0] == "[", bounds[1] == "]"
    none = "" if lower_in and upper_in else f"WHEN @0 = @1 THEN '{EMPTY}' "
    if type_ in DISCRETE:
        lower, upper = "@0" if lower_in else _next("@0", type_), _next("@1", type_) if upper_in else "@1"
        none += f"WHEN {lower} = {upper} THEN '{EMPTY}' "
        opened, closed = "'['", "')'"
    else:
        lower, upper, opened, closed = "@0", "@1", f"'{bounds[0]}'", f"'{bounds[1]}'"
    shown = [f"coalesce({_shown(each, type_)}, '')" for each in (lower, upper)]
    joined = f"concat(IF(@0 IS NULL, '(', {opened}), {shown[0]}, ',', {shown[1]}, IF(@1 IS NULL, ')', {closed}))"
    wrong = raised(UPSIDE_DOWN, "STRING")
    return Form(f"CASE WHEN @0 > @1 THEN {wrong} {none}ELSE {joined} END", operands=call.arguments[:2])


def _next(place: str, type_: str) -> str:
    if type_ != "daterange":
        return f"({place} + {'1L' if type_ == 'int8range' else '1'})"
    return f"IF({place} >= DATE'9999-12-31', {raised('date out of range', 'DATE')}, date_add({place}, 1))"


def _shown(value: str, type_: str) -> str:
    if type_ == "numrange":
        return rf"regexp_replace(CAST({value} AS STRING), r'\.?0+$', '')"
    known = TO_TEXT.get(SUBTYPES[type_].name)
    if known is None:
        return f"CAST({value} AS STRING)"
    text = known.replace("@0", value)
    return text if type_ == "daterange" else f"""concat('"', {text}, '"')"""


FORMS: dict[str, Spelling] = {
    "lower(any)": _of(_LOWER),
    "upper(any)": _of(_UPPER),
    "isempty(any)": Form(f"@0 = '{EMPTY}'", PREDICATE),
    "lower_inc(any)": Form("left(@0, 1) = '['", PREDICATE),
    "upper_inc(any)": Form("right(@0, 1) = ']'", PREDICATE),
    "lower_inf(any)": Form(r"@0 RLIKE r'^[\[(],'", PREDICATE),
    "upper_inf(any)": Form(r"@0 RLIKE r',[\])]$'", PREDICATE),
    "@>(any,any)": _contains,
    "&&(any,any)": _overlap,
    "$order(any)": _order,
    **{f"{name}(any,any,text)": _made for name in SUBTYPES},
}
"""By id."""
