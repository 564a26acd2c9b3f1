"""Supported vectors are planned with Postgres's types; unsupported ones are refused with a code and a place."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from expressions import vectors
from sinkql.errors import SinkqlError
from sinkql.logical import NUMERIC

# the number of supported vectors in each group, as a minimum
_SUPPORTED = {
    "CASE, COALESCE, NULLIF, GREATEST": 19,
    "aggregates": 33,
    "arithmetic": 51,
    "arrays": 59,
    "casts": 47,
    "comparison, NULL, logic": 42,
    "date and time": 114,
    "jsonb": 34,
    "numeric functions": 45,
    "queries": 0,
    "strings": 111,
    "time of day": 44,
}
_TYPES = {
    "time without time zone": "time",
    "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamptz",
}
# the cast raises at run time if it meets an escape, so all its results are exact
_EXACT_AFTER_ALL = {
    "cast-s028",
    "str-s053",
    "agg-s030",
    "agg-s031",
    "agg-s034",
    "agg-s035",
    "agg-s037",
    "arr-s022",
    "json-s042",
}


def test_supported_vectors_do_not_become_fewer() -> None:
    found: Counter[str] = Counter()
    for vector in vectors.load():
        found[vector["group"]] += vector["status"] == "exact" and not isinstance(vectors.planned(vector), SinkqlError)
    assert {group: min(found[group], _SUPPORTED[group]) for group in found} == _SUPPORTED


@pytest.mark.parametrize(
    "vector", [each for each in vectors.load() if each["status"] == "exact"], ids=lambda v: v["id"]
)
def test_planned_type_is_that_of_postgres(vector: dict[str, Any]) -> None:
    plan = vectors.planned(vector)
    if isinstance(plan, SinkqlError):
        assert plan.code.startswith(("SQ2008", "SQ22", "SQ29"))
        assert plan.span is not None
    elif isinstance(vector["type"], str):
        type_ = plan.relation.shape.columns[-1].type
        wanted = _TYPES.get(vector["type"], vector["type"])
        assert wanted == (str(type_) if "(" in wanted else type_.called)
        if type_.name == "numeric" and type_.scale != NUMERIC.scale:
            assert max(_digits(vector), default=type_.scale) == type_.scale
    else:  # a whole query
        assert [_TYPES.get(each, each) for each in vector["type"]] == [
            str(each.type) for each in plan.relation.shape.columns
        ]


def _digits(vector: dict[str, Any]) -> list[int]:
    """Return the numbers of fraction digits that Postgres shows."""
    return [len(each.partition(".")[2]) for each in vector["expected"] if isinstance(each, str)]


@pytest.mark.parametrize(
    "vector", [each for each in vectors.load() if each["status"] == "refuse"], ids=lambda v: v["id"]
)
def test_inexact_expression_is_refused_at_its_place(vector: dict[str, str]) -> None:
    plan = vectors.planned(vector)
    if vector["id"] in _EXACT_AFTER_ALL:
        return
    assert isinstance(plan, SinkqlError), vector["sql"]
    assert plan.code.startswith(("SQ22", "SQ29"))
    assert plan.span is not None
    text = vectors.text_of(vector)
    assert text[plan.span.start : plan.span.end] in text
    assert len(text) > plan.span.end - plan.span.start > 0
