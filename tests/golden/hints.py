"""SQL in a case's hints parses; if a hint holds whole statements, they run and fix the error."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from golden import planning, running
from golden.casefile import Case
from golden.commands import GoldenFile
from sinkql.parser import parse
from support.keywords import WORDS

_SQL = re.compile(r"\b((?:ALTER|CREATE|DELETE|DROP|EXPLAIN|INSERT|OPTIMIZE|RESET|SELECT|SET|SHOW|UPDATE) [^;…]+);")
_TEXT = ("INSERT outside of the transaction",)
"""Text in hints that looks like SQL."""
_FORM, _BEFORE = "The form is ", "before it"


@dataclass(frozen=True, slots=True)
class _Hint:
    """A hint, and the whole statements in it."""

    text: str
    statements: tuple[str, ...]


def unhelpful(file: GoldenFile, case: Case) -> Iterator[str]:
    """Yield the hints of a case that lead to an error, each with the error. The case must have been run just before."""
    for hint in _hints(case):
        for statement in hint.statements:
            parse(statement, WORDS)
        if hint.text.startswith(_FORM) or case.command.split()[0] not in ("exec", "plan", "session"):
            continue
        text = "\n".join(hint.statements)
        there = _ran(file, case, text)
        if "error[" not in there and _BEFORE in hint.text:
            *_, last = parse(case.input, WORDS)
            there = _ran(file, case, f"{text}\n{case.input[last.span.start : last.span.end]};")
            if hint.text not in there:
                continue
        if "error[" in there:
            yield f"line {case.line}: {hint.text}\n{there}"


def _hints(case: Case) -> Iterator[_Hint]:
    for line in case.output.splitlines():
        found = tuple(f"{each};" for each in _SQL.findall(line) if each not in _TEXT)
        if line.startswith("hint: ") and found:
            yield _Hint(line.removeprefix("hint: "), found)


def _ran(file: GoldenFile, case: Case, text: str) -> str:
    """Run statements in a copy of the case's catalog; return their output."""
    if case.command != "session":
        return planning.execute(text, planning.catalog_of(file.things).copy())
    with TemporaryDirectory() as folder:
        shutil.copytree(file.folder, folder, dirs_exist_ok=True)
        return running.session(text, Path(folder))
