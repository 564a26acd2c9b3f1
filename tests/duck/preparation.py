"""What goes into the tasks of an operator with state → DuckDB's SQL that prepares it."""

from __future__ import annotations

from collections.abc import Iterator

from duck.expression import quoted
from sinkql.extension.types import parse_type
from sinkql.lowering.preparation import Measure, Preparation, Value


def prepared(preparation: Preparation) -> Iterator[str]:
    """Yield the hashes and values that go into an operator's tasks."""
    for each in preparation.hashes:
        parts = (f"{_normal(value)} IS NULL, {_normal(value)}" for value in each.values)
        yield f"hash({', '.join([str(each.seed), *parts])}) AS {quoted(each.name)}"
    for value in preparation.values:
        yield f"{_normal(value)} AS {quoted(value.name)}"
    if not preparation.append:
        yield '"$diff"'


def _normal(value: Value) -> str:
    name = quoted(value.column)
    if value.type not in ("real", "double precision"):
        return name
    type_ = "FLOAT" if value.type == "real" else "DOUBLE"
    return f"CASE WHEN isnan({name}) THEN 'NaN'::{type_} WHEN {name} = 0 THEN 0::{type_} ELSE {name} END"


def measures(preparation: Preparation) -> Iterator[str]:
    """Yield what the rows of a group come to."""
    diff = "1" if preparation.append else '"$diff"'
    for each in preparation.measures:
        yield f"{_measure(each, diff)} AS {quoted(each.name)}"


def _measure(measure: Measure, diff: str) -> str:
    value = quoted(measure.value)
    match measure.kind:
        case "rows":
            return f"sum({diff})::BIGINT"
        case "present":
            return f"sum(CASE WHEN {value} IS NULL THEN 0 ELSE {diff} END)::BIGINT"
        case "sum":
            return _sum(value, measure.type, diff)
        case "least":
            return f"min({value})"
        case "greatest":
            return f"max({value})"


def _sum(value: str, type_: str, diff: str) -> str:
    if type_ in ("real", "double precision"):
        total = f"sum({value}::DOUBLE)"
        overflowed = f"isinf({total}) AND NOT bool_or(isinf({value}::DOUBLE))"
        return f"CASE WHEN {overflowed} THEN error('overflow')::DOUBLE ELSE coalesce({total}, 0) END"
    wide = f"DECIMAL(38,{parse_type(type_).scale})" if type_.startswith("numeric") else "BIGINT"
    return f"coalesce(sum({value}::{wide} * {diff}), 0)::{wide}"
