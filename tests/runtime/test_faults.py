"""Fault points do nothing unless rules and a file of the same text say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkql import faults
from support.fault import armed


@pytest.fixture(autouse=True)
def uncounted(monkeypatch: pytest.MonkeyPatch) -> None:
    faults._passes.clear()
    for name in (faults.RULES, faults.CONFIRMED_BY):
        monkeypatch.delenv(name, raising=False)


def test_one_variable_alone_arms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    both = armed("here=fail")
    for name, value in both.items():
        with monkeypatch.context() as alone:
            alone.setenv(name, value)
            faults.point("here")
    for name, value in both.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(faults.FaultError, match="here"):
        faults.point("here")


@pytest.mark.parametrize("said", [None, "", "other=fail", "here=fail\n"])
def test_a_file_that_does_not_repeat_the_rules_arms_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str | None
) -> None:
    path = tmp_path / "rules"
    if said is not None:
        path.write_text(said)
    monkeypatch.setenv(faults.RULES, "here=fail")
    monkeypatch.setenv(faults.CONFIRMED_BY, str(path))
    faults.point("here")


def test_rules_that_a_file_says_change_with_it_and_count_passes_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "rules"
    monkeypatch.setenv(faults.RULES, faults.CHANGING)
    faults.point("here")
    monkeypatch.setenv(faults.CONFIRMED_BY, str(path))
    faults.point("here")
    for rules in ("here#2=fail", "here#2=fail,once more="):
        path.write_text(rules)
        faults.point("here")
        with pytest.raises(faults.FaultError, match="here"):
            faults.point("here")
        faults.point("here")
    path.unlink()
    faults.point("here")
