"""REPLAY ERRORS of a sink and a source, asked for and answered → two notes of the sink.

What is asked for is there until it is done, so that a sink does it that is not running, or whose process dies.

A loss that a sink reported of a source, and a user accepts → a note of the sink, for its reader.

It counts for the place alone at which the sink was, and is deleted once the sink has committed beyond. A reader tells
that place itself: the catalog may know an earlier one, where a process ended right after a commit.

A program that waits for a sink to have all that its sources have ↔ the process that runs the sink, by notes.

The notes of all sinks lie together, so that a process asks once for all of its sinks. A note is there until the sink
has what its sources had when the process saw the note; whoever waits takes its note back when it gives up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
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


class AcceptedLoss(msgspec.Struct, frozen=True):
    """What follows `start`, or wherever the sink is if that is empty, is given up as far as it is lost.

    `end` is where the sink goes on, None until it is known.
    """

    start: dict[str, Any]
    end: dict[str, Any] | None = None


def report_loss(notes: KeyValueStore, source: str, start: Mapping[str, Any]) -> None:
    """Take note of the place of a sink that has lost what follows."""
    notes.write(_skip_name(source, "lost"), msgspec.json.encode(dict(start)))


def accept_loss(notes: KeyValueStore, source: str, start: Mapping[str, Any]) -> None:
    """Take note that a user accepts what a sink lost of a source, by the name that its offsets are kept under.

    It is at `start` as far as the catalog knows.
    """
    lost = notes.read(_skip_name(source, "lost"))
    if lost is not None:  # else it was found in the midst of a batch
        with suppress(msgspec.MsgspecError):
            start = codec.decoder(dict[str, Any]).decode(lost)
    _write(notes, source, AcceptedLoss(dict(start)))


def accepted(notes: KeyValueStore, source: str, start: Mapping[str, Any]) -> AcceptedLoss | None:
    """Return what is accepted for a sink that is at `start`."""
    note = notes.read(_skip_name(source))
    if note is None:
        return None
    try:
        found = codec.decoder(AcceptedLoss).decode(note)
    except msgspec.MsgspecError:
        return None
    return found if found.start in ({}, start) else None


def settle(notes: KeyValueStore, source: str, found: AcceptedLoss, end: Mapping[str, Any]) -> None:
    """Take note where the sink goes on: there whenever it asks."""
    _write(notes, source, msgspec.structs.replace(found, end=dict(end)))


def forget(notes: KeyValueStore, source: str) -> None:
    """Delete what was reported and accepted: the sink is beyond."""
    notes.remove(_skip_name(source, "lost"), _skip_name(source))


def _write(notes: KeyValueStore, source: str, found: AcceptedLoss) -> None:
    notes.write(_skip_name(source), msgspec.json.encode(found))


def _skip_name(source: str, what: str = "skip") -> str:
    return f"{what}-{hashlib.sha256(source.encode()).hexdigest()[:16]}"


_OWNER = "waits"
_FOLDER = "asked"


def wait_store(open_notes: Callable[[str, Path], KeyValueStore], catalog: Path) -> KeyValueStore:
    """Return the notes of a catalog, whose folder is given."""
    return open_notes(_OWNER, catalog / _OWNER)


def request_wait(notes: KeyValueStore, sink_id: str) -> str:
    """Ask for a sink to have all that its sources have from now on; return the note's name."""
    name = f"{_FOLDER}/{sink_id}.{uuid4().hex}"
    notes.write(name, b"{}", sync=False)
    return name


def pending_waits(notes: KeyValueStore) -> dict[str, list[str]]:
    """Return the names of the notes that are there, by the sink's id."""
    found: dict[str, list[str]] = {}
    for name in notes.names(_FOLDER):
        found.setdefault(name.rpartition(".")[0], []).append(f"{_FOLDER}/{name}")
    return found


def is_wait_done(notes: KeyValueStore, name: str) -> bool:
    """Tell whether the sink has what it was asked for."""
    return notes.read(name) is None
