"""A log, its sinks' marks and the server → figures for users: what is kept, and how far behind the sinks are.

How many rows of first snapshots were read, and when → how far they are, and when they will be whole.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sinkql.capture import messages
from sinkql.capture.log import Entry, LogWriter, SnapshotGeneration
from sinkql.capture.messages import Snapshot
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


_LEAST_SECONDS = 1.0
"""What was read in less time says nothing of the rest."""


@dataclass(slots=True)
class _Course:
    """One generation in one run: since when it is read, and how many rows of it were there before."""

    began_at: float
    before: int
    of_rows: int | None
    reading: int = 0
    """Rows of the chunk that is being read now."""


@dataclass(slots=True)
class SnapshotRate:
    """How fast generations are read, as long as the process runs; threads that read chunks tell of their rows."""

    _courses: dict[int, _Course] = field(default_factory=dict)

    def expect(self, generation: SnapshotGeneration, of_rows: int | None) -> None:
        """Take note that a chunk of a generation begins to be read."""
        course = self._courses.get(generation.number)
        if course is None:
            self._courses[generation.number] = _Course(time.monotonic(), generation.rows, of_rows)
        else:
            course.of_rows, course.reading = of_rows, 0

    def read(self, generation: SnapshotGeneration, rows: int) -> None:
        """Take note of how many rows of the present chunk were read."""
        self._courses[generation.number].reading = rows

    def settle(self, generation: SnapshotGeneration) -> None:
        """Take note that the present chunk is in the log."""
        self._courses[generation.number].reading = 0
        if generation.done:
            del self._courses[generation.number]

    def of(self, generation: SnapshotGeneration) -> Snapshot:
        """Return how far a generation is."""
        if generation.done:
            return Snapshot(generation.chunks, generation.rows, generation.rows, 0.0, done=True)
        course = self._courses.get(generation.number)
        if course is None:
            return Snapshot(generation.chunks, generation.rows, _known(generation.of_rows, generation.rows))
        rows = generation.rows + course.reading
        of_rows = _known(course.of_rows, rows)
        return Snapshot(generation.chunks, rows, of_rows, _left(course, rows, of_rows))

    def all_of(self, generations: Iterable[SnapshotGeneration]) -> dict[str, Snapshot]:
        """Return how far the last generation of each table is."""
        return {each.table: self.of(each) for each in sorted(generations, key=lambda each: each.number)}


def _known(of_rows: int | None, rows: int) -> int | None:
    """Return an estimate that what was read has not overtaken."""
    return None if of_rows is None or of_rows < 0 else max(of_rows, rows)


def _left(course: _Course, rows: int, of_rows: int | None) -> float | None:
    took, read = time.monotonic() - course.began_at, rows - course.before
    if of_rows is None or read <= 0 or took < _LEAST_SECONDS:
        return None
    return round(took / read * (of_rows - rows), 1)
