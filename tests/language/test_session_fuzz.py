"""Random statements, correct and damaged, through whole sessions: parse, plan, SHOW, EXPLAIN, DML, SELECT, DROP."""

from __future__ import annotations

from pathlib import Path

import pytest

from language.session_fuzz import Fuzz

pytestmark = pytest.mark.long


@pytest.mark.parametrize("count", [750, pytest.param(10_000, marks=pytest.mark.soak)])
def test_a_statement_runs_or_gets_a_coded_error_within_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.chdir(tmp_path)
    fuzz = Fuzz(15, tmp_path)
    assert next(fuzz.failures(count), None) is None
    assert fuzz.outcomes["right"] > 0.05 * count
    assert len(fuzz.outcomes) > (80 if count > 1_000 else 45), fuzz.outcomes
