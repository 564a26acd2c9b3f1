"""REPLAY ERRORS of a sink and a source, asked for and answered → two notes of the sink.

What is asked for is there until it is done, so that a sink does it that is not running, or whose process dies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeVar
from uuid import uuid4

import msgspec

from sinkql import codec
from sinkql.errors import SinkqlError, as_data, from_data
from sinkql.storage.key_value import KeyValueStore

_Note = TypeVar("_Note", bound=msgspec.Struct)


class ReplayRequest(msgspec.Struct, frozen=True):
    """What is asked for: the records of a source, by the name that its offsets are kept under."""

    source: str
    id: str


class ReplayResult(msgspec.Struct, frozen=True):
    """How many records were put in, and how many are still kept; or the `error` for which that was given up."""

    id: str
    replayed: int = 0
    left: int = 0
    error: dict[str, object] | None = None

    def check(self) -> None:
        """Raise the error, if there was one."""
        if self.error is not None:
            raise from_data(self.error)


def request_replay(notes: KeyValueStore, source: str) -> str:
    """Ask for the records of a source; return the id of that."""
    asked = ReplayRequest(source, uuid4().hex)
    notes.write(_name(source, "asked"), msgspec.json.encode(asked))
    return asked.id


def pending_replay(notes: KeyValueStore, sources: Sequence[str]) -> list[ReplayRequest]:
    """Return what is asked for and not done."""
    found = (_read(notes, _name(source, "asked"), ReplayRequest) for source in sources)
    return [each for each in found if each is not None]


def finish_replay(
    notes: KeyValueStore, asked: ReplayRequest, replayed: int, left: int, error: SinkqlError | None = None
) -> None:
    """Say that it is done, or given up."""
    data = None if error is None else as_data(error)
    answered = ReplayResult(asked.id, replayed, left, data)
    notes.write(_name(asked.source, "answer"), msgspec.json.encode(answered))
    name = _name(asked.source, "asked")
    if _read(notes, name, ReplayRequest) == asked:  # else it was asked for again meanwhile
        notes.remove(name)


def replay_result(notes: KeyValueStore, source: str, id_: str) -> ReplayResult | None:
    """Return the answer to what was asked for; None while there is none."""
    found = _read(notes, _name(source, "answer"), ReplayResult)
    return found if found is not None and found.id == id_ else None


def _read(notes: KeyValueStore, name: str, type_: type[_Note]) -> _Note | None:
    note = notes.read(name)
    with suppress(msgspec.MsgspecError):
        return codec.decoder(type_).decode(note) if note is not None else None
    return None


def _name(source: str, what: str) -> str:
    return f"replay-{hashlib.sha256(source.encode()).hexdigest()[:16]}-{what}"
