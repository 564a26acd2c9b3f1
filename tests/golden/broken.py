"""The golden command `broken`: a script as people get it wrong → its error, and whether that helps.

    broken FROM
    CREATE SINK s «FRM» orders INTO …;

The marks « » stand around the text that is wrong, or at the place where something is missing; behind the command stands
a regular expression for what the hint has to say, or the message to have expected. Both are written by a reader who
knows what was meant, not taken from what is printed.
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
    """Hold a script without its marks, where the caret belongs, and what the hint has to say."""

    text: str
    wrong: Span
    fix: str


def read(argument: str, written: str) -> Broken:
    """Return the case that is written with marks."""
    start, end = written.index(_OPEN), written.index(_CLOSE) - 1
    return Broken(written.replace(_OPEN, "").replace(_CLOSE, ""), Span(start, end), argument)


def prepared(folder: Path) -> Session:
    """Return a session in whose catalog there are items for the scripts to name."""
    session = Session(folder / "catalog.db")
    session.execute((HERE / "before.sql").read_text("utf-8"))
    return session


def run(session: Session, text: str) -> SinkqlError | None:
    """Return the error of a script; None if it is right after all."""
    made: list[str] = []
    try:
        for result in session.stream(text):
            made += [f"DROP {result.tag.removeprefix('CREATE ')} {name} CASCADE;" for name in result.names]
    except SinkqlError as error:
        return error
    finally:
        # the next script finds what was there before
        session.execute("".join(reversed(made)))
    return None


def show(session: Session, argument: str, written: str) -> str:
    """Return a script's error as the user sees it."""
    error = run(session, read(argument, written).text)
    return error.shown() if error is not None else "nothing is wrong"


def on_place(case: Broken, error: SinkqlError | None) -> bool:
    """Tell whether the carets lie under what is wrong, or at the place where something is missing."""
    if error is None or error.span is None:
        return False
    span, wrong = error.span, case.wrong
    if wrong.start == wrong.end:
        return span.start == wrong.start and span.end <= span.start + 1
    return wrong.start <= span.start and span.end <= wrong.end


def helps(case: Broken, error: SinkqlError | None) -> bool:
    """Tell whether the hint names the fix, or the message what was expected there."""
    if error is None:
        return False
    expected = error.message.partition(", found ")[0] if error.message.startswith("expected ") else ""
    return any(re.search(case.fix, each) is not None for each in (error.hint or "", expected))
