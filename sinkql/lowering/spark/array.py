"""Arrays and lists → Spark SQL."""

from __future__ import annotations

from sinkql.logical import Call, Interval, Literal
from sinkql.logical.array import NO_STEP, UNMATCHED, levels
from sinkql.logical.type import DAY
from sinkql.lowering.spark.literal import day_time
from sinkql.lowering.spark.text import Form, Spelling, raised, spark_type


def _element(call: Call) -> Form:
    index = call.arguments[1]
    known = index.value if isinstance(index, Literal) else None
    if isinstance(known, int) and known >= 1:
        return Form("try_element_at(@0, @1)")
    return Form("IF(@1 >= 1, try_element_at(@0, @1), NULL)")  # below 0 Spark counts from the end


def _made(call: Call) -> Form:
    within = levels(call.arguments[0].type)
    if within:
        return _of_arrays(call, within)
    return Form(f"array({', '.join(f'@{place}' for place in range(len(call.arguments)))})")


def _of_arrays(call: Call, within: int) -> Form:
    """Return an array of several dimensions, with arrays of one length within; NULL counts as empty."""
    places = [f"@{place}" for place in range(len(call.arguments))]
    first, *others = (f"array({', '.join(_size(each, level) for level in range(within))})" for each in places)
    type_ = spark_type(call.type)
    uneven = f"WHEN NOT ({' AND '.join(f'{first} = {each}' for each in others)}) THEN {raised(UNMATCHED, type_)} "
    return Form(
        f"CASE {uneven if others else ''}WHEN {_size('@0', 0)} = 0 THEN CAST(array() AS {type_}) "
        f"ELSE array({', '.join(places)}) END"
    )


def _size(place: str, level: int) -> str:
    """Return how many elements an array has in a dimension, counted from 0."""
    return f"coalesce(size({_first(place, level)}), 0)"


def _first(place: str, level: int) -> str:
    return f"try_element_at({_first(place, level - 1)}, 1)" if level else place


def _flat(place: str, call: Call, argument: int) -> str:
    for _ in range(levels(call.arguments[argument].type) - 1):
        place = f"flatten({place})"
    return place


def _among(call: Call) -> Form:
    return Form(f"IF(size(@1) = 0, false, array_contains({_flat('@1', call, 1)}, @0))")


def _length(call: Call) -> Form:
    dimension = call.arguments[1]
    assert isinstance(dimension, Literal)
    assert isinstance(dimension.value, int)
    return Form(f"nullif(size({_first('@0', dimension.value - 1)}), 0)")


def _cardinality(call: Call) -> Form:
    return Form(f"size({_flat('@0', call, 0)})")


def _in_one(call: Call) -> Form:
    return Form(_flat("@0", call, 0))


def _series(call: Call) -> Form:
    step, type_ = call.arguments[2], spark_type(call.type)
    known = step.value if isinstance(step, Literal) else None
    if isinstance(known, int):
        empty = "@0 > @1" if known > 0 else "@0 < @1"
        return Form(f"CASE WHEN {empty} THEN CAST(array() AS {type_}) ELSE sequence(@0, @1, @2) END")
    empty = "@2 > 0 AND @0 > @1 OR @2 < 0 AND @0 < @1"
    none = f"WHEN @2 = 0 AND @0 IS NOT NULL AND @1 IS NOT NULL THEN {raised(NO_STEP, type_)}"
    return Form(f"CASE {none} WHEN {empty} THEN CAST(array() AS {type_}) ELSE sequence(@0, @1, @2) END")


def _instants(call: Call) -> Form:
    step = call.arguments[2]
    assert isinstance(step, Literal)
    value = step.value
    assert isinstance(value, Interval)
    micros = value.days * DAY + value.micros
    empty = "@0 > @1" if micros > 0 else "@0 < @1"
    array = f"sequence(@0, @1, {day_time(micros)})"
    none = f"CAST(array() AS {spark_type(call.type)})"
    return Form(f"CASE WHEN {empty} THEN {none} ELSE {array} END", operands=call.arguments[:2])


FORMS: dict[str, Spelling] = {
    "$flat(any)": _in_one,
    "$series(integer,integer,integer)": _series,
    "$series(bigint,bigint,bigint)": _series,
    "$series(timestamp,timestamp,interval)": _instants,
    "$series(timestamptz,timestamptz,interval)": _instants,
    "[](any,integer)": _element,
    "ARRAY(any…)": _made,
    "= ANY(any,any)": _among,
    "cardinality(any)": _cardinality,
    "array_length(any,integer)": _length,
}
"""By id."""
