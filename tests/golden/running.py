"""The golden command `session`: run statements in a session over the golden file's own catalog."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from golden.planning import show_notice
from sinkql.errors import SinkqlError
from sinkql.session import Session
from sinkql.session.result import Result
from sinkql.shell.screen.value import value_text


def session(script: str, folder: Path) -> str:
    """Return each statement's tag unless it was skipped, notices and rows, up to the first error.

    The catalog is stored in `folder`.
    """
    lines: list[str] = []
    opened = Session(folder / "catalog.db")
    try:
        for result in opened.stream(script):
            lines.extend(_lines(result, script))
    except SinkqlError as error:
        lines.append(error.shown())
    finally:
        opened.close()
    return "\n".join(lines)


def _lines(result: Result, script: str) -> Iterator[str]:
    if not result.skipped:
        yield result.tag
    yield from (show_notice(notice, script) for notice in result.notices)
    for row in result.rows:
        yield "  " + " | ".join(value_text(value) for value in row)
