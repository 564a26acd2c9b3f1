"""Single views from the tests that compare many views with DuckDB; mutants of the planner run these tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from mutants.mutant import met_by
from operators.joined import CASES
from operators.test_join import check, check_nested
from views import (
    test_collect,
    test_constant,
    test_flatten,
    test_grouping_sets,
    test_joins,
    test_lateral,
    test_set_operations,
    test_subqueries,
    test_views,
    test_windows,
)
from views.changing import Columns, changes
from views.harness import Change, Relation, View, Views

pytestmark = pytest.mark.soak
_BATCHES, _HISTORIES, _TREES = 6, 6, 40
Changing = Callable[[Views, random.Random, int], dict[str, list[Change]]]


@dataclass(frozen=True)
class Family:
    """Relations, views over them, and a function that makes the changes of a batch from its number."""

    relations: Sequence[Relation]
    views: Mapping[str, View]
    changing: Changing


def _views(sql: Mapping[str, str], asked: Mapping[str, str] | None = None) -> dict[str, View]:
    return {name: View(text, (asked or {}).get(name)) for name, text in sql.items()}


def _by(rows: Columns) -> Changing:
    def made(views: Views, random_: random.Random, number: int) -> dict[str, list[Change]]:
        return changes(views, random_, rows)

    return made


def _unnumbered(of: Callable[[Views, random.Random], dict[str, list[Change]]]) -> Changing:
    return lambda views, random_, number: of(views, random_)


_JOINS = test_joins._INNER | test_joins._OUTER | test_joins._PAIRS | test_joins._RULES
_COLLECTED: Columns = {"t": test_collect._row, "s": test_collect._row, "u": test_collect._keyed}
_FLATTENED: Columns = {
    "t": test_flatten._row, "s": test_flatten._row, "u": test_flatten._keyed, "r": test_flatten._bounds,
}  # fmt: skip
_FAMILIES = {
    "joins": Family(
        test_joins._RELATIONS, _views(_JOINS, test_joins._ORACLES), _unnumbered(test_joins._changes)
    ),
    "lateral": Family(test_lateral._RELATIONS, _views(test_lateral._SQL, test_lateral._ASKED), test_lateral._changes),
    "subqueries": Family(
        test_subqueries._RELATIONS, _views(test_subqueries._SQL, test_subqueries._ASKED), test_subqueries._changes
    ),
    "windows": Family(test_windows._RELATIONS, _views(test_windows._VIEWS), _by(test_windows._ROWS)),
    "sets": Family(test_set_operations._RELATIONS, _views(test_set_operations._VIEWS), _by(test_set_operations._ROWS)),
    "flatten": Family(test_flatten._RELATIONS, test_flatten._VIEWS, _by(_FLATTENED)),
    "constant": Family(
        test_constant._RELATIONS,
        _views(test_constant._VIEWS, test_constant._ORACLES),
        _by({"t": test_constant._row, "s": test_constant._row}),
    ),
    "groupings": Family(
        test_grouping_sets._RELATIONS,
        _views(test_grouping_sets._VIEWS, test_grouping_sets._ORACLES),
        _by({"t": test_grouping_sets._row, "s": test_grouping_sets._nulls}),
    ),
    "collect": Family(test_collect._RELATIONS, test_collect._VIEWS, _by(_COLLECTED)),
    "views": Family(test_views._RELATIONS, test_views._VIEWS, _unnumbered(test_views._changes)),
}  # fmt: skip


@pytest.mark.parametrize("name", met_by("mutants/test_one_view.py::test_view"))
def test_view(name: str, tmp_path: Path) -> None:
    """Run several histories: one alone may not show a mutant's error."""
    family, _, view = name.partition(" ")
    given, called = _FAMILIES[family], f"v_{view}"  # some names are SQL keywords
    for seed in range(_HISTORIES):
        random_, folder = random.Random(f"{name} {seed}"), tmp_path / str(seed)
        folder.mkdir()
        views = Views(folder, given.relations, {called: given.views[view]})
        for number in range(1, _BATCHES + 1):
            views.batch(given.changing(views, random_, number))
        views.check_parts()
        views.check_cut([2, 4])
        views.close()


@pytest.mark.parametrize("name", met_by("mutants/test_one_view.py::test_join"))
def test_join(name: str, tmp_path: Path) -> None:
    """Run several histories; in some of them hashes collide."""
    for seed in range(_HISTORIES):
        check(CASES[name], tmp_path / str(seed), f"{name}{seed}", (6, 12, 12, 12))


def test_nested(tmp_path: Path) -> None:
    for seed in range(_TREES):
        check_nested(tmp_path / str(seed), f"nested {seed}", (5, 9, 9, 9, 9))
