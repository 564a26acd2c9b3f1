"""Sorted runs of hashed rows, in state and key index: order, lookup, newest first, tiers, sweeping."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkql.storage import sorted_run
from sinkql.storage.sorted_run import MergePolicy, duplicates_mask, find, matches, newest, sort_indices, sweep

FEW = st.integers(0, 3)  # hashes that collide in one half or in both
Keys = list[tuple[int, int]]
KEYS = st.lists(st.tuples(FEW, FEW), max_size=40)


def columns(keys: Keys) -> tuple[np.ndarray[tuple[int], np.dtype[np.uint64]], ...]:
    top = 1 << 63  # hashes use all 64 bits
    return tuple(np.array([top + key[half] for key in keys], np.uint64) for half in (0, 1))


@settings(deadline=None)
@given(KEYS)
def test_order_is_by_both_halves_and_stable(keys: Keys) -> None:
    expected = sorted(range(len(keys)), key=lambda place: (*keys[place], place))
    order = sort_indices(*columns(keys))
    assert expected == order.tolist()
    again = [place > 0 and keys[expected[place - 1]] == keys[each] for place, each in enumerate(expected)]
    assert again == duplicates_mask(*(column[order] for column in columns(keys))).tolist()


@settings(deadline=None)
@given(st.lists(KEYS, max_size=4), KEYS)
def test_the_newest_run_that_has_a_key_knows_it(given_runs: list[Keys], asked: Keys) -> None:
    whole = [sorted(set(keys)) for keys in given_runs]
    found: dict[int, tuple[int, int]] = {}
    for number, (which, places) in enumerate(matches(map(columns, whole), *columns(asked))):  # type: ignore[arg-type]  # pairs
        assert not found.keys() & set(which.tolist())
        found |= {each: (number, place) for each, place in zip(which.tolist(), places.tolist(), strict=True)}
    expected = {
        place: next((number, keys.index(key)) for number, keys in enumerate(whole) if key in keys)
        for place, key in enumerate(asked)
        if any(key in keys for keys in whole)
    }
    assert expected == found


@settings(deadline=None)
@given(KEYS)
def test_merging_keeps_the_first_of_each_key(keys: Keys) -> None:
    assert [keys.index(key) for key in sorted(set(keys))] == newest(*columns(keys)).tolist()


def test_nothing_is_found_in_an_empty_run() -> None:
    nothing = columns([])
    assert find(*nothing, *columns([(1, 1)])).tolist() == [-1]


SPREADS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "evenly": lambda rng, rows: rng.integers(0, 2**64 - 1, rows, np.uint64, endpoint=True),
    "few": lambda rng, rows: rng.integers(0, 9, rows, np.uint64),
    "at both ends": lambda rng, rows: np.where(rng.random(rows) < 0.5, np.uint64(0), np.uint64(2**64 - 1)),
    "in a corner": lambda rng, rows: rng.integers(2**64 - 2**40, 2**64 - 1, rows, np.uint64, endpoint=True),
    "one far off": lambda rng, rows: np.append(rng.integers(0, 1 << 20, rows - 1, np.uint64), np.uint64(2**64 - 1)),
}


@pytest.mark.parametrize("spread", SPREADS)
def test_keys_are_found_in_a_large_run_however_their_hashes_are_spread(spread: str) -> None:
    rng, rows = np.random.default_rng(5), 70_000
    some = SPREADS[spread](rng, 2 * rows), rng.integers(0, 2**64 - 1, 2 * rows, np.uint64)
    h1, h2 = (half[np.lexsort(some[::-1])] for half in some)
    there = np.sort(rng.permutation(2 * rows)[:rows])  # the remaining keys are absent, but their h1 may occur
    places = np.full(2 * rows, -1)
    places[there] = np.arange(rows)
    asked = rng.permutation(2 * rows)[:5_000]
    ends = np.array([0, 2**64 - 1], np.uint64)
    assert places[asked].tolist() == find(h1[there], h2[there], h1[asked], h2[asked]).tolist()
    assert find(h1[there], h2[there], ends, ends).tolist() == [-1, -1]
    assert find(h1[there], h2[there], h1[:0], h2[:0]).tolist() == []


def test_few_hashes_of_a_large_run_are_looked_at_for_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    read, take = [0], np.take

    def counting(column: Any, places: Any, **named: Any) -> Any:
        read[0] += len(places)
        return take(column, places, **named)

    def searched(*columns: Any) -> Any:
        raise AssertionError("searched for")

    monkeypatch.setattr(np, "take", counting)
    monkeypatch.setattr(sorted_run, "_binary_search", searched)
    costs = []
    for rows in (100_000, 3_000_000):
        h1 = np.sort(rng.integers(0, 2**64 - 1, rows, np.uint64))
        places, read[0] = np.sort(rng.integers(0, rows, 10_000)), 0
        assert places.tolist() == find(h1, h1, h1[places], h1[places]).tolist()
        costs.append(read[0] / 10_000)
    assert max(costs) < 8  # a binary search would read 17 and 22
    assert costs[1] / costs[0] < 1.1


@pytest.mark.parametrize(
    ("sizes", "due"),
    [
        ([], 0),
        ([5] * 3, 0),
        ([5] * 4, 4),
        ([500] * 4, 4),
        ([500] * 4 + [2000], 5),
        ([500] * 4 + [2001], 4),
        ([1, 900], 0),
    ],
)
def test_runs_are_merged_when_there_are_enough_of_like_size(sizes: list[int], due: int) -> None:
    assert due == MergePolicy(fan=4, small=10).due(sizes)


def test_rows_are_rewritten_few_times_and_few_runs_stay() -> None:
    tiers, written, most = MergePolicy(fan=4, small=256), 0, 0
    sizes: list[int] = []
    for _ in range(1000):
        sizes.insert(0, 10_000)
        if length := tiers.due(sizes):
            sizes[:length] = [sum(sizes[:length])]
            written += sizes[0]
        most = max(most, len(sizes))
    assert written < 5 * 1000 * 10_000
    assert most <= 10


def test_sweep_takes_own_dead_files_of_past_epochs_that_are_old_enough(tmp_path: Path) -> None:
    names = ["1-dead", "1-live", "2-dead", "3-later", "foreign", "1-young"]
    for name in names:
        (tmp_path / name).touch()
        old = time.time() - (0 if name == "1-young" else 100)
        os.utime(tmp_path / name, (old, old))

    def epoch_of(name: str) -> int | None:
        return int(name[0]) if name[0].isdigit() else None

    removed = sweep(tmp_path.iterdir(), {tmp_path / "1-live"}, epoch_of=epoch_of, epoch=2, age=50)
    assert (removed, sorted(os.listdir(tmp_path))) == (2, ["1-live", "1-young", "3-later", "foreign"])
