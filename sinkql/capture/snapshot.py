"""First snapshots: a table is read in chunks, each of which becomes an entry of the log, at its end.

While chunks are read nothing else goes into the log, so that each stands where all that is before it is visible to the
transaction that read it; a chunk whose transaction does not see all of that is read again. What comes after it in the
log may be in it already: applying it once more repeats the past up to `high`, and is right from there on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sinkql import faults
from sinkql.capture import datafile
from sinkql.capture.host import Pace
from sinkql.capture.log import Generation, Log, Part
from sinkql.extension.capture import CapturedTable, Chunk, Position, Stream

_LOOK_SECONDS = 0.005


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
    reading: dict[int, Future[Chunk | None]] = field(default_factory=dict)
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
        generation = Generation(number, table, self.log.next)
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

    def _read(self, generation: Generation, table: CapturedTable, captured: Sequence[Any]) -> Chunk | None:
        """Return a chunk whose transaction sees all that is in the log; None where none does for a while."""
        until = time.monotonic() + self.pace.hold_seconds
        after = tuple(generation.last) if generation.last is not None else None
        while True:
            with self.stream.chunk(table) as read:
                if read.snapshot.unseen(captured) is None:
                    return read.read(after, self.pace.chunk_bytes)
            if time.monotonic() > until:
                return None
            time.sleep(_LOOK_SECONDS)

    def settle(self) -> bool:
        """Put chunks into the log once all of them are read; tell whether any was. Raises what the reading raised."""
        if not self.reading or not all(each.done() for each in self.reading.values()):
            return False
        chunks = {number: future.result() for number, future in self.reading.items()}
        faults.point("chunk-read")
        for number, chunk in chunks.items():
            if chunk is not None:
                self._add(self.known[number], chunk)
        self.reading.clear()
        return any(chunk is not None for chunk in chunks.values())

    def _add(self, generation: Generation, chunk: Chunk) -> None:
        table = generation.table
        files = []
        for parts in _grouped(chunk, self.pace.entry_bytes):
            file = datafile.write(self.log.place.data, table, self.log.epoch, parts)
            if file is not None:
                files.append(file)
        last = list(chunk.last) if chunk.last is not None else None
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
            tables={table: Part(tuple(files))},
        )
        self.known[generation.number] = after
        if after.done:
            self.stream.flush()

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
