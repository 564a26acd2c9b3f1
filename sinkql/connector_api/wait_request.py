"""A program that waits for a sink to have all that its sources have ↔ the process that runs the sink, by notes.

The notes of all sinks lie together, so that a process asks once for all of its sinks. A note is there until the sink
has what its sources had when the process saw the note; whoever waits takes its note back when it gives up.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from sinkql.storage.key_value import KeyValueStore

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
