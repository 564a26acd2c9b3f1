"""Failpoints are inactive unless the rules and the text of a file agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkql.storage import failpoint
from support.fault import armed


@pytest.fixture(autouse=True)
def uncounted(monkeypatch: pytest.MonkeyPatch) -> None:
    failpoint._passes.clear()
    for name in (failpoint.RULES, failpoint.CONFIRMED_BY):
        monkeypatch.delenv(name, raising=False)


def test_one_variable_alone_arms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    both = armed("here=fail")
    for name, value in both.items():
        with monkeypatch.context() as alone:
            alone.setenv(name, value)
            failpoint.point("here")
    for name, value in both.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(failpoint.FaultError, match="here"):
        failpoint.point("here")


@pytest.mark.parametrize("said", [None, "", "other=fail", "here=fail\n"])
def test_a_file_that_does_not_repeat_the_rules_arms_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str | None
) -> None:
    path = tmp_path / "rules"
    if said is not None:
        path.write_text(said)
    monkeypatch.setenv(failpoint.RULES, "here=fail")
    monkeypatch.setenv(failpoint.CONFIRMED_BY, str(path))
    failpoint.point("here")


def test_rules_that_a_file_says_change_with_it_and_count_passes_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "rules"
    monkeypatch.setenv(failpoint.RULES, failpoint.CHANGING)
    failpoint.point("here")
    monkeypatch.setenv(failpoint.CONFIRMED_BY, str(path))
    failpoint.point("here")
    for rules in ("here#2=fail", "here#2=fail,once more="):
        path.write_text(rules)
        failpoint.point("here")
        with pytest.raises(failpoint.FaultError, match="here"):
            failpoint.point("here")
        failpoint.point("here")
    path.unlink()
    failpoint.point("here")
