"""Random queries over changing relations agree with Postgres after every batch, however changes are split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from views.random_case import TOGETHER, Oracle, Outcome, cases, outcomes

pytestmark = pytest.mark.server

_GATE = (96, 121)
"""Seeds that cover most forms, with sinks, parts, state in two buckets and reordered changes."""
_SOAK, _AT_ONCE = 3000, 300
_SMALLER = "cd tests; python -m views.random_case {} {} makes it smaller"
_REFUSED = ("SQ2926",)
"""Why a query may be refused: a subquery in ON of a FULL JOIN refers to both sides."""
_HELD = 0.97
"""The least share of queries that must be planned and run."""
_FORMS, _GATE_FORMS = 80, 70
"""How many forms of SQL all queries must have between them."""


def _held(seeds: Sequence[int], oracle: Oracle) -> Counter[str]:
    """Check the queries of these seeds; return how often each form of SQL occurred in the queries that ran."""
    forms: Counter[str] = Counter()
    refused = []
    for seed in seeds:
        made = cases(seed, oracle)
        for each, found in zip(made, outcomes(made, oracle), strict=True):
            assert not found.wrong, f"{found.kind}: {each}\n{found.said}\n{_SMALLER.format(seed, seed + 1)}"
            if found == Outcome("held"):
                forms += each.forms
            else:
                assert found.said.startswith(_REFUSED), f"{found.kind}: {each}\n{found.said}"
                refused.append(f"{seed}: {found.said}")
    count = len(seeds) * TOGETHER
    print(f"{count} queries, {len(refused)} refused: {refused}")
    print(", ".join(f"{form}: {count}" for form, count in forms.most_common()))
    assert len(refused) <= count * (1 - _HELD), refused
    return forms


@pytest.mark.long
def test_random_queries(oracle: Oracle) -> None:
    assert len(_held(_GATE, oracle)) >= _GATE_FORMS


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, _SOAK // TOGETHER, _AT_ONCE // TOGETHER))
def test_more_random_queries(first: int, oracle: Oracle) -> None:
    assert len(_held(range(first, first + _AT_ONCE // TOGETHER), oracle)) >= _FORMS
