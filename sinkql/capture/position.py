"""The position of a sink in a log and on the server, and its position after each entry."""

from __future__ import annotations

from typing import Any

import msgspec

from sinkql import codec
from sinkql.capture import messages
from sinkql.capture.log import Entry, SnapshotGeneration, TableEntry
from sinkql.connector_api.cdc import Position
from sinkql.connector_api.stream import Offsets


class LogPosition(msgspec.Struct, frozen=True, omit_defaults=True):
    """The position of a sink: `done` once it has all chunks of its generation.

    The chunks may contain changes up to `high`. The sink has `chunks` of run `run` with `rows` rows, and began to read
    at entry `begin`.
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
        """Return the position as the message to the capture."""
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
        """Return the position as offsets."""
        offsets: Offsets = msgspec.to_builtins(self)
        return offsets

    @property
    def is_in_log(self) -> bool:
        """Return whether the sink has begun to read a log."""
        return bool(self.log)


class Target(msgspec.Struct, frozen=True):
    """The target of a run with `--once`: all changes up to a position, and a complete snapshot."""

    until: Position


def position_of(offsets: Offsets) -> LogPosition:
    """Decode offsets."""
    return codec.convert(offsets, LogPosition)


def position_after(position: LogPosition, entry: Entry, part: TableEntry | None, table: str) -> LogPosition:
    """Return the position after an entry, which has `part` for the sink."""
    high, generation = position.high, entry.generation
    if part is not None:
        high = max(high, part.high)
    following = msgspec.structs.replace(position, entry=entry.entry, to=max(position.to, entry.to), high=high)
    if entry.kind == "begin" and entry.table == table and position.generation is None and not position.done:
        assert generation is not None, "a begin entry names its generation"
        return msgspec.structs.replace(following, generation=generation.number, begin=entry.entry)
    if entry.kind == "chunk" and generation is not None and needs_chunk(position, generation):
        return msgspec.structs.replace(
            following,
            last=generation.last,
            chunks=generation.chunks,
            run=generation.run,
            done=generation.done,
            high=max(high, generation.high),
            rows=generation.rows,
        )
    return following


def needs_chunk(position: LogPosition, generation: SnapshotGeneration | None) -> bool:
    """Return whether a sink reads a chunk of its generation: it lacks no chunk before it."""
    if generation is None or generation.number != position.generation or position.done:
        return False
    return generation.can_follow(position.run, position.chunks)
