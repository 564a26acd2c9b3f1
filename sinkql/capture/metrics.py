"""A log, its sinks' positions and the server → metrics for users: kept bytes, and the sinks' offsets.

The rows that initial snapshots have read, and when → their progress and the time left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sinkql.capture import messages
from sinkql.capture.log import Entry, LogWriter, SnapshotGeneration
from sinkql.capture.messages import Snapshot
from sinkql.capture.retention import SinkPositions, may_need
from sinkql.connector_api.cdc import Position, Stream
from sinkql.machine import clock

_SECONDS = 5.0


@dataclass(slots=True)
class CaptureMetrics:
    """The metrics of a capture. The server is asked every few seconds only."""

    log: LogWriter
    stream: Stream
    _asked_at: float = float("-inf")
    _server_end: Position = ""
    _retained: int = 0

    def now(
        self, positions: SinkPositions, received_to: Position, retained: int | None, *, last: bool
    ) -> dict[str, Any]:
        """Return the metrics. All changes up to `received_to` are in the log.

        `retained` is what the server keeps in bytes, None to ask the server. Offsets count in `unit`: `offset_known` is
        the server's end. `sinks` has the offset up to which each sink has all of its tables, by id. `offset_committed`
        is the lowest of them, None while a sink waits for its snapshot. The server is asked every five seconds, and for
        the `last` metrics.
        """
        if last or clock.monotonic() >= self._asked_at + _SECONDS:
            self._asked_at, self._server_end = clock.monotonic(), self.stream.approximate_position()
            self._retained = self.stream.retained() if retained is None else retained
        sinks: dict[str, Position] = {}
        for reader, reader_position in positions.by_reader.items():
            sink_id = messages.sink_of(reader)
            position = caught_up_position(reader_position, self.log.entries, received_to)
            sinks[sink_id] = min(sinks.get(sink_id, position), position)
        numbers = {position: self.stream.number(position) for position in {*sinks.values()}}
        committed = None if positions.requests else min(numbers.values(), default=None)
        return {
            "captured_to": self.log.to,
            "log_bytes": self.log.size,
            "retained_bytes": self._retained if retained is None else retained,
            "unit": self.stream.unit,
            "offset_known": self.stream.number(max(self._server_end, received_to)),
            "offset_committed": committed,
            "sinks": {sink_id: numbers[position] for sink_id, position in sinks.items()},
        }


def caught_up_position(position: messages.ReaderPosition, entries: Sequence[Entry], received_to: Position) -> Position:
    """Return the position up to which a sink has all rows of its table.

    It is `received_to` if no later entry has rows of the table. A sink without new rows commits only now and then.
    """
    for entry in reversed(entries):
        if not may_need(position, entry):
            break
        if position.table in entry.tables:
            return position.to
    return max(position.to, received_to) if position.done else position.to


def as_progress(snapshot: messages.Snapshot) -> dict[str, Any]:
    """Return the progress of a snapshot as users see it, without unknown values."""
    values = {
        "chunks": snapshot.chunks,
        "of_chunks": snapshot.of_chunks,
        "rows": snapshot.rows,
        "of_rows": snapshot.of_rows,
        "seconds_left": snapshot.seconds_left,
    }
    return {name: value for name, value in values.items() if value is not None}


_MIN_SECONDS = 1.0
"""A rate measured over less time does not predict the rest."""


@dataclass(slots=True)
class _Run:
    """One run of a generation: when reading began, and the rows that were read before."""

    began_at: float
    rows_before: int
    of_rows: int | None
    chunk_rows: int = 0
    """Rows of the chunk that is being read."""


@dataclass(slots=True)
class SnapshotRate:
    """The speed of initial snapshots in this process. The threads that read chunks report their rows to it."""

    _runs: dict[int, _Run] = field(default_factory=dict)

    def begin_chunk(self, generation: SnapshotGeneration, of_rows: int | None) -> None:
        """Record the start of reading a chunk."""
        run = self._runs.get(generation.number)
        if run is None:
            self._runs[generation.number] = _Run(clock.monotonic(), generation.rows, of_rows)
        else:
            run.of_rows, run.chunk_rows = of_rows, 0

    def set_rows(self, generation: SnapshotGeneration, rows: int) -> None:
        """Record the number of rows read of the present chunk."""
        self._runs[generation.number].chunk_rows = rows

    def end_chunk(self, generation: SnapshotGeneration) -> None:
        """Record that the present chunk is in the log."""
        self._runs[generation.number].chunk_rows = 0
        if generation.done:
            del self._runs[generation.number]

    def progress(self, generation: SnapshotGeneration) -> Snapshot:
        """Return the progress of a generation."""
        if generation.done:
            return Snapshot(generation.chunks, generation.rows, generation.rows, 0.0, done=True)
        run = self._runs.get(generation.number)
        if run is None:
            return Snapshot(generation.chunks, generation.rows, _estimate(generation.of_rows, generation.rows))
        rows = generation.rows + run.chunk_rows
        of_rows = _estimate(run.of_rows, rows)
        return Snapshot(generation.chunks, rows, of_rows, _seconds_left(run, rows, of_rows))

    def progress_by_table(self, generations: Iterable[SnapshotGeneration]) -> dict[str, Snapshot]:
        """Return the progress of the last generation of each table."""
        by_number = sorted(generations, key=lambda generation: generation.number)
        return {generation.table: self.progress(generation) for generation in by_number}


def _estimate(of_rows: int | None, rows: int) -> int | None:
    """Return the estimated number of rows, at least `rows`; None without an estimate."""
    return None if of_rows is None or of_rows < 0 else max(of_rows, rows)


def _seconds_left(run: _Run, rows: int, of_rows: int | None) -> float | None:
    seconds, rows_read = clock.monotonic() - run.began_at, rows - run.rows_before
    if of_rows is None or rows_read <= 0 or seconds < _MIN_SECONDS:
        return None
    return round(seconds / rows_read * (of_rows - rows), 1)
