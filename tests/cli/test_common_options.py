"""The options of sinkql itself, before and after a command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sinkql.cli.main import run_command
from sinkql.session import Session


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("command", [["status"], ["catalog", "verify"], ["secret", "list"]])
def test_they_may_stand_before_and_behind_the_command(
    command: list[str], behind: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "other.db"
    Session(file).execute("CREATE SECRET s AS env_var('X');")
    options = ["--catalog", str(file), "--output", "json"]
    assert run_command([*command, *options] if behind else [*options, *command]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (
        shown
        == {
            "status": [],
            "catalog": [{"file": str(file), "items": 1}],
            "secret": [{"secret": "s", "kept in": "env_var('X')"}],
        }[command[0]]
    )


def test_errors_are_json_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["explain", str(tmp_path / "none.sql"), "--output=json"]) == 4
    assert json.loads(capsys.readouterr().err)["error"]["code"] == "SQ4010"


def test_a_format_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["status", "--output", "xml"]) == 64
    assert "'xml' is not one of 'text', 'json'" in capsys.readouterr().err
