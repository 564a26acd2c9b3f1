"""TPC-H's queries as views agree with DuckDB after every commit of inserts, updates and deletes in six tables."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest

from views import tpch
from views.churn import batches
from views.harness import View, Views
from views.queries import queries

_QUERIES = queries("tpch.sql")
_SELDOM = {"q2"}
"""Queries whose rows seldom change."""


def _hold(folder: Path, name: str, *, size: int, commits: int, changes: int, seed: int) -> int:
    """Run a query and compare it with DuckDB; return how many commits changed its rows."""
    random_ = random.Random(seed)
    rows = tpch.rows(size, random_)
    views = Views(folder, tpch.RELATIONS, {name: View(_QUERIES[name])})
    seen = []
    for each in batches(tpch.RELATIONS, rows, tpch.updates(), commits=commits, changes=changes, random_=random_):
        views.batch(each)
        seen.append(views.content.ask(_QUERIES[name]))
    views.check_parts()
    views.check_cut([commits // 2])
    views.close()
    return sum(before != after for before, after in pairwise(seen))


def test_there_are_22() -> None:
    assert [f"q{number}" for number in range(1, 23)] == list(_QUERIES)


@pytest.mark.share(16)
@pytest.mark.long
@pytest.mark.parametrize("name", _QUERIES)
def test_query(tmp_path: Path, name: str) -> None:
    commits = 11 if name in _SELDOM else 7
    assert _hold(tmp_path, name, size=150, commits=commits, changes=60, seed=22) > 1, "too few commits change the rows"


@pytest.mark.soak
@pytest.mark.parametrize("name", _QUERIES)
def test_query_over_more_rows(tmp_path: Path, name: str) -> None:
    assert _hold(tmp_path, name, size=500, commits=20, changes=200, seed=5) >= 8
