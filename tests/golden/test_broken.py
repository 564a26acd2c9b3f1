"""Errors of scripts with users' mistakes have the caret under the mistake, and a hint with the fix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from golden import broken, casefile

_FILES = sorted(broken.HERE.glob("*.txt"))


def test_errors_of_broken_scripts_help(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    cases = 0
    astray, unhelpful = [], []
    session = broken.prepared(tmp_path)
    for path in _FILES:
        for found in casefile.read(path.read_text("utf-8"))[0]:
            case = broken.read(found.command.partition(" ")[2], found.input)
            error = broken.run(session, case.text)
            cases += 1
            where = f"{path.name}:{found.line}"
            astray += [] if broken.on_place(case, error) else [where]
            unhelpful += [] if broken.helps(case, error) else [where]
    on_place, helpful = 1 - len(astray) / cases, 1 - len(unhelpful) / cases
    record_property(
        "score", f"{cases} broken scripts: the caret is right in {on_place:.1%}, the hint has the fix in {helpful:.1%}"
    )
    print("caret elsewhere:", *astray, "\nno fix:", *unhelpful, sep="\n  ")
    assert cases >= 300
    assert on_place >= 0.97
    assert helpful >= 0.92


@pytest.mark.parametrize(("text", "place"), [("SELECT «1»", (7, 8)), ("a«»", (1, 1)), ("«'x»", (0, 2))])
def test_marks_are_where_the_caret_belongs(text: str, place: tuple[int, int]) -> None:
    case = broken.read("x", text)
    assert place == (case.wrong.start, case.wrong.end)
    assert "«" not in case.text
