"""Each case of each golden file gives its stored output, and its hints lead to no error.

`pytest --rewrite` stores the new outputs.
"""

from __future__ import annotations

import difflib
from dataclasses import replace
from pathlib import Path

import pytest

from golden import casefile
from golden.casefile import Case
from golden.commands import COMMANDS, GoldenFile
from golden.hints import unhelpful
from sinkql.errors import SinkqlError

HERE = Path(__file__).parent
FILES = sorted(HERE.rglob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HERE)))
def test_golden_file_gives_its_outputs(path: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    expected = path.read_text("utf-8")
    cases, below = casefile.read(expected)
    file = GoldenFile(path, tmp_path)
    ran: list[Case] = []
    wrong: list[str] = []
    for case in cases:
        ran.append(replace(case, output=output(file, case)))
        wrong += unhelpful(file, ran[-1])
    actual = casefile.write(tuple(ran), below)
    if request.config.getoption("--rewrite"):
        path.write_text(actual, "utf-8")
    elif expected != actual:
        diff = difflib.unified_diff(expected.splitlines(), actual.splitlines(), "expected", "actual", lineterm="")
        pytest.fail("\n".join(diff), pytrace=False)
    assert not wrong, "\n\n".join(wrong)


def output(file: GoldenFile, case: Case) -> str:
    """Run a case; return its output, or its error as the user sees it."""
    word, _, argument = case.command.partition(" ")
    assert word in COMMANDS, f'{file.path.name}:{case.line}: unknown command "{word}"'
    try:
        output = COMMANDS[word](file, argument, case.input)
    except SinkqlError as error:
        output = error.within(path=None, text=case.input).shown()
    return "\n".join(line.rstrip() for line in output.splitlines())
