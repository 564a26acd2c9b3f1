"""A setting that does not exist is a notice and ends no script, wherever the script is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkql.errors import SinkqlError
from sinkql.program.lint import lint
from sinkql.session import Session

_STATEMENTS = ("SET zzz = 1", "SET SESSION zzz TO 'a', b", "RESET zzz", "ALTER SYSTEM SET zzz = on")


@pytest.mark.parametrize("statement", _STATEMENTS)
def test_an_unknown_setting_is_a_notice_and_changes_nothing(statement: str, tmp_path: Path) -> None:
    with Session(tmp_path / "catalog.db") as session:
        before = session.execute("SHOW ALL")[0].rows
        result, created = session.execute(f"{statement}; CREATE TABLE t (a int);")
        assert [notice.code for notice in result.notices] == ["SQ2637"]
        assert result.skipped
        assert created.tag == "CREATE TABLE"
        assert before == session.execute("SHOW ALL")[0].rows
        with pytest.raises(SinkqlError) as refused:
            session.execute("SHOW zzz")
        assert refused.value.code == "SQ2630"


@pytest.mark.parametrize("statement", _STATEMENTS)
def test_lint_says_what_running_would_say(statement: str) -> None:
    assert [finding.error.code for finding in lint(f"{statement}; CREATE TABLE t (a int);")] == ["SQ2637"]


@pytest.mark.parametrize("statement", ["SET clustr = x", "ALTER SYSTEM SET enable_iceberg_sinks = off"])
def test_a_misspelt_setting_is_an_error(statement: str, tmp_path: Path) -> None:
    with Session(tmp_path / "catalog.db") as session, pytest.raises(SinkqlError, match="does not exist") as refused:
        session.execute(statement)
    assert refused.value.code == "SQ2630"
    assert "Did you mean" in (refused.value.hint or "")
