"""Initial snapshots: a table is read in chunks, and each chunk becomes an entry at the log's end.

While chunks are read, no other entry is added to the log. So a chunk follows entries that are all visible to the
transaction that read it; a chunk whose transaction does not see all of them is read again. Later entries may repeat
changes that a chunk already contains. Applying them once more repeats the past up to the high watermark, and is correct
from there on (Netflix's DBLog algorithm).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from queue import SimpleQueue

import msgspec

from sinkql.capture import data_file, messages
from sinkql.capture.buffer import Buffer
from sinkql.capture.control import PATIENT_TRIES, CaptureIntervals
from sinkql.capture.log import Column, DataFile, LogWriter, SnapshotGeneration, TableEntry
from sinkql.capture.metrics import SnapshotRate
from sinkql.capture.retention import Retention
from sinkql.connector_api.cdc import CapturedTable, Chunk, Key, Position, SchemaChanged, Snapshot, Stream, TableRows
from sinkql.errors import TableError
from sinkql.machine import clock
from sinkql.machine.randomness import new_id
from sinkql.storage import failpoint

_POLL_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class _ChunkFiles:
    """A chunk in data files that no entry names yet, with the key of its last row and its high watermark.

    `snapshot` is what its transaction sees. The table has about `of_rows` rows. They have the columns of
    `reshaped`, or all.
    """

    files: tuple[DataFile, ...]
    last: Key | None
    high: Position
    snapshot: Snapshot
    of_rows: int = -1
    reshaped: SchemaChanged | None = None


@dataclass(frozen=True, slots=True)
class _Doubt:
    """The question whether a snapshot of a table without a key saw changes up to `high` that the log lacks.

    The first answer counts; there may be more.
    """

    snapshot: Snapshot
    high: Position
    answers: SimpleQueue[bool] = field(default_factory=SimpleQueue)


@dataclass(frozen=True, slots=True)
class UnreadableTable:
    """The error of a table that cannot be read, from an attempt that began at `tried`.

    It failed `failures` times since `failing`. The next attempt is at `retry_at` of the monotonic clock.
    """

    error: TableError
    tried: float
    failing: float
    failures: int
    retry_at: float

    @property
    def is_reportable(self) -> bool:
        """Return whether users should see the error: it is permanent, or a retry failed too."""
        return self.failures >= PATIENT_TRIES or not self.error.retryable


@dataclass(slots=True)
class TableSnapshotReader:
    """The threads that read chunks of a source's tables, and the generations that the chunks belong to.

    `generations` are all that a sink may still need, done or not, by number. `reading` are those whose next chunk is
    being read.
    """

    log: LogWriter
    stream: Stream
    tables: Mapping[str, CapturedTable]
    intervals: CaptureIntervals
    generations: dict[int, SnapshotGeneration] = field(default_factory=dict)
    reading: dict[int, Future[_ChunkFiles | None]] = field(default_factory=dict)
    chunk_highs: dict[int, Position] = field(default_factory=dict)
    """The high watermark of the chunks alone, for generations with a later `high`."""
    doubts: dict[int, _Doubt] = field(default_factory=dict)
    rate: SnapshotRate = field(default_factory=SnapshotRate)
    columns: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """The columns of tables by their last `schema` entry."""
    unreadable: dict[str, UnreadableTable] = field(default_factory=dict)
    """The tables that cannot be read now; the others are read."""
    _began: dict[int, float] = field(default_factory=dict)
    """When reading of the next chunks began."""
    _is_abandoning: bool = False
    _pool: ThreadPoolExecutor | None = None

    @property
    def is_holding(self) -> bool:
        """Return whether chunks are being read, so that nothing else may be added to the log."""
        return bool(self.reading)

    @property
    def high(self) -> Position:
        """Return the position up to which chunks may contain changes; empty without snapshots."""
        return max((generation.high for generation in self.generations.values()), default="")

    def unfinished(self) -> list[SnapshotGeneration]:
        """Return the generations that are not done, by number."""
        return [generation for _, generation in sorted(self.generations.items()) if not generation.done]

    def last_generation(self, table: str) -> SnapshotGeneration | None:
        """Return the last generation of a table."""
        numbers = sorted(self.generations, reverse=True)
        return next((self.generations[number] for number in numbers if self.generations[number].table == table), None)

    def extend(self, table: str, high: Position) -> None:
        """Raise the high watermark of a table's generations for changes that no chunk contains."""
        for number, generation in self.generations.items():
            if generation.table == table and generation.high < high:
                self.chunk_highs.setdefault(number, generation.high)
                self.generations[number] = msgspec.structs.replace(generation, high=high)

    def is_before_chunks(self, table: str) -> bool:
        """Return whether the next changes may be older than some chunk of a table."""
        return any(
            not generation.done or self.log.to <= self.chunk_highs.get(number, generation.high)
            for number, generation in self.generations.items()
            if generation.table == table
        )

    def begin(self, table: str, min_number: int) -> None:
        """Begin a generation of a table, with a number from `min_number` on."""
        number = max([min_number, *(number + 1 for number in self.generations)])
        columns = self.tables[table].typed
        generation = SnapshotGeneration(number, table, self.log.next_number, run=new_id(), columns=columns)
        self.log.add("begin", to=self.log.to, at=clock.time(), table=table, generation=generation)
        self.generations[number] = generation

    def start(self, is_ready: Callable[[SnapshotGeneration], bool], unseen: Sequence[object]) -> None:
        """Start to read the next chunks of ready generations.

        From here on, no other entry may be added to the log. `unseen` are the ids of transactions in the log that a
        snapshot may not see.
        """
        ready = [item for item in self.unfinished() if self._is_due(item.table) and is_ready(item)]
        if not ready:
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.intervals.parallel, "sinkql-chunk")
        for generation in ready[: self.intervals.parallel]:
            table = self.tables[generation.table]
            self._began[generation.number] = clock.time()
            self.reading[generation.number] = self._pool.submit(self._read, generation, table, list(unseen))

    def _is_due(self, table: str) -> bool:
        unreadable = self.unreadable.get(table)
        return table in self.tables and (unreadable is None or clock.monotonic() >= unreadable.retry_at)

    def retry(self, table: str) -> None:
        """Read the next chunk of an unreadable table without further waiting."""
        self.unreadable[table] = replace(self.unreadable[table], retry_at=0.0)

    def _read(
        self, generation: SnapshotGeneration, table: CapturedTable, unseen: Sequence[object]
    ) -> _ChunkFiles | None:
        """Read a chunk with a transaction that sees all of the log; return None if none does soon."""
        until = clock.monotonic() + self.intervals.hold_seconds
        after = tuple(generation.last) if generation.last is not None else None
        while True:
            with self.stream.chunk(table) as read:
                if read.snapshot.unseen(unseen) is None:
                    of_rows = generation.of_rows if generation.of_rows >= 0 else read.count()
                    self.rate.begin_chunk(generation, of_rows)
                    chunk = read.read(after, self.intervals.chunk_bytes)
                    if not table.key and not self._follows_log(generation.number, read.snapshot, chunk.high):
                        return None
                    files = self._write_files(generation, table, chunk)
                    rows = -1 if of_rows is None else of_rows
                    return _ChunkFiles(files, chunk.last, chunk.high, read.snapshot, rows, chunk.reshaped)
            if clock.monotonic() > until:
                return None
            clock.sleep(_POLL_SECONDS)

    def _write_files(self, generation: SnapshotGeneration, table: CapturedTable, chunk: Chunk) -> tuple[DataFile, ...]:
        store, epoch, files = self.log.directory.store, self.log.epoch, []
        for parts in _groups(chunk, self.intervals.entry_bytes):
            file = data_file.write(store, table.id, epoch, parts)
            if file is not None:
                files.append(file)
                self.rate.set_rows(generation, sum(file.rows for file in files))
        return tuple(files)

    def add_chunks(self, received: Buffer) -> bool:
        """Add chunks to the log once all of them are read; return whether any was added or failed.

        Raises the errors of reading, except a TableError, which concerns one table. Rows in `received` that a chunk of
        a table without a key contains are dropped.
        """
        self._answer_doubts(received)
        if not self.reading or not all(future.done() for future in self.reading.values()):
            return False
        chunks = {number: self._result(number) for number in self.reading}
        failpoint.point("chunk-read")
        self.reading.clear()
        for number, chunk in chunks.items():
            if isinstance(chunk, _ChunkFiles):
                self._add(self.generations[number], chunk)
                table = self.generations[number].table
                if not self.tables[table].key and received.changed_after.get(table, chunk.high) < chunk.high:
                    received.drop_visible(table, chunk.snapshot)
        return any(chunk is not None for chunk in chunks.values())

    def _result(self, number: int) -> _ChunkFiles | TableError | None:
        """Return a chunk, or the error of its table."""
        table, tried = self.generations[number].table, self._began.pop(number)
        try:
            chunk = self.reading[number].result()
        except TableError as error:
            last = self.unreadable.get(table)
            failures, failing = (last.failures + 1, last.failing) if last is not None else (1, tried)
            retry_at = clock.monotonic() + self.intervals.wait(failures)
            self.unreadable[table] = UnreadableTable(error.with_traceback(None), tried, failing, failures, retry_at)
            return error
        self.unreadable.pop(table, None)
        return chunk

    def _answer_doubts(self, received: Buffer) -> None:
        """Answer the threads that read tables without a key.

        An answer needs all changes that the thread's snapshot may contain.
        """
        for number, doubt in list(self.doubts.items()):
            table = self.generations[number].table
            if doubt.high > received.to:
                self.stream.flush()
            else:
                is_later = received.changed_after.get(table, doubt.high) >= doubt.high
                doubt.answers.put(is_later or received.can_separate(table, doubt.snapshot))

    def _follows_log(self, number: int, snapshot: Snapshot, high: Position) -> bool:
        """Return whether a snapshot read at `high` has no change after the log's end; wait for it.

        A row of a table without a key would be duplicated if both a chunk and a later change had it. So either nothing
        in the table changed in between, or the transactions of the changes are known.
        """
        doubt = self.doubts[number] = _Doubt(snapshot, high)
        if self._is_abandoning:
            doubt.answers.put(False)
        answer = doubt.answers.get()
        del self.doubts[number]
        return answer

    def _reject_doubts(self) -> None:
        self._is_abandoning = True
        for doubt in list(self.doubts.values()):
            doubt.answers.put(False)

    def change_schema(self, event: SchemaChanged) -> None:
        """Add an entry for the new columns of a table."""
        table = event.table
        self.log.add(
            "schema",
            to=self.log.to,
            at=clock.time(),
            table=table.id,
            columns=tuple(Column(column.name, str(column.type), column.nullable) for column in table.columns),
            key=table.key,
            problem=event.problem,
            lost=event.lost,
        )
        self.columns[table.id] = table.typed

    def _add(self, generation: SnapshotGeneration, chunk: _ChunkFiles) -> None:
        """Add a chunk to the log, after an entry for columns that are found missing.

        The stream reports these columns only later.
        """
        captured = self.tables[generation.table]
        schema = chunk.reshaped or SchemaChanged(captured)
        if schema.table.typed != self.columns.get(generation.table, captured.typed):
            self.change_schema(schema)
        table, last = generation.table, list(chunk.last) if chunk.last is not None else None
        extended = msgspec.structs.replace(
            generation,
            last=last,
            chunks=generation.chunks + 1,
            done=last is None,
            high=max(generation.high, chunk.high),
            rows=generation.rows + sum(file.rows for file in chunk.files),
            of_rows=chunk.of_rows,
        )
        failpoint.point("chunk-written")
        self.log.add(
            "chunk",
            to=self.log.to,
            at=clock.time(),
            table=table,
            generation=extended,
            tables={table: TableEntry(chunk.files)},
        )
        self.generations[generation.number] = extended
        self.rate.end_chunk(extended)
        if extended.number in self.chunk_highs:
            self.chunk_highs[extended.number] = max(self.chunk_highs[extended.number], chunk.high)
        if extended.done:
            self.stream.flush()

    def abandon(self) -> None:
        """Wait for the chunks that are being read, and discard them; they are read again later."""
        self._reject_doubts()
        for number in self.reading:
            chunk = self._result(number)
            for file in chunk.files if isinstance(chunk, _ChunkFiles) else ():
                self.log.directory.store.remove(file.name)
        self.reading.clear()
        self._is_abandoning = False

    def close(self) -> None:
        """Wait for the threads that read chunks, and end them."""
        self._reject_doubts()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


