"""The golden command `session`: statements → what a session over a catalog of its file's own says of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from golden.planning import show_notice
from sinkql.errors import SinkqlError, render
from sinkql.session import Session
from sinkql.session.result import Result


def session(text: str, folder: Path) -> str:
    """Return each statement's tag, notices and rows, up to the first error; the catalog is kept in `folder`."""
    lines: list[str] = []
    opened = Session(folder / "catalog.db")
    try:
        for result in opened.stream(text):
            lines.extend(_lines(result, text))
    except SinkqlError as error:
        lines.append(render(error))
    finally:
        opened.close()
    return "\n".join(lines)


def _lines(result: Result, text: str) -> Iterator[str]:
    yield result.tag
    yield from (show_notice(notice, text) for notice in result.notices)
    for row in result.rows:
        yield "  " + " | ".join("" if value is None else str(value) for value in row)
