"""First snapshots: a table is read in chunks, each of which becomes an entry of the log, at its end.

While chunks are read nothing else goes into the log, so that each stands where all that is before it is visible to the
transaction that read it; a chunk whose transaction does not see all of that is read again. What comes after it in the
log may be in it already: applying it once more repeats the past up to `high`, and is right from there on.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import Any

import msgspec

from sinkql.capture import data_file
from sinkql.capture.buffer import Buffer
from sinkql.capture.control import PATIENT_TRIES, CaptureIntervals
from sinkql.capture.log import Column, DataFile, LogWriter, SnapshotGeneration, TableEntry
from sinkql.capture.metrics import SnapshotRate
from sinkql.connector_api.cdc import CapturedTable, Chunk, Key, Position, SchemaChanged, Snapshot, Stream
from sinkql.errors import TableError
from sinkql.storage import failpoint

_LOOK_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class _Read:
    """A chunk that was read: its files, which no entry names yet, the key of its last row, its `high`, what it saw.

    The table has about `of_rows`. Its rows have the columns of `reshaped`, or all.
    """

    files: tuple[DataFile, ...]
    last: Key | None
    high: Position
    snapshot: Snapshot
    of_rows: int = -1
    reshaped: SchemaChanged | None = None


@dataclass(frozen=True, slots=True)
class _Doubt:
    """Whether changes up to `high`, which a snapshot may have seen, follow the log's end; more than one may answer."""

    snapshot: Snapshot
    high: Position
    resolved: SimpleQueue[bool] = field(default_factory=SimpleQueue)


@dataclass(frozen=True, slots=True)
class UnreadableTable:
    """Why a table cannot be read: met by a try that began at `tried`, so many times since `failing`.

    It is tried again at `again`, of the monotonic clock.
    """

    error: TableError
    tried: float
    failing: float
    failures: int
    again: float

    @property
    def told(self) -> bool:
        """Tell whether it is worth telling."""
        return self.failures >= PATIENT_TRIES or not self.error.retryable


