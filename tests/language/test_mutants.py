"""Any change to a query, a compiled program or a catalog's file gives an answer or a coded error.

The gate runs the same mutants each time; `make soak` runs millions of others.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from language.mutants import Catalogs, Mutants, Run, program, query

pytestmark = pytest.mark.long

_SOAK, _AT_ONCE = 10_000_000, 200_000
_KINDS: dict[str, tuple[Callable[[Path], Run], int, float]] = {
    "query": (lambda folder: query, 1_000, 0.9),
    "program": (lambda folder: program, 500, 0.09),
    "catalog": (Catalogs, 30, 0.01),
}
"""By kind: a function that creates the mutants, their number in the gate, and their share in `make soak`."""


@pytest.mark.parametrize("kind", _KINDS)
def test_a_mutant_has_an_answer_or_a_coded_error(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, count, _ = _KINDS[kind]
    mutants = _hold(kind, range(count), tmp_path, monkeypatch)
    assert mutants.outcomes["right"] > 0.1 * count, mutants.outcomes
    assert len(mutants.outcomes) > 1


@pytest.mark.soak
@pytest.mark.parametrize("part", range(_SOAK // _AT_ONCE))
@pytest.mark.parametrize("kind", _KINDS)
def test_more_mutants(kind: str, part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, first, share = _KINDS[kind]
    count = int(_AT_ONCE * share)
    _hold(kind, range(first + part * count, first + (part + 1) * count), tmp_path, monkeypatch)


def _hold(kind: str, numbers: range, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Mutants:
    monkeypatch.chdir(folder)
    mutants = Mutants(_KINDS[kind][0](folder))
    assert next(mutants.failures(numbers), None) is None
    return mutants
