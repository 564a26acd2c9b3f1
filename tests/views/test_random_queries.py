"""Random queries over relations whose rows come and go, equal to DuckDB after every batch, however changes are cut."""

from __future__ import annotations

from collections import Counter

import pytest

from views.random_case import Outcome, case, outcome

_GATE, _AT_ONCE = 80, 10
_SOAK = 2000
_SMALLER = "cd tests; python -m views.random_case {} {} makes it smaller"
_PARTS = 8
"""Of how many queries one is also checked in what it is made of, and over other batches."""
_REFUSED = ("SQ2926",)
"""What a query may be refused for: a subquery in ON of a FULL JOIN that speaks of both sides."""
_HELD = 0.97
"""The least share of queries that are planned and run."""
_FORMS, _MORE_FORMS = 60, 80
"""How many forms of SQL the queries are to have among them."""


def _held(seeds: range) -> Counter[str]:
    """Hold the queries of these seeds; return how often each form of SQL was among those that ran."""
    forms: Counter[str] = Counter()
    refused = []
    for seed in seeds:
        each = case(seed)
        found = outcome(each, parts=seed % _PARTS == 0)
        assert not found.wrong, f"{found.kind}: {each}\n{found.said}\n{_SMALLER.format(seed, seed + 1)}"
        if found == Outcome("held"):
            forms += each.forms
        else:
            assert found.said.startswith(_REFUSED), f"{found.kind}: {each}\n{found.said}"
            refused.append(f"{seed}: {found.said}")
    print(f"{len(seeds)} queries, {len(refused)} refused: {refused}")
    print(", ".join(f"{form}: {count}" for form, count in forms.most_common()))
    assert len(refused) <= len(seeds) * (1 - _HELD), refused
    return forms


@pytest.mark.long
def test_random_queries() -> None:
    assert len(_held(range(_GATE))) >= _FORMS


@pytest.mark.soak
@pytest.mark.parametrize("first", range(_GATE, _GATE + _SOAK, _SOAK // _AT_ONCE))
def test_more_random_queries(first: int) -> None:
    assert len(_held(range(first, first + _SOAK // _AT_ONCE))) >= _MORE_FORMS
