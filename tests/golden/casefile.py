"""Read and write the cases of golden files: comment, command, input, `----`, output, blank line.

An output with blank lines is enclosed in doubled marks:

    ----
    ----
    first

    second
    ----
    ----
"""

from __future__ import annotations

from dataclasses import dataclass

MARK = "----"


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a golden file; `above` holds the comments and blank lines before it, as written."""

    above: str
    command: str
    input: str
    output: str
    line: int


def read(text: str) -> tuple[tuple[Case, ...], str]:
    """Return the cases of a file, and the comments after the last case. Raise ValueError if a case has no mark."""
    lines = text.splitlines()
    cases: list[Case] = []
    at = 0
    while True:
        start = at
        while at < len(lines) and (not lines[at].strip() or lines[at].startswith("#")):
            at += 1
        above = "".join(line + "\n" for line in lines[start:at])
        if at == len(lines):
            return tuple(cases), above
        command = at
        if MARK not in lines[at:]:
            raise ValueError(f"line {command + 1}: the case has no {MARK}")
        at = lines.index(MARK, at)
        source = "\n".join(lines[command + 1 : at])
        output, at = _output(lines, at + 1)
        cases.append(Case(above, lines[command], source, output, command + 1))


def _output(lines: list[str], at: int) -> tuple[str, int]:
    """Return the output that begins at line `at`, and the index of the line after it."""
    end = at
    if at < len(lines) and lines[at] == MARK:
        while lines[end + 1 : end + 3] != [MARK, MARK]:
            end += 1
            if end > len(lines):
                raise ValueError(f"line {at}: the output has no closing marks")
        return "\n".join(lines[at + 1 : end + 1]), end + 3
    while end < len(lines) and lines[end].strip():
        end += 1
    return "\n".join(lines[at:end]), end


def write(cases: tuple[Case, ...], below: str) -> str:
    """Return the text of a file."""
    return "".join(case.above + _text(case) for case in cases) + below


def _text(case: Case) -> str:
    blank = any(not line.strip() for line in case.output.splitlines())
    output = [MARK, case.output, MARK, MARK] if blank else [case.output] if case.output else []
    return "".join(part + "\n" for part in (case.command, case.input, MARK, *output))
