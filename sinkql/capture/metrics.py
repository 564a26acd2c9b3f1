"""A log, its sinks' marks and the server → figures for users: what is kept, and how far behind the sinks are."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sinkql.capture import messages
from sinkql.capture.log import Entry, LogWriter
from sinkql.capture.retention import SinkPositions, may_need
from sinkql.connector_api.cdc import Position, Stream

_SECONDS = 5.0


@dataclass(slots=True)
class CaptureMetrics:
    """Ask the server now and then, and count."""

    log: LogWriter
    stream: Stream
    _asked_at: float = float("-inf")
    _known: Position = ""
    _retained: int = 0

    def now(self, marks: SinkPositions, came: Position, retained: int | None, *, last: bool) -> dict[str, Any]:
        """Return the figures; changes up to `came` were received, the server keeps `retained` bytes, if that is known.

        Offsets are numbers of `unit`: `offset_known` the server's end, `sinks` up to where each of them has all of its
        tables, by its id, `offset_committed` the least of those, None while one is nowhere yet. The server is asked
        each five seconds, and at the `last`.
        """
        if last or time.monotonic() >= self._asked_at + _SECONDS:
            self._asked_at, self._known = time.monotonic(), self.stream.known()
            self._retained = self.stream.retained() if retained is None else retained
        has: dict[str, Position] = {}
        for reader, at in marks.at.items():
            sink_id, position = messages.sink_of(reader), caught_up_position(at, self.log.entries, came)
            has[sink_id] = min(has.get(sink_id, position), position)
        numbers = {position: self.stream.number(position) for position in {*has.values()}}
        committed = None if marks.wants else min(numbers.values(), default=None)
        return {
            "captured_to": self.log.to,
            "log_bytes": self.log.size,
            "retained_bytes": self._retained if retained is None else retained,
            "unit": self.stream.unit,
            "offset_known": self.stream.number(max(self._known, came)),
            "offset_committed": committed,
            "sinks": {sink_id: numbers[position] for sink_id, position in has.items()},
        }


def caught_up_position(at: messages.ReaderPosition, entries: Sequence[Entry], came: Position) -> Position:
    """Return up to where a sink has all of its table: to the end of what `came`, where nothing of it follows.

    A sink that finds no row of its table commits only now and then.
    """
    for entry in reversed(entries):
        if not may_need(at, entry):
            break
        if at.table in entry.tables:
            return at.to
    return max(at.to, came) if at.done else at.to


def as_progress(snapshot: messages.Snapshot) -> dict[str, Any]:
    """Return how far a snapshot is, for users."""
    found = {
        "chunks": snapshot.chunks,
        "of_chunks": snapshot.of_chunks,
        "rows": snapshot.rows,
        "of_rows": snapshot.of_rows,
        "seconds_left": snapshot.seconds_left,
    }
    return {name: value for name, value in found.items() if value is not None}
