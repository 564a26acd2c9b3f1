"""Statements at random, right and damaged, through whole sessions: parse, plan, SHOW, EXPLAIN, DML, SELECT, DROP."""

from __future__ import annotations

from pathlib import Path

import pytest

from language.session_fuzz import Fuzz

pytestmark = pytest.mark.long

_COUNT = 10_000


def test_a_statement_runs_or_gets_a_coded_error_within_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fuzz = Fuzz(11, tmp_path)
    assert next(fuzz.failures(_COUNT), None) is None
    assert fuzz.outcomes["right"] > 0.05 * _COUNT
    assert len(fuzz.outcomes) > 80, fuzz.outcomes
