"""Tests fail if one part of the algebra of changes, or of a rule of the planner, is wrong."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from mutants.mutant import Mutant, families, fates

_MUTANTS = [each for family in families().values() for each in family]
_MODULES = sorted({each.module for each in _MUTANTS})
_SAMPLE = [family[0] for family in families().values()][::3]


def _check(mutants: Iterable[Mutant]) -> None:
    found = [str(fate) for fate in fates(list(mutants)) if fate.kind != "killed"]
    assert not found, "\n".join(found)


def test_what_is_wrong_in_mutants_is_right_in_sinkql_once() -> None:
    for each in _MUTANTS:
        assert each.wrong != each.right
        each.text()
    assert len(set(map(str, _MUTANTS))) == len(_MUTANTS)


@pytest.mark.long
def test_some_mutants_are_killed() -> None:
    _check(_SAMPLE)


@pytest.mark.soak
@pytest.mark.parametrize("module", _MODULES)
def test_mutants_are_killed(module: str) -> None:
    _check(each for each in _MUTANTS if each.module == module)
