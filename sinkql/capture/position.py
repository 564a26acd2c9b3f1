"""How far a sink is: in a log, and on the server; the place after each entry of the log."""

from __future__ import annotations

from typing import Any

import msgspec

from sinkql import codec
from sinkql.capture import messages, recovery
from sinkql.capture.log import Entry, SnapshotGeneration, TableEntry
from sinkql.connector_api.cdc import Position
from sinkql.connector_api.stream import Offsets


class LogPosition(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a sink is: `done` once it has all chunks of its generation; changes up to `high` may be in them.

    `chunks` of run `run` it has, with `rows`; `begin` is the entry where it began to read.
    """

    log: str = ""
    entry: int = -1
    to: Position = ""
    generation: int | None = None
    last: list[Any] | None = None
    chunks: int = 0
    done: bool = False
    high: Position = ""
    begin: int = -1
    run: str = ""
    era: int = 0
    rows: int = 0

    def at(self, table: str) -> messages.ReaderPosition:
        """Return what tells the capture of it."""
        return messages.ReaderPosition(
            table,
            self.to,
            self.log,
            self.entry,
            self.generation,
            self.last,
            self.chunks,
            self.done,
            self.high,
            self.run,
            self.era,
            self.rows,
        )

    def offsets(self) -> Offsets:
        """Return it as offsets."""
        found: Offsets = msgspec.to_builtins(self)
        return found

    @property
    def began(self) -> bool:
        """Tell whether it is in a log."""
        return bool(self.log)


class Target(msgspec.Struct, frozen=True):
    """The target of a run that ends: all that had committed up to a position, in a whole snapshot."""

    until: Position


def position_of(offsets: Offsets) -> LogPosition:
    """Return the place that offsets say."""
    return codec.convert(offsets, LogPosition)


def position_after(place: LogPosition, entry: Entry, part: TableEntry | None, table: str) -> LogPosition:
    """Return the place after an entry that has `part` for a sink."""
    high, generation = place.high, entry.generation
    if part is not None:
        high = max(high, part.high)
    found = msgspec.structs.replace(place, entry=entry.entry, to=max(place.to, entry.to), high=high)
    if entry.kind == "begin" and entry.table == table and place.generation is None and not place.done:
        return msgspec.structs.replace(found, generation=_number(generation), begin=entry.entry)
    if entry.kind == "chunk" and generation is not None and takes_chunk(place, generation):
        return msgspec.structs.replace(
            found,
            last=generation.last,
            chunks=generation.chunks,
            run=generation.run,
            done=generation.done,
            high=max(high, generation.high),
            rows=generation.rows,
        )
    return found


def takes_chunk(place: LogPosition, generation: SnapshotGeneration | None) -> bool:
    """Tell whether a sink takes a chunk: of its generation, and none is between those that it has and this one."""
    if generation is None or generation.number != place.generation or place.done:
        return False
    return recovery.takes(place.run, place.chunks, generation)


def _number(generation: SnapshotGeneration | None) -> int:
    assert generation is not None, "a beginning says of what"
    return generation.number
