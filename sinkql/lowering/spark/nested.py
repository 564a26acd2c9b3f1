"""Arrays, lists, maps (arrays of keys and values, ordered by key) and records as Spark SQL."""

from __future__ import annotations

from sinkql.logical import Call, Expression, Interval, Literal, Reference, Type
from sinkql.logical.expression import constant_value
from sinkql.logical.nested import NO_STEP, UNMATCHED, levels, taken
from sinkql.logical.type import DAY
from sinkql.lowering.spark.sql import Form, Spelling, day_time, quoted, raised, spark_type, text_literal
from sinkql.lowering.spark.string import constant_number


def _element(call: Call) -> Form:
    """Return an element; the array is evaluated for any index, and the index only if the array is not NULL."""
    index = call.arguments[1]
    known = index.value if isinstance(index, Literal) else None
    if isinstance(known, int):
        return Form(f"try_element_at(@0, {known if known >= 1 else _NOWHERE})", operands=call.arguments[:1])
    found = f"IF({{0}} >= 1, {{0}}, {_NOWHERE})"  # a negative index counts from the end in Spark
    if isinstance(index, Reference | Literal):
        return Form(f"try_element_at(@0, {found.format('@1')})")
    # the index occurs once, so that it is not evaluated for a NULL array
    return Form(f"try_element_at(@0, transform(array(@1), `$x` -> {found.format('`$x`')})[0])")


_NOWHERE = 2**31 - 1
"""An index outside of all arrays."""


def _made(call: Call) -> Form:
    within = levels(call.arguments[0].type)
    if within:
        return _of_arrays(call, within)
    return Form(f"array({', '.join(f'@{place}' for place in range(len(call.arguments)))})")


def _of_arrays(call: Call, within: int) -> Form:
    """Return an array of several dimensions, whose inner arrays have equal lengths; NULL counts as empty."""
    places = [f"@{place}" for place in range(len(call.arguments))]
    first, *others = (f"array({', '.join(_size(place, level) for level in range(within))})" for place in places)
    type_ = spark_type(call.type)
    uneven = f"WHEN NOT ({' AND '.join(f'{first} = {other}' for other in others)}) THEN {raised(UNMATCHED, type_)} "
    return Form(
        f"CASE {uneven if others else ''}WHEN {_size('@0', 0)} = 0 THEN CAST(array() AS {type_}) "
        f"ELSE array({', '.join(places)}) END"
    )


def _size(place: str, level: int) -> str:
    """Return the number of elements in a dimension of an array, counted from 0."""
    return f"coalesce(size({_first(place, level)}), 0)"


def _first(place: str, level: int) -> str:
    return f"try_element_at({_first(place, level - 1)}, 1)" if level else place


def _flat(place: str, call: Call, argument: int) -> str:
    return _elements(place, call.arguments[argument].type)


def _elements(place: str, type_: Type) -> str:
    for _ in range(levels(type_) - 1):
        place = f"flatten({place})"
    return place


def ordered(place: str, type_: Type) -> str:
    """Return the sort key of arrays in Spark: their elements, with NULL last, then their number."""
    elements = f"transform({_elements(place, type_)}, `$e` -> struct(`$e` IS NULL, `$e`))"
    if levels(type_) == 1:
        return elements
    sizes = ", ".join(_size(place, level) for level in range(levels(type_)))
    return f"IF({place} IS NULL, NULL, struct({elements}, {sizes}))"


def _any(sign: str) -> Spelling:
    """Return whether a comparison is true for any element; NULL if that is unknown.

    For an empty array the value is compared with NULL, so that it is evaluated and may fail as in Postgres.
    """

    def test(elements: str) -> str:
        return f"array_contains({elements}, @0)" if sign == "=" else f"exists({elements}, `$e` -> @0 {sign} `$e`)"

    def spelled(call: Call) -> Form:
        found = test(_flat("@1", call, 1))
        if isinstance(call.arguments[0], Reference | Literal):
            return Form(f"IF(size(@1) = 0, false, {found})" if sign == "=" else found)
        none = test(f"array(CAST(NULL AS {spark_type(call.arguments[0].type)}))")
        return Form(f"IF(size(@1) = 0, coalesce({none}, false), {found})")

    return spelled


