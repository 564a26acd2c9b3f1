"""A view's log is the batch evaluation of its SQL at every entry, and so is whatever is made of it."""

from __future__ import annotations

import random
from pathlib import Path
from unittest.mock import patch

import pytest

from view.histories import History

_SEEDS = 6
_STEPS = 14


def _run(folder: Path, seed: int) -> History:
    """Run a history; every other one keeps as little as it may."""
    history = History(folder / str(seed), random.Random(seed))
    with (
        patch("sinkql.connectors.view.writer._SWEEP_EVERY", 2 if seed % 2 else 16),
        patch("sinkql.connectors.view.writer._LEAST_HISTORY", 0 if seed % 4 == 1 else 1 << 20),
    ):
        history.run(_STEPS)
    return history


def test_each_entry_is_the_view_at_its_offsets_whatever_fails(tmp_path: Path) -> None:
    found = [_run(tmp_path, seed) for seed in range(_SEEDS)]
    assert sum(each.failures for each in found) > _SEEDS
    assert sum(each.fenced for each in found) > 0
    assert sum(each.rebuilt for each in found) > 0


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
def test_many_histories(tmp_path: Path, part: int) -> None:
    for seed in range(100 * part, 100 * part + 50):
        _run(tmp_path, seed)
