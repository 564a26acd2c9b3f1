"""Nexmark's queries as views agree with DuckDB after every commit of inserts, updates and deletes."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest

from sinkql.errors import SinkqlError
from views import nexmark
from views.churn import batches
from views.harness import Kind, View, Views
from views.queries import queries

_QUERIES = queries("nexmark.sql")
_BY_PROCESSING_TIME = "q12"
_RUN = [name for name in _QUERIES if name != _BY_PROCESSING_TIME]


def _hold(folder: Path, name: str, bids: Kind, *, size: int, commits: int, changes: int, seed: int) -> int:
    """Run a query and compare it with DuckDB; return how many commits changed its rows."""
    random_ = random.Random(seed)
    rows = nexmark.rows(size, random_)
    relations = nexmark.relations(bids)
    views = Views(folder, relations, {name: View(_QUERIES[name])})
    seen = []
    updates = nexmark.updates(relations[2])
    for each in batches(relations, rows, updates, commits=commits, changes=changes, random_=random_):
        views.batch(each)
        seen.append(views.content.ask(_QUERIES[name]))
    views.check_parts()
    views.check_cut([commits // 2])
    views.close()
    return sum(before != after for before, after in pairwise(seen))


def test_there_are_24() -> None:
    assert [f"q{number}" for number in range(24)] == list(_QUERIES)


@pytest.mark.share(16)
@pytest.mark.long
@pytest.mark.parametrize("bids", ["table", "append"])
@pytest.mark.parametrize("name", _RUN)
def test_query(tmp_path: Path, name: str, bids: Kind) -> None:
    assert _hold(tmp_path, name, bids, size=100, commits=11, changes=20, seed=23) > 2, "too few commits change the rows"


@pytest.mark.soak
@pytest.mark.parametrize("bids", ["table", "append"])
@pytest.mark.parametrize("name", _RUN)
def test_query_over_more_rows(tmp_path: Path, name: str, bids: Kind) -> None:
    changes = 200 if bids == "table" else 30  # few enough that bids are appended up to the last commit
    assert _hold(tmp_path, name, bids, size=800, commits=20, changes=changes, seed=5) > 4


def test_processing_time_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SinkqlError, match=r"now\(\) is volatile"):
        Views(tmp_path, nexmark.RELATIONS, {"q12": View(_QUERIES[_BY_PROCESSING_TIME])})