def _within(test: str) -> Spelling:
    """Return whether all elements (forall) or any element (exists) of an array are in another; NULL equals nothing."""

    def spelled(call: Call) -> Form:
        held, wanted = _flat("@0", call, 0), _flat("@1", call, 1)
        there = f"`$e` -> `$e` IS NOT NULL AND coalesce(array_contains({held}, `$e`), false)"
        return Form(f"IF(@0 IS NULL OR @1 IS NULL, NULL, {test}({wanted}, {there}))")

    return spelled


def _length(call: Call) -> Form:
    return Form(f"nullif(size({_first('@0', constant_number(call.arguments[1]) - 1)}), 0)")


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
    value = constant_value(call.arguments[2], Interval)
    micros = value.days * DAY + value.micros
    empty = "@0 > @1" if micros > 0 else "@0 < @1"
    array = f"sequence(@0, @1, {day_time(micros)})"
    none = f"CAST(array() AS {spark_type(call.type)})"
    return Form(f"CASE WHEN {empty} THEN {none} ELSE {array} END", operands=call.arguments[:2])


def _joined(call: Call) -> Form:
    """Return the elements of both arrays; a NULL array has no elements."""
    empty = f"CAST(array() AS {spark_type(call.type)})"
    parts = [
        f"coalesce(@{place}, {empty})" if argument.type == call.type else f"array(@{place})"
        for place, argument in enumerate(call.arguments)
    ]
    joined = f"concat({', '.join(parts)})"
    return Form(f"IF(@0 IS NULL AND @1 IS NULL, NULL, {joined})" if call.function.startswith("array_cat") else joined)


def _split(call: Call) -> Form:
    text, delimiter, *absent = call.arguments
    known = delimiter.value if isinstance(delimiter, Literal) else None
    empty = f"CAST(array() AS {spark_type(call.type)})"
    if isinstance(known, str):
        found = f"split(@0, {text_literal(_quoted(known))}, -1)" if known else "array(@0)"
        form = f"CASE WHEN @0 IS NULL THEN NULL WHEN @0 = '' THEN {empty} ELSE {found} END"
        return _with_nulls(form, (text, *absent))
    ends = text_literal("\\E"), text_literal("\\E\\\\E\\Q"), text_literal("\\Q")
    pattern = f"concat({ends[2]}, replace(@1, {ends[0]}, {ends[1]}), {ends[0]})"
    found = f"WHEN @1 IS NULL THEN split(@0, '') WHEN @1 = '' THEN array(@0) ELSE split(@0, {pattern}, -1)"
    return _with_nulls(f"CASE WHEN @0 IS NULL THEN NULL WHEN @0 = '' THEN {empty} {found} END", call.arguments)


def _with_nulls(form: str, operands: tuple[Expression, ...]) -> Form:
    """Return the parts of a text; the third operand, if any, is the text that becomes NULL."""
    last = len(operands) - 1
    wanted = last if last > form.count("@1 IS NULL") else None
    if wanted is None:
        return Form(form, operands=operands)
    with_nulls = f"transform({form}, `$e` -> nullif(`$e`, `$x`))"
    return Form(f"transform(array(@{wanted}), `$x` -> {with_nulls})[0]", operands=operands)


def _quoted(text: str) -> str:
    """Return the Java pattern that matches a literal text."""
    return "".join(each if each.isalnum() or each.isspace() else f"\\{each}" for each in text)


_AS_TEXTS = "CAST(@0 AS ARRAY<STRING>)"


_KEY_IS = "`$k` -> `$k`.key = @1"


def _record(call: Call) -> Form:
    fields = (f"{text_literal(field.name)}, @{place}" for place, field in enumerate(call.type.fields))
    return Form(f"named_struct({', '.join(fields)})")