def _groups(chunk: Chunk, size: int) -> Iterator[list[TableRows]]:
    """Yield the parts of a chunk in groups of about `size` bytes."""
    group: list[TableRows] = []
    group_bytes = 0
    for part in chunk.rows:
        group.append(part)
        group_bytes += part.rows.nbytes
        if group_bytes >= size:
            yield group
            group, group_bytes = [], 0
    if group:
        yield group


@dataclass(slots=True)
class SnapshotScheduler:
    """The generations to begin and to read next, by the sinks' requests, and where sinks may join them.

    `mismatches` are the tables that the server does not send with their planned columns.
    """

    log: LogWriter
    stream: Stream
    tables: Mapping[str, CapturedTable]
    retention: Retention
    snapshots: TableSnapshotReader
    mismatches: dict[str, SchemaChanged] = field(default_factory=dict)
    _waiting: dict[str, float] = field(default_factory=dict)
    """Readers that request a mismatched table, with the time since when; the server was not checked since then."""

    def change_schema(self, event: SchemaChanged) -> None:
        """Record the new columns of a table, and add an entry for them."""
        if event.problem is None:
            self.mismatches.pop(event.table.id, None)
        else:
            self.mismatches[event.table.id] = event
        self.snapshots.change_schema(event)

    def begin_generations(self) -> None:
        """Begin the generations that sinks request and cannot join."""
        waiting: dict[str, float] = {}
        for reader, request in self.retention.positions.requests.items():
            captured = self.tables.get(request.table)
            if request.all or captured is None or not set(request.columns) <= set(captured.typed):
                continue
            if self.joinable_entry(request) is None:
                since = self._waiting.get(reader, clock.monotonic())
                if request.table in self.mismatches and not self.stream.looked_since(since):
                    waiting[reader] = since  # the user may have fixed the table just now
                    continue
                self._begin(request.table)
        self._waiting = waiting

    def _begin(self, table: str) -> None:
        positions = self.retention.positions.by_reader.values()
        numbers = [position.generation + 1 for position in positions if position.generation is not None]
        self.snapshots.begin(table, max(numbers, default=0))
        if table in self.mismatches:
            self.snapshots.change_schema(self.mismatches[table])

    def is_ready(self, generation: SnapshotGeneration) -> bool:
        """Return whether the log has reached all sinks of a generation, and its table can be read."""
        mismatch = self.mismatches.get(generation.table)
        if mismatch is not None and (mismatch.lost or not mismatch.table.columns):
            return False
        return all(position.to <= self.log.to for position in self.retention.positions.readers_of(generation))

    def joinable_entry(self, request: messages.SnapshotRequest) -> int | None:
        """Return the first entry of a table's last generation if a sink may join it, else None.

        If the server keeps the changes, it must still have all later ones, since a lost log begins again.
        """
        entries = self.log.entries
        first = entries[0].entry
        last = self.snapshots.last_generation(request.table) if request.table in self.tables else None
        if last is None or last.begin < first or not last.has_columns(request.columns):
            return None
        # the second entry of a mismatched table has the reason why its sinks wait
        begun = last.begin - first + (2 if request.table in self.mismatches else 1)
        if any(entry.is_barrier(request.table, request.columns) for entry in entries[begun:]):
            return None
        is_kept = self.retention.kept_by == "log" or entries[last.begin - first].start >= self.retention.confirmed
        return last.begin if is_kept else None

    def retry_unreadable(self) -> None:
        """Retry the unreadable tables for which a sink requested it since their last attempt."""
        for table, unreadable in list(self.snapshots.unreadable.items()):
            if messages.retry_requested(self.log.directory.messages, unreadable.tried):
                self.snapshots.retry(table)
