"""Jobs that share sources meet at ticks: a job that reads several of them sees one state of the sources."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

import pytest

from sinkql import physical
from view.ticks import TickHistory, jobs

_SEEDS, _STEPS = (5,), 10


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, physical.Job]:
    return jobs(tmp_path_factory.mktemp("catalog"))


def _run(folder: Path, seed: int, made: Mapping[str, physical.Job]) -> TickHistory:
    """Run a history. Every other seed keeps few entries of the logs and few ticks."""
    history = TickHistory(folder / str(seed), random.Random(seed), made=made)
    with (
        patch("sinkql.connectors.view.writer._SWEEP_EVERY", 2 if seed % 2 else 16),
        patch("sinkql.connectors.view.writer._LEAST_HISTORY", 0 if seed % 4 == 1 else 1 << 20),
        patch("sinkql.runtime.batch.timeline._TICKS_KEPT", 8 if seed % 2 else 256),
        patch("sinkql.runtime.batch.timeline._SWEEP_EVERY", 4 if seed % 2 else 32),
    ):
        history.run(_STEPS)
    return history


def test_each_commit_is_of_one_state_of_the_sources_whatever_fails(
    tmp_path: Path, made: Mapping[str, physical.Job]
) -> None:
    found = [_run(tmp_path, seed, made) for seed in _SEEDS]
    assert sum(each.failures for each in found) > len(_SEEDS)
    assert sum(each.fenced for each in found) > 0
    assert sum(each.rebuilt for each in found) > 0


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_many_histories(tmp_path: Path, made: Mapping[str, physical.Job], part: int) -> None:
    for seed in range(100 * part, 100 * part + 20):
        _run(tmp_path, seed, made)