def _map(call: Call) -> Form:
    """Sort entries by key; of equal keys the last one counts."""
    made = []
    for at in range(0, len(call.arguments), 2):
        key = f"@{at}"
        if call.arguments[at].nullable:
            key = f"coalesce({key}, {raised('a key of a map is NULL', 'STRING')})"
        made.append(f"named_struct('key', {key}, 'at', {at}, 'value', @{at + 1})")
    last = "NOT exists(`$m`, `$o` -> `$o`.key = `$e`.key AND `$o`.at > `$e`.at)"
    ordered = f"array_sort(filter(`$m`, `$e` -> {last}))"
    found = f"transform({ordered}, `$e` -> named_struct('key', `$e`.key, 'value', `$e`.value))"
    return Form(f"transform(array(array({', '.join(made)})), `$m` -> {found})[0]")


def _field(call: Call) -> Form:
    value = taken(call)
    if value is not None:
        return Form("@0", operands=(value,))
    return Form(f"@0.{quoted(constant_value(call.arguments[1], str))}")


FORMS: dict[str, Spelling] = {
    "array_append(any,any)": _joined,
    "array_prepend(any,any)": _joined,
    "array_cat(any,any)": _joined,
    "array_position(any,any)": Form(
        "CAST(nullif(IF(@1 IS NULL, array_position(transform(@0, `$e` -> `$e` IS NULL), true), "
        "array_position(@0, @1)), 0) AS INT)"
    ),
    # the sought value and its replacement are evaluated for an empty array too, since they may fail
    "array_remove(any,any)": Form("transform(array(@1), `$x` -> filter(@0, `$e` -> NOT (`$e` <=> `$x`)))[0]"),
    "array_replace(any,any,any)": Form(
        "transform(array(named_struct('x', @1, 'y', @2)), "
        "`$x` -> transform(@0, `$e` -> IF(`$e` <=> `$x`.x, `$x`.y, `$e`)))[0]"
    ),
    "array_to_string(any,text)": Form(f"array_join({_AS_TEXTS}, @1)"),
    # a third operand of NULL makes Spark's whole result NULL
    "array_to_string(any,text,text)": Form(
        f"transform(array(@2), `$x` -> array_join(transform({_AS_TEXTS}, `$e` -> coalesce(`$e`, `$x`)), @1))[0]"
    ),
    "string_to_array(text,text)": _split,
    "string_to_array(text,text,text)": _split,
    "$flat(any)": _in_one,
    "$series(integer,integer,integer)": _series,
    "$series(bigint,bigint,bigint)": _series,
    "$series(timestamp,timestamp,interval)": _instants,
    "$series(timestamptz,timestamptz,interval)": _instants,
    "[](any,integer)": _element,
    "ARRAY(any…)": _made,
    **{f"{sign} ANY(any,any)": _any(sign) for sign in ("=", "<>", "<", "<=", ">", ">=")},
    "[:](any,integer,integer)": Form(  # bounds occur once, so that none is evaluated for a NULL array
        "IF(@0 IS NULL, NULL, transform(array(named_struct('l', @1, 'h', @2)), `$x` -> IF(`$x`.l IS NULL OR `$x`.h IS "
        "NULL, NULL, slice(@0, greatest(`$x`.l, 1), "
        "greatest(least(greatest(`$x`.h, 0), size(@0)) - greatest(`$x`.l, 1) + 1, 0))))[0])"
    ),
    "@>(array,array)": _within("forall"),
    "&&(array,array)": _within("exists"),
    "cardinality(any)": _cardinality,
    "array_length(any,integer)": _length,
    "ROW(any…)": _record,
    "MAP(any…)": _map,
    ".(any,text)": _field,
    "->(any,text)": Form(f"try_element_at(filter(@0, {_KEY_IS}), 1).value"),
    "?(any,text)": Form(f"IF(@1 IS NULL, NULL, exists(@0, {_KEY_IS}))"),
}
"""By id."""
