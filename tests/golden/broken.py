"""The golden command `broken`: a script with a user's mistake → its error, and whether the error helps.

    broken FROM
    CREATE SINK s «FRM» orders INTO …;

The marks « » enclose the wrong text, or the place where something is missing. After the command comes a regular
expression that the hint, or the list of what the parser expected, must match. Both are written by a reader who knows
the intended script, not copied from the printed error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from sinkql.errors import SinkqlError, Span
from sinkql.session import Session

HERE = Path(__file__).parent / "broken"
_OPEN, _CLOSE = "«", "»"


@dataclass(frozen=True, slots=True)
class Broken:
    """A script without its marks, the span where the caret belongs, and a pattern for the hint."""

    text: str
    wrong: Span
    fix: str


def read(argument: str, written: str) -> Broken:
    """Return the case that a text with marks describes."""
    start, end = written.index(_OPEN), written.index(_CLOSE) - 1
    return Broken(written.replace(_OPEN, "").replace(_CLOSE, ""), Span(start, end), argument)


def prepared(folder: Path) -> Session:
    """Return a session whose catalog has the items that the scripts name."""
    session = Session(folder / "catalog.db")
    session.execute((HERE / "before.sql").read_text("utf-8"))
    return session


def run(session: Session, text: str) -> SinkqlError | None:
    """Return the error of a script; None if the script is correct."""
    made: list[str] = []
    try:
        for result in session.stream(text):
            made += [f"DROP {result.tag.removeprefix('CREATE ')} {name} CASCADE;" for name in result.names]
    except SinkqlError as error:
        return error
    finally:
        # drop the new items, so that the next script finds the same catalog
        session.execute("".join(reversed(made)))
    return None


def show(session: Session, argument: str, written: str) -> str:
    """Return a script's error as the user sees it."""
    error = run(session, read(argument, written).text)
    return error.shown() if error is not None else "nothing is wrong"


def on_place(case: Broken, error: SinkqlError | None) -> bool:
    """Return whether the carets lie under the wrong text, or at the place where something is missing."""
    if error is None or error.span is None:
        return False
    span, wrong = error.span, case.wrong
    if wrong.start == wrong.end:
        return span.start == wrong.start and span.end <= span.start + 1
    return wrong.start <= span.start and span.end <= wrong.end


def helps(case: Broken, error: SinkqlError | None) -> bool:
    """Return whether the hint names the fix, or the message lists the expected token."""
    if error is None:
        return False
    expected = error.message.partition(", found ")[0] if error.message.startswith("expected ") else ""
    return any(re.search(case.fix, each) is not None for each in (error.hint or "", expected))
