"""REPLAY ERRORS of a sink and a source, asked for and answered → two files in the sink's state folder.

What is asked for is there until it is done, so that a sink does it that is not running, or whose process dies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import msgspec

from sinkql import durable, typed
from sinkql.errors import SinkqlError, as_data, from_data


class Asked(msgspec.Struct, frozen=True):
    """What is asked for: the records of a source, by the name that its offsets are kept under."""

    source: str
    id: str


class Answer(msgspec.Struct, frozen=True):
    """How many records were put in, and how many are still kept; or the `error` for which that was given up."""

    id: str
    replayed: int = 0
    left: int = 0
    error: dict[str, object] | None = None

    def check(self) -> None:
        """Raise the error, if there was one."""
        if self.error is not None:
            raise from_data(self.error)


def ask(folder: Path, source: str) -> str:
    """Ask for the records of a source; return the id of that."""
    asked = Asked(source, uuid4().hex)
    folder.mkdir(parents=True, exist_ok=True)
    durable.write(_path(folder, source, "asked"), msgspec.json.encode(asked))
    return asked.id


def asked(folder: Path, sources: Sequence[str]) -> list[Asked]:
    """Return what is asked for and not done."""
    found = []
    for source in sources:
        try:
            found.append(typed.decoder(Asked).decode(_path(folder, source, "asked").read_bytes()))
        except (OSError, msgspec.MsgspecError):
            continue
    return found


def answer(folder: Path, asked: Asked, replayed: int, left: int, error: SinkqlError | None = None) -> None:
    """Say that it is done, or given up."""
    data = None if error is None else as_data(error)
    answered = Answer(asked.id, replayed, left, data)
    durable.write(_path(folder, asked.source, "answer"), msgspec.json.encode(answered))
    path = _path(folder, asked.source, "asked")
    try:
        if typed.decoder(Asked).decode(path.read_bytes()) == asked:  # else it was asked for again meanwhile
            path.unlink()
    except (OSError, msgspec.MsgspecError):
        return


def answered(folder: Path, source: str, id_: str) -> Answer | None:
    """Return the answer to what was asked for; None while there is none."""
    try:
        found = typed.decoder(Answer).decode(_path(folder, source, "answer").read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None
    return found if found.id == id_ else None


def _path(folder: Path, source: str, what: str) -> Path:
    return folder / f"replay-{hashlib.sha256(source.encode()).hexdigest()[:16]}-{what}.json"
