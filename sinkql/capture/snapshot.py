"""First snapshots: a table is read in chunks, each of which becomes an entry of the log, at its end.

While chunks are read nothing else goes into the log, so that each stands where all that is before it is visible to the
transaction that read it; a chunk whose transaction does not see all of that is read again. What comes after it in the
log may be in it already: applying it once more repeats the past up to `high`, and is right from there on.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sinkql import faults
from sinkql.capture import datafile
from sinkql.capture.host import Pace
from sinkql.capture.log import DataFile, Generation, Log, Part, remove
from sinkql.extension.capture import CapturedTable, Chunk, Key, Position, Stream

_LOOK_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class _Read:
    """A chunk that was read: its files, which no entry names yet, the key of its last row, and its `high`."""

    files: tuple[DataFile, ...]
    last: Key | None
    high: Position


@dataclass(slots=True)
class Snapshots:
    """The generations of a source's tables; `reading` are those whose next chunk is being read now.

    `known` has all that a sink may still need, done or not.
    """

    log: Log
    stream: Stream
    tables: Mapping[str, CapturedTable]
    pace: Pace
    known: dict[int, Generation] = field(default_factory=dict)
    reading: dict[int, Future[_Read | None]] = field(default_factory=dict)
    _pool: ThreadPoolExecutor | None = None

    @property
    def holding(self) -> bool:
        """Tell whether nothing else may go into the log."""
        return bool(self.reading)

    @property
    def high(self) -> Position:
        """Return up to where changes may be in chunks already; empty where no snapshot runs."""
        return max((each.high for each in self.known.values()), default="")

    def unfinished(self) -> list[Generation]:
        """Return the generations that are not done, in order."""
        return [self.known[number] for number in sorted(self.known) if not self.known[number].done]

    def of(self, table: str) -> Generation | None:
        """Return the last generation of a table."""
        return next((self.known[number] for number in sorted(self.known, reverse=True)
                     if self.known[number].table == table), None)  # fmt: skip

    def begin(self, table: str, least: int) -> None:
        """Begin a generation, with a number from `least` on."""
        number = max([least, *(each + 1 for each in self.known)])
        generation = Generation(number, table, self.log.next, run=uuid.uuid4().hex)
        self.log.add("begin", to=self.log.to, at=time.time(), table=table, generation=generation)
        self.known[number] = generation

    def start(self, ready: Callable[[Generation], bool], captured: Sequence[Any]) -> None:
        """Begin to read the next chunks of generations that are ready; nothing may be added to the log from here on.

        `captured` are the ids of transactions in the log that a snapshot may not see.
        """
        found = [each for each in self.unfinished() if each.table in self.tables and ready(each)]
        if not found:
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.pace.parallel, "sinkql-chunk")
        for each in found[: self.pace.parallel]:
            table = self.tables[each.table]
            self.reading[each.number] = self._pool.submit(self._read, each, table, list(captured))

    def _read(self, generation: Generation, table: CapturedTable, captured: Sequence[Any]) -> _Read | None:
        """Return a chunk whose transaction sees all that is in the log; None where none does for a while."""
        until = time.monotonic() + self.pace.hold_seconds
        after = tuple(generation.last) if generation.last is not None else None
        while True:
            with self.stream.chunk(table) as read:
                if read.snapshot.unseen(captured) is None:
                    chunk = read.read(after, self.pace.chunk_bytes)
                    return _Read(self._written(table, chunk), chunk.last, chunk.high)
            if time.monotonic() > until:
                return None
            time.sleep(_LOOK_SECONDS)

    def _written(self, table: CapturedTable, chunk: Chunk) -> tuple[DataFile, ...]:
        folder, epoch = self.log.place.data, self.log.epoch
        files = [datafile.write(folder, table.id, epoch, parts) for parts in _grouped(chunk, self.pace.entry_bytes)]
        return tuple(each for each in files if each is not None)

    def settle(self, to: Position, came: Container[str]) -> bool:
        """Put chunks into the log once all of them are read; tell whether any was. Raises what the reading raised.

        What was received goes up to `to`, and has rows of the tables `came`. A row of a table without a key that is in
        a chunk and in what follows would be there twice: its chunk waits for all that it may have seen, and is read
        again where that is anything.
        """
        if not self.reading or not all(each.done() for each in self.reading.values()):
            return False
        chunks = {number: future.result() for number, future in self.reading.items()}
        keyless = {
            number: chunk
            for number, chunk in chunks.items()
            if chunk is not None and not self.tables[self.known[number].table].key
        }
        if any(chunk.high > to for chunk in keyless.values()):
            self.stream.flush()
            return False
        faults.point("chunk-read")
        self.reading.clear()
        added = False
        for number, chunk in chunks.items():
            table = self.known[number].table
            if chunk is not None and number in keyless and table in came:
                for file in chunk.files:
                    remove(self.log.place.data / file.name)
            elif chunk is not None:
                self._add(self.known[number], chunk)
                added = True
        return added

    def _add(self, generation: Generation, chunk: _Read) -> None:
        table, last = generation.table, list(chunk.last) if chunk.last is not None else None
        after = msgspec.structs.replace(
            generation,
            last=last,
            chunks=generation.chunks + 1,
            done=last is None,
            high=max(generation.high, chunk.high),
        )
        faults.point("chunk-written")
        self.log.add(
            "chunk",
            to=self.log.to,
            at=time.time(),
            table=table,
            generation=after,
            tables={table: Part(chunk.files)},
        )
        self.known[generation.number] = after
        if after.done:
            self.stream.flush()

    def abandon(self) -> None:
        """Forget what is being read, once it is: it is read again later."""
        for future in self.reading.values():
            chunk = future.result()
            for file in chunk.files if chunk is not None else ():
                remove(self.log.place.data / file.name)
        self.reading.clear()

    def close(self) -> None:
        """Wait for what is being read, and forget it."""
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
