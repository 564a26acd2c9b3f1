"""FIGURES.md is what figures.toml and recorded.json give, and its commands exist."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench import figures
from bench.figure import Measured, declared, recorded

_FIGURES = declared()
_COMMANDS = list(dict.fromkeys(each.command for each in _FIGURES.values() if each.command))
_BENCH = Path(__file__).parents[2] / "bench"


def test_the_page_is_that_of_the_recorded_figures() -> None:
    page = (_BENCH / "FIGURES.md").read_text()
    assert page == figures.text(_FIGURES, recorded()), "run python -m bench.figures"
    assert page.count("\n") <= 150


def test_a_line_has_the_ratio_first_and_says_whether_the_goal_is_met() -> None:
    figure = replace(_FIGURES["debezium beside flink"], work="the same", wanted=100, wanted_ratio=2)
    names = {figure.name: figure}

    def row(measured: Measured | None) -> str:
        found = figures.text(names, {figure.name: measured} if measured else {})
        return next(each for each in found.splitlines() if "bench.debezium`" in each)

    assert row(Measured(200, 50, "2026-11-30")).startswith("| **4.00** | met | the same (`bench.debezium`) | 200 ")
    assert row(Measured(200, 150, "2026-11-30")).startswith("| **1.33** | missed | ")
    assert row(Measured(200, 150, "2026-11-30", "load 3")).endswith(" | 2026-11-30, load 3 |")
    assert row(None).startswith("|  | not measured | ")


@pytest.mark.parametrize("command", [*_COMMANDS, "bench.regress once --peers --record", "bench.figures"])
def test_a_command_is_a_benchmark_with_these_options(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, *options = shlex.split(command)
    monkeypatch.setattr(sys, "argv", [module, *options, "--help"])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(module).main()
    output = capsys.readouterr()
    assert ended.value.code == 0, output.err
    assert [each for each in options if each.startswith("--") and f" {each}" not in output.out] == []


def test_a_benchmark_reports_each_of_its_figures() -> None:
    silent = [
        each.name
        for each in _FIGURES.values()
        if each.command and not any(name.fullmatch(each.name) for name in _reported(each.command))
    ]
    assert silent == []


def _reported(command: str) -> list[re.Pattern[str]]:
    """Return the names that a benchmark reports; those with variable parts match all values of these."""
    module = ast.parse((_BENCH / f"{command.split()[0].removeprefix('bench.')}.py").read_text())
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call)]
    names = [call.args[0] for call in calls if isinstance(call.func, ast.Name) and call.func.id == "report"]
    parts = [name.values if isinstance(name, ast.JoinedStr) else [name] for name in names]
    return [
        re.compile("".join(re.escape(str(each.value)) if isinstance(each, ast.Constant) else ".+" for each in name))
        for name in parts
    ]
