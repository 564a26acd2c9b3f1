"""Joins that look up rows in indexes equal DuckDB's, whatever fails and whenever indexes are created or dropped."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

import pytest

from sinkql import physical
from sinkql.storage import spill
from support.budget import seeds
from view.indexed import JOINED, KEPT, IndexHistory, looking_up, variants

_FEW_STEPS, _STEPS = 5, 10
_CPU_S = 2.0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Mapping[str, physical.Job]]:
    return variants(tmp_path_factory.mktemp("catalog"))


def _run(folder: Path, seed: int, made: Sequence[Mapping[str, physical.Job]], steps: int) -> IndexHistory:
    """Run a history. Every other seed keeps little of the logs, and every third one spills all rows."""
    history = IndexHistory(folder / str(seed), random.Random(seed), made=made[seed % len(made)], variants=made)
    with (
        patch("sinkql.connectors.view.writer._SWEEP_EVERY", 2 if seed % 2 else 16),
        patch("sinkql.connectors.view.writer._LEAST_HISTORY", 0 if seed % 4 == 1 else 1 << 20),
        patch("sinkql.runtime.batch.maintenance._SWEEP_EVERY", 1 if seed % 2 else 20),
        patch("sinkql.storage.spill.MOST", 0 if seed % 3 == 1 else spill.MOST),
        patch("sinkql.storage.spill.PART", 64 if seed % 3 == 1 else spill.PART),
    ):
        history.run(steps)
    return history


def test_every_join_looks_up(made: Sequence[Mapping[str, physical.Job]]) -> None:
    without, every, some = made
    assert not any(map(looking_up, without.values()))
    assert {name: len(looking_up(every[name])) for name in JOINED} == {
        "inner_": 1, "outer_": 1, "kept_": 1, "full_": 2, "semi_": 1, "anti_": 1, "self_": 2, "two_": 1, "three_": 2,
        "safe_": 1, "orders_": 1, "above_": 1,
    }  # fmt: skip
    assert {name: len(each.indexes) for name, each in every.items() if name in KEPT} == {"v": 4, "w": 1, "u": 2}
    assert not looking_up(some["anti_"])


def test_no_plan_changes_with_an_index(made: Sequence[Mapping[str, physical.Job]]) -> None:
    without, *others = made
    for other in others:
        assert {name: job.plan for name, job in other.items()} == {name: job.plan for name, job in without.items()}


def test_each_commit_is_that_of_its_sources_whatever_fails(
    tmp_path: Path, made: Sequence[Mapping[str, physical.Job]]
) -> None:
    found = [_run(tmp_path, seed, made, _FEW_STEPS) for seed in seeds(_CPU_S)]
    assert sum(each.failures for each in found) > len(found)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_many_histories(tmp_path: Path, made: Sequence[Mapping[str, physical.Job]], part: int) -> None:
    found = [_run(tmp_path, seed, made, _STEPS) for seed in range(100 * part, 100 * part + 20)]
    assert sum(each.fenced for each in found) > 0
