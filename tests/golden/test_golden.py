"""Every case of every golden file gives the output that stands there; `pytest --rewrite` writes it there."""

from __future__ import annotations

import difflib
from dataclasses import replace
from pathlib import Path

import pytest

from golden import casefile
from golden.casefile import Case
from golden.commands import COMMANDS, GoldenFile
from sinkql.errors import SinkqlError

HERE = Path(__file__).parent
FILES = sorted(HERE.rglob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HERE)))
def test_golden_file_gives_its_outputs(path: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    expected = path.read_text("utf-8")
    cases, below = casefile.read(expected)
    file = GoldenFile(path, tmp_path)
    actual = casefile.write(tuple(replace(case, output=output(file, case)) for case in cases), below)
    if request.config.getoption("--rewrite"):
        path.write_text(actual, "utf-8")
    elif expected != actual:
        diff = difflib.unified_diff(expected.splitlines(), actual.splitlines(), "expected", "actual", lineterm="")
        pytest.fail("\n".join(diff), pytrace=False)


def output(file: GoldenFile, case: Case) -> str:
    """Run a case; an error is shown as the user sees it."""
    word, _, argument = case.command.partition(" ")
    assert word in COMMANDS, f'{file.path.name}:{case.line}: there is no command "{word}"'
    try:
        output = COMMANDS[word](file, argument, case.input)
    except SinkqlError as error:
        output = error.within(path=None, text=case.input).shown()
    return "\n".join(line.rstrip() for line in output.splitlines())
