"""INTERSECT and EXCEPT over rows that come and go are what DuckDB gives of all rows, after every batch."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from operators.pipeline import Change, Pipeline, Row
from operators.written import Rows, planned, view
from sinkql.logical import Change as Kind

SIDES = {
    "l": Rows({"k": "integer", "t": "text"}),
    "r": Rows({"n": "bigint", "u": "text"}),
    "x": Rows({"k": "bigint not null", "t": "text"}, Kind.APPEND),
}
QUERIES = {
    "intersect": "SELECT k, t FROM l INTERSECT SELECT n, u FROM r",
    "except": "SELECT k, t FROM l EXCEPT SELECT n, u FROM r",
    "intersect all": "SELECT k, t FROM l INTERSECT ALL SELECT n, u FROM r",
    "except all": "SELECT k, t FROM l EXCEPT ALL SELECT n, u FROM r",
    "of one column": "SELECT k FROM l EXCEPT ALL SELECT n FROM r WHERE n > 0",
    "closer": "SELECT t FROM l UNION ALL SELECT u FROM r INTERSECT SELECT t FROM x",
    "from the left": "SELECT k, t FROM l EXCEPT SELECT n, u FROM r EXCEPT SELECT k, t FROM x WHERE k > 1",
    "in parentheses": "SELECT t FROM l EXCEPT (SELECT u FROM r EXCEPT ALL SELECT t FROM x)",
    "grouped above": "SELECT t, count(*) AS c FROM (SELECT k, t FROM l EXCEPT ALL SELECT n, u FROM r) AS d GROUP BY t",
    "computed above": "SELECT k + 1 AS m FROM (SELECT k, t FROM l INTERSECT ALL SELECT k, t FROM x) AS d WHERE k > 1",
}


@pytest.mark.parametrize("name", QUERIES)
def test_set_operations_give_what_they_give_of_all_rows(tmp_path: Path, name: str) -> None:
    pipeline = Pipeline(tmp_path, view(QUERIES[name], **SIDES))
    rng = random.Random(name)
    live: dict[str, Counter[Row]] = {side: Counter() for side in SIDES}
    seen = 0
    for _ in range(9):
        batch = {side: _changes(rng, live[side], side) for side in pipeline.reads}
        pipeline.batch(**batch)
        expected = pipeline.expected(QUERIES[name])
        assert pipeline.got() == expected
        seen += bool(expected)
    assert seen > 3


def _changes(rng: random.Random, live: Counter[Row], side: str) -> list[Change]:
    found: list[Change] = []
    for _ in range(rng.randint(3, 12)):
        gone = [row for row, count in live.items() if count]
        if side != "x" and gone and rng.random() < 0.5:
            row = rng.choice(gone)
            change = row, -rng.randint(1, live[row])
        else:
            values = [1, 2] if side == "x" else [0, 1, 2, None]
            change = (rng.choice(values), rng.choice(["a", "b", None])), 1 if side == "x" else rng.randint(1, 3)
        live[change[0]] += change[1]
        found.append(change)
    return found


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("SELECT a, b FROM p EXCEPT SELECT c, d FROM q", [{"a"}, {"a", "b"}]),
        ("SELECT a, b FROM p EXCEPT ALL SELECT c, d FROM q", [{"a"}]),
        ("SELECT a, b FROM p INTERSECT ALL SELECT c, d FROM q", [{"a"}, {"b"}]),
        ("SELECT b, a FROM p INTERSECT SELECT c, d FROM q", [{"a"}, {"b", "a"}]),
        ("SELECT c, d FROM q INTERSECT ALL SELECT c, d FROM q", [{"d"}]),
    ],
)
def test_what_is_unique_on_a_side_is_unique_of_what_is_left_of_it(query: str, keys: list[set[str]]) -> None:
    p = Rows({"a": "integer", "b": "integer"}, keys=(frozenset({"a"}),))
    q = Rows({"c": "integer", "d": "integer"}, keys=(frozenset({"d"}),))
    assert set(planned(query, p=p, q=q)[1].keys) == {frozenset(key) for key in keys}
