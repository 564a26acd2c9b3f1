"""The commands of golden files: a command word → the function that returns its output.

A command gets its golden file, the rest of its line, and the case's input. A SinkqlError that it raises becomes the
output, as the user sees it. A file is one catalog: later cases see what a command stores in `file.things`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from golden import broken, planning, running, syntax
from sinkql.session import Session

Command = Callable[["GoldenFile", str, str], str]


@dataclass
class GoldenFile:
    """State that the cases of one file share; commands write their files to `folder`."""

    path: Path
    folder: Path
    things: dict[str, object] = field(default_factory=dict)


def _broken(file: GoldenFile, argument: str, text: str) -> str:
    session = file.things.get("session")
    if session is None:
        session = file.things["session"] = broken.prepared(file.folder)
    assert isinstance(session, Session)
    return broken.show(session, argument, text)


COMMANDS: dict[str, Command] = {
    "exec": lambda file, argument, text: planning.execute(text, planning.catalog_of(file.things, argument)),
    "plan": lambda file, argument, text: planning.plan(text, planning.catalog_of(file.things)),
    "purify": lambda file, argument, text: planning.purify(text, planning.catalog_of(file.things)),
    "job": lambda file, argument, text: planning.job(text, planning.catalog_of(file.things)),
    "session": lambda file, argument, text: running.session(text, file.folder),
    "broken": _broken,
    "parse": lambda file, argument, text: syntax.parse(text),
    "print": lambda file, argument, text: syntax.print_sql(text, redacted=argument == "redacted"),
}
