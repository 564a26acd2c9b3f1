"""Aggregates, window functions and functions in FROM give what Postgres gives over edge values that come and go."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sinkql.planner.function.call import AGGREGATES, WINDOW_FUNCTIONS
from sinkql.planner.function.rows import HANDLERS
from views.aggregates import RELATION, batches, queries
from views.harness import View, Views
from views.judged import JudgedContent
from views.random_case import Judge

_SHARE = 6
"""Of so many queries one is run with each change; all of them in `make soak`."""


def test_every_aggregate_and_function_of_rows_has_a_template() -> None:
    tried = {name for sql, _ in queries().values() for name in re.findall(r"\b([a-z_]+)\(", sql)}
    assert sorted({*AGGREGATES, *WINDOW_FUNCTIONS, *HANDLERS} - tried) == []


def _hold(names: list[str], folder: Path, judge: Judge) -> None:
    views = {f"v{number}": View(*queries()[name]) for number, name in enumerate(names)}
    held = Views(folder, [RELATION], views, content=JudgedContent([RELATION], judge))
    try:
        for each in batches():
            held.batch(each)
    finally:
        held.close()


@pytest.mark.server
def test_share_of_the_aggregates_is_as_in_postgres(tmp_path: Path, judge: Judge) -> None:
    _hold(list(queries())[::_SHARE], tmp_path, judge)


@pytest.mark.soak
@pytest.mark.server
@pytest.mark.parametrize("name", queries())
def test_aggregates_are_as_in_postgres(name: str, tmp_path: Path, judge: Judge) -> None:
    _hold([name], tmp_path, judge)
