"""The order of items: each after the items that it uses, otherwise unchanged."""

from __future__ import annotations

from graphlib import CycleError

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkql.planner.dependency import in_order, reached


@settings(deadline=None)
@given(st.permutations(range(8)), st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7))))
def test_each_comes_after_what_it_uses(standing: list[int], pairs: set[tuple[int, int]]) -> None:
    uses = {f"i{each}": [f"i{b}" for a, b in sorted(pairs) if a == each and b < a] for each in standing}
    order = in_order(uses)
    assert sorted(order) == sorted(uses)
    assert all(order.index(used) < order.index(name) for name in uses for used in uses[name])


def test_what_uses_nothing_stays_where_it_stands() -> None:
    assert in_order({"c": [], "b": ["a", "elsewhere"], "a": ["c"], "d": []}) == ["c", "a", "b", "d"]


def test_circle_is_an_error() -> None:
    with pytest.raises(CycleError):
        in_order({"a": ["b"], "b": ["a"]})


def test_all_is_reached_once() -> None:
    edges = {"a": ["b", "c"], "b": ["c"], "c": ["a"], "d": []}
    assert {"a", "b", "c"} == set(reached(["a"], edges.__getitem__))
    assert len(reached(["a"], edges.__getitem__)) == 3
