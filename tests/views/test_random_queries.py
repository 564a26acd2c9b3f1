"""Random queries over relations whose rows come and go, equal to DuckDB after every batch, however changes are cut."""

from __future__ import annotations

from collections import Counter

import pytest

from views.random_case import case, outcome

_GATE, _AT_ONCE = 150, 10
_SOAK = 2000
_SMALLER = "cd tests; python -m views.random_case {} {} makes it smaller"
_PARTS = 8
"""Of how many queries one is also checked in what it is made of, and over other batches."""
_HELD = 0.9
"""The least share of queries that are planned and run."""


def _held(seeds: range) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in seeds:
        each = case(seed)
        found = outcome(each, parts=seed % _PARTS == 0)
        assert not found.wrong, f"{found.kind}: {each}\n{found.said}\n{_SMALLER.format(seed, seed + 1)}"
        counts[found.kind] += 1
    return counts


@pytest.mark.long
def test_random_queries() -> None:
    counts = _held(range(_GATE))
    print(dict(counts))
    assert counts["held"] / _GATE >= _HELD, counts


@pytest.mark.soak
@pytest.mark.parametrize("first", range(_GATE, _GATE + _SOAK, _SOAK // _AT_ONCE))
def test_more_random_queries(first: int) -> None:
    counts = _held(range(first, first + _SOAK // _AT_ONCE))
    print(dict(counts))
    assert counts["held"] / (_SOAK // _AT_ONCE) >= _HELD, counts