@dataclass(slots=True)
class SnapshotReader:
    """The generations of a source's tables; `reading` are those whose next chunk is being read now.

    `known` has all that a sink may still need, done or not.
    """

    log: LogWriter
    stream: Stream
    tables: Mapping[str, CapturedTable]
    pace: CaptureIntervals
    known: dict[int, SnapshotGeneration] = field(default_factory=dict)
    reading: dict[int, Future[_Read | None]] = field(default_factory=dict)
    chunked: dict[int, Position] = field(default_factory=dict)
    """Up to where chunks alone may have changes, of generations whose `high` is beyond that by now."""
    doubts: dict[int, _Doubt] = field(default_factory=dict)
    speed: SnapshotRate = field(default_factory=SnapshotRate)
    shapes: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """The columns that tables have by what was last written down of them."""
    unread: dict[str, UnreadableTable] = field(default_factory=dict)
    """The tables that cannot be read now, others being read."""
    _began: dict[int, float] = field(default_factory=dict)
    """When the reading of the next chunks began."""
    _giving_up: bool = False
    _pool: ThreadPoolExecutor | None = None

    @property
    def holding(self) -> bool:
        """Tell whether nothing else may go into the log."""
        return bool(self.reading)

    @property
    def high(self) -> Position:
        """Return up to where changes may be in chunks already; empty where no snapshot runs."""
        return max((each.high for each in self.known.values()), default="")

    def unfinished(self) -> list[SnapshotGeneration]:
        """Return the generations that are not done, in order."""
        return [self.known[number] for number in sorted(self.known) if not self.known[number].done]

    def of(self, table: str) -> SnapshotGeneration | None:
        """Return the last generation of a table."""
        return next((self.known[number] for number in sorted(self.known, reverse=True)
                     if self.known[number].table == table), None)  # fmt: skip

    def extend(self, table: str, high: Position) -> None:
        """Let changes up to a position be in what the snapshot of a table gave, though no chunk has them."""
        for number, each in self.known.items():
            if each.table == table and each.high < high:
                self.chunked.setdefault(number, each.high)
                self.known[number] = msgspec.structs.replace(each, high=high)

    def before_chunks(self, table: str) -> bool:
        """Tell whether changes that come next may be older than chunks of a table, read or still to be read."""
        known = [each for each in self.known.values() if each.table == table]
        return any(not each.done or self.log.to <= self.chunked.get(each.number, each.high) for each in known)

    def begin(self, table: str, least: int) -> None:
        """Begin a generation, with a number from `least` on."""
        number = max([least, *(each + 1 for each in self.known)])
        columns = self.tables[table].typed
        generation = SnapshotGeneration(number, table, self.log.next, run=uuid.uuid4().hex, columns=columns)
        self.log.add("begin", to=self.log.to, at=time.time(), table=table, generation=generation)
        self.known[number] = generation

    def start(self, ready: Callable[[SnapshotGeneration], bool], captured: Sequence[Any]) -> None:
        """Begin to read the next chunks of generations that are ready; nothing may be added to the log from here on.

        `captured` are the ids of transactions in the log that a snapshot may not see.
        """
        found = [each for each in self.unfinished() if self._due(each.table) and ready(each)]
        if not found:
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.pace.parallel, "sinkql-chunk")
        for each in found[: self.pace.parallel]:
            table = self.tables[each.table]
            self._began[each.number] = time.time()
            self.reading[each.number] = self._pool.submit(self._read, each, table, list(captured))

    def _due(self, table: str) -> bool:
        unread = self.unread.get(table)
        return table in self.tables and (unread is None or time.monotonic() >= unread.again)

    def retry(self, tables: Iterable[str]) -> None:
        """Have the next chunks of some tables be read now."""
        for table in tables:
            self.unread[table] = replace(self.unread[table], again=0.0)

    def _read(self, generation: SnapshotGeneration, table: CapturedTable, captured: Sequence[Any]) -> _Read | None:
        """Return a chunk whose transaction sees all that is in the log; None where none does for a while."""
        until = time.monotonic() + self.pace.hold_seconds
        after = tuple(generation.last) if generation.last is not None else None
        while True:
            with self.stream.chunk(table) as read:
                if read.snapshot.unseen(captured) is None:
                    of_rows = generation.of_rows if generation.of_rows >= 0 else read.count()
                    self.speed.expect(generation, of_rows)
                    chunk = read.read(after, self.pace.chunk_bytes)
                    if not table.key and not self._alone(generation.number, read.snapshot, chunk.high):
                        return None
                    files = self._written(generation, table, chunk)
                    rows = -1 if of_rows is None else of_rows
                    return _Read(files, chunk.last, chunk.high, read.snapshot, rows, chunk.reshaped)
            if time.monotonic() > until:
                return None
            time.sleep(_LOOK_SECONDS)

    def _written(self, generation: SnapshotGeneration, table: CapturedTable, chunk: Chunk) -> tuple[DataFile, ...]:
        store, epoch, files = self.log.place.store, self.log.epoch, []
        for parts in _grouped(chunk, self.pace.entry_bytes):
            file = data_file.write(store, table.id, epoch, parts)
            if file is not None:
                files.append(file)
                self.speed.read(generation, sum(each.rows for each in files))
        return tuple(files)

    def settle(self, received: Buffer) -> bool:
        """Put chunks into the log once all of them are read; tell whether any was, or could not be.

        What the reading raised is raised, but for what keeps one table alone from being read.
        Of what was received, rows of tables without a key are left out that a chunk has.
        """
        self._resolve(received)
        if not self.reading or not all(each.done() for each in self.reading.values()):
            return False
        chunks = {number: self._result(number) for number in self.reading}
        failpoint.point("chunk-read")
        self.reading.clear()
        for number, chunk in chunks.items():
            if isinstance(chunk, _Read):
                self._add(self.known[number], chunk)
                table = self.known[number].table
                if not self.tables[table].key and received.came.get(table, chunk.high) < chunk.high:
                    received.leave_out(table, chunk.snapshot)
        return any(chunk is not None for chunk in chunks.values())

    def _result(self, number: int) -> _Read | TableError | None:
        """Return a chunk, or why its table cannot be read."""
        table, tried = self.known[number].table, self._began.pop(number)
        try:
            found = self.reading[number].result()
        except TableError as error:
            before = self.unread.get(table)
            failures, failing = (before.failures + 1, before.failing) if before is not None else (1, tried)
            again = time.monotonic() + self.pace.wait(failures)
            self.unread[table] = UnreadableTable(error.with_traceback(None), tried, failing, failures, again)
            return error
        self.unread.pop(table, None)
        return found

    def _resolve(self, received: Buffer) -> None:
        """Tell the reading of tables without a key whether it may go on, once all that it may have seen is received."""
        for number, doubt in list(self.doubts.items()):
            table = self.known[number].table
            if doubt.high > received.to:
                self.stream.flush()
            else:
                doubt.resolved.put(
                    received.came.get(table, doubt.high) >= doubt.high or received.separable(table, doubt.snapshot)
                )

    def _alone(self, number: int, snapshot: Snapshot, high: Position) -> bool:
        """Tell whether a snapshot that was taken at `high` can follow the log's end: what follows it, it has not.

        A row of a table without a key that is in a chunk, and in a change that follows it, would be there twice. So
        nothing of the table may have changed in between, or it must be known by which transactions.
        """
        doubt = self.doubts[number] = _Doubt(snapshot, high)
        if self._giving_up:
            doubt.resolved.put(False)
        found = doubt.resolved.get()
        del self.doubts[number]
        return found

    def _give_up(self) -> None:
        self._giving_up = True
        for doubt in list(self.doubts.values()):
            doubt.resolved.put(False)

    def reshape(self, event: SchemaChanged) -> None:
        """Write down that a table has other columns from here on."""
        table = event.table
        self.log.add(
            "schema",
            to=self.log.to,
            at=time.time(),
            table=table.id,
            columns=tuple(Column(each.name, each.type, each.nullable) for each in table.columns),
            key=table.key,
            problem=event.problem,
            lost=event.lost,
        )
        self.shapes[table.id] = table.typed

    def _add(self, generation: SnapshotGeneration, chunk: _Read) -> None:
        """Put a chunk into the log; what its rows lack is told before it, though the stream has not come to that."""
        captured = self.tables[generation.table]
        shape = chunk.reshaped or SchemaChanged(captured)
        if shape.table.typed != self.shapes.get(generation.table, captured.typed):
            self.reshape(shape)
        table, last = generation.table, list(chunk.last) if chunk.last is not None else None
        after = msgspec.structs.replace(
            generation,
            last=last,
            chunks=generation.chunks + 1,
            done=last is None,
            high=max(generation.high, chunk.high),
            rows=generation.rows + sum(each.rows for each in chunk.files),
            of_rows=chunk.of_rows,
        )
        failpoint.point("chunk-written")
        self.log.add(
            "chunk",
            to=self.log.to,
            at=time.time(),
            table=table,
            generation=after,
            tables={table: TableEntry(chunk.files)},
        )
        self.known[generation.number] = after
        self.speed.settle(after)
        if after.number in self.chunked:
            self.chunked[after.number] = max(self.chunked[after.number], chunk.high)
        if after.done:
            self.stream.flush()

    def abandon(self) -> None:
        """Forget what is being read, once it is: it is read again later."""
        self._give_up()
        for number in self.reading:
            chunk = self._result(number)
            for file in chunk.files if isinstance(chunk, _Read) else ():
                self.log.place.store.remove(file.name)
        self.reading.clear()
        self._giving_up = False

    def close(self) -> None:
        """Wait for what is being read, and forget it."""
        self._give_up()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


def _grouped(chunk: Chunk, size: int) -> Iterator[list[Any]]:
    """Yield the parts of a chunk in groups of about so many bytes."""
    group: list[Any] = []
    bytes_ = 0
    for part in chunk.rows:
        group.append(part)
        bytes_ += part.rows.nbytes
        if bytes_ >= size:
            yield group
            group, bytes_ = [], 0
    if group:
        yield group
