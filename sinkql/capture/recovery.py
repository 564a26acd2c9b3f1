"""The log, the server and the sinks' positions → where a capture continues, so that each sink gets every change.

*Generations.* Chunks are counted within a *run*: only the server knows how it sorts keys, so sinks are compared by the
chunk numbers of one run, never by keys. Another run begins after a lost log, or if a sink reports its position late. It
starts after the fewest chunks that its sinks have of one run, or from the first chunk if they have different runs.

*Pushed rows* are kept on one machine until the log has them, so sometimes only that machine can continue the log. A log
ends with a `close` if its last capture wrote all rows to it. It ends with a `gap` if a user accepted the loss of the
rest. Then any machine continues it. Otherwise its last `open` names the store that may keep the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sinkql.capture import messages
from sinkql.capture.log import LogWriter, SnapshotGeneration
from sinkql.capture.log_store import LostLogError
from sinkql.capture.messages import ReaderPosition
from sinkql.capture.retention import Retention, partial_entry
from sinkql.capture.snapshot import TableSnapshotReader
from sinkql.connector_api.cdc import SKIP, CapturedTable, Event, Position, PushStream, Stream
from sinkql.errors import LostChangesError, SinkqlError
from sinkql.machine import clock
from sinkql.machine.randomness import new_id


@dataclass(slots=True)
class Recovery:
    """The start of a capture session in its log. `begin` comes first, then `begin_stream`.

    Rows had been pushed up to `pushed` when the log began; it is empty if no rows are pushed. `keeper` is the store
    that keeps pushed rows on this machine.
    """

    log: LogWriter
    stream: Stream
    tables: Mapping[str, CapturedTable]
    retention: Retention
    snapshots: TableSnapshotReader
    pushed: Position = field(default="", init=False)
    keeper: str = field(default="", init=False)
    _created: Position = field(default="", init=False)
    """The position at which the server allows a new log to begin."""

    def begin(self) -> Position:
        """Restore the generations and return the position where the log continues.

        Raises SQ3436 if only a lost log had changes that sinks need.
        """
        epoch = self.retention.epoch
        start = self.log.to if self.log.entries else self._new_start()
        if epoch.number and not self.log.entries:
            self.log.add("gap", start=start, to=start, at=clock.time(), problem=epoch.why)
        self.keeper = require_local_log(self.log, self.stream, start)
        self.pushed = _pushed_before(self.log, self.stream)
        self.check_pushed()
        self._begin_epoch()
        self._read_entries()
        if self.retention.options.keep == "log":  # earlier entries may say that the server keeps the changes
            self.retention.kept_by = "log"
        self.resume()
        return start

    def _new_start(self) -> Position:
        """Return where a new log begins: before the first change that the server keeps.

        If the server keeps nothing for its readers, the log begins at the earliest sink, if the server has its changes.
        """
        positions = self.retention.positions.sorted_positions()
        begin = self._created = self.stream.create()
        # later pushed rows would get positions that sinks have passed already
        end = _pushed_end(self.stream)
        is_ahead = bool(positions and end) and positions[-1] > end
        if not positions or (begin <= positions[0] and not is_ahead):
            return begin
        if is_ahead or (self.retention.kept_by == "log" and not self.stream.follows(positions[0])):
            raise lost_log_error(positions[0])
        return positions[0]

    def _begin_epoch(self) -> None:
        """Store the beginning of the capture epoch.

        The log exists before it, so a log that is missing later counts as lost.
        """
        epoch = self.retention.epoch
        if epoch.number and not epoch.begin:
            end = _pushed_end(self.stream)
            end = min(end, epoch.end or end)
            epoch = msgspec.structs.replace(epoch, begin=self.log.entries[0].start, end=end)
            self.retention.epoch = epoch
            messages.begin_epoch(self.log.directory.messages, epoch)
            self.retention.read_positions()

    def _read_entries(self) -> None:
        """Restore the generations from the log, and who keeps the changes."""
        generations = self.snapshots.generations
        for entry in self.log.entries:
            if entry.kind == "open":
                generations.clear()
                generations.update({generation.number: generation for generation in entry.generations})
                self.retention.kept_by = entry.kept or self.retention.kept_by
            elif entry.generation is not None:
                generations[entry.generation.number] = entry.generation
            for table, part in entry.tables.items():
                self.snapshots.extend(table, part.high)
        for generation in list(generations.values()):
            if generation.table not in self.tables:
                del generations[generation.number]  # its changes are not captured from here on
        self.snapshots.chunk_highs.clear()  # the rows that sinks lack are unknown now

    def resume(self) -> None:
        """Continue generations whose sinks read chunks of a lost log or lack chunks of this one.

        If all sinks have all chunks, changes that the chunks may contain can still follow.
        """
        snapshots, generations = self.snapshots, self.snapshots.generations
        for number, positions in self.retention.positions.by_generation(self.tables).items():
            running = [position for position in positions if not position.done]
            resumed = _resumed_generation(self.log, number, generations.get(number), running) if running else None
            if resumed is not None:
                generations[number] = resumed
                snapshots.chunk_highs.pop(number, None)
            late = [
                position
                for position in positions
                if position.done and position.to < position.high and position.log != self.log.id
            ]
            if late:
                generation = generations.get(number) or SnapshotGeneration(
                    number, late[0].table, -1, done=True, run=new_id()
                )
                high = max(generation.high, *(position.high for position in late))
                if high > generation.high:
                    generations[number] = msgspec.structs.replace(generation, high=high)
                    snapshots.chunk_highs.pop(number, None)

    def open_log(self, start: Position | None = None) -> None:
        """Add an `open` entry that sums up the entries before it; a new log begins at `start`."""
        to = self.log.to if start is None else start
        self.log.add("open", start=to, to=to, at=clock.time(), **self._summary())

    def is_opened(self) -> bool:
        """Return whether the same lease has already added the `open` entry, and nothing after it.

        Otherwise attempts that fail early would add an entry each.
        """
        last = self.log.entries[-1] if self.log.entries else None
        if last is None or last.kind != "open" or last.epoch != self.log.epoch:
            return False
        return all(getattr(last, name) == value for name, value in self._summary().items())

    def _summary(self) -> dict[str, Any]:
        return {
            "captured": tuple(sorted(self.tables)),
            "generations": tuple(self.snapshots.generations.values()),
            "kept": self.retention.kept_by,
            "keeper": self.keeper,
            "pushed": self.pushed,
        }

    def begin_stream(self, start: Position, stops: Sequence[Position]) -> None:
        """Start to receive the changes after a position.

        Raises LostLogError if the new log begins there and the server now names another position: it had not received
        the last confirmation of the capture before.
        """
        try:
            self.stream.begin(start, list(self.tables.values()), list(stops))
        except SinkqlError as error:
            if error.of_loss and start == self._created and self.stream.create() != start:
                raise LostLogError(str(error)) from error
            raise

    def check_pushed(self) -> None:
        """Raise SQ3436 if a sink read more of a lost log than had been pushed when this log began.

        The capture did not know of the sink then: later pushed rows got positions that the sink has passed.
        """
        passed = [position.to for position in self.retention.positions.in_other_logs(self.log.id)]
        passed = [position for position in passed if position > self.pushed]
        if self.pushed and passed:
            error = lost_log_error(min(passed))
            error.pushed = self.pushed
            raise error

    def is_aligned_with_sinks(self, stops: Sequence[Position]) -> bool:
        """Return whether an entry ends, or will end, at each sink that read another log.

        Such a sink may have committed changes of the lost log while this one began. Raises LostLogError if its position
        is inside an entry that it cannot read as a whole.
        """
        self.check_pushed()
        positions = self.retention.positions.in_other_logs(self.log.id)
        to = partial_entry(self.log.entries, positions, self.tables)
        if to is not None:
            raise LostLogError(f"sinks are inside an entry, at position {to}")
        return all(position.to <= self.log.to or position.to in stops for position in positions)


def _resumed_generation(
    log: LogWriter, number: int, generation: SnapshotGeneration | None, positions: Sequence[ReaderPosition]
) -> SnapshotGeneration | None:
    """Return the generation in another run if sinks lack chunks of it, else None.

    `generation` is the one of the log, if it has one.
    """
    if generation is not None and all(_gets_all_chunks(log, generation, position) for position in positions):
        return None
    least = min(positions, key=lambda position: position.chunks)
    is_one_run = all(position.run == least.run for position in positions)
    return SnapshotGeneration(
        number,
        least.table,
        generation.begin if generation is not None else -1,
        least.last if is_one_run else None,
        least.chunks if is_one_run else 0,
        high=max(log.to, generation.high if generation is not None else ""),
        base=least.chunks if is_one_run else 0,
        run=new_id(),
        after=least.run if is_one_run else "",
        columns=generation.columns if generation is not None else (),
        rows=least.rows if is_one_run else 0,
        of_rows=generation.of_rows if generation is not None else -1,
    )


def _gets_all_chunks(log: LogWriter, generation: SnapshotGeneration, position: ReaderPosition) -> bool:
    """Return whether a sink has read, or will read, all chunks of a generation from the log."""
    if position.run == generation.run:
        return True
    entries = (entry for entry in log.entries if entry.generation and entry.generation.run == generation.run)
    first = next((entry for entry in entries if entry.kind == "chunk"), None)
    if first is None or first.generation is None:
        next_chunk = msgspec.structs.replace(generation, chunks=generation.chunks + 1)
        return not generation.done and next_chunk.can_follow(position.run, position.chunks)
    if not first.generation.can_follow(position.run, position.chunks):
        return False
    return position.entry < first.entry if position.log == log.id else position.to <= first.start


def require_local_log(log: LogWriter, stream: Stream, start: Position) -> str:
    """Keep pushed rows after the log's end on this machine; return the id of their store.

    The id is empty if no rows are pushed. Raises the stream's error if another store may keep rows that the log lacks.
    """
    if not isinstance(stream, PushStream):
        return ""
    if log.entries:
        is_complete = log.entries[-1].kind in ("close", "gap")
        keeper = next((entry.keeper for entry in reversed(log.entries) if entry.kind == "open"), "")
        stream.follow(start, None if is_complete else keeper)
    return stream.keeper()


def _pushed_end(stream: Stream) -> Position:
    """Return the position up to which rows were pushed; empty if no rows are pushed."""
    return stream.end() if isinstance(stream, PushStream) else ""


def _pushed_before(log: LogWriter, stream: Stream) -> Position:
    """Return the position up to which rows had been pushed when the log began; empty if unknown."""
    last = next((entry for entry in reversed(log.entries) if entry.kind == "open"), None)
    return last.pushed if last is not None else _pushed_end(stream)


def drain(log: LogWriter, stream: Stream, receive: Callable[[Event], None], publish: Callable[[], None]) -> None:
    """Stop accepting pushed rows, write all accepted ones to the log, and close the log."""
    if not isinstance(stream, PushStream):
        return
    stream.shut()
    while events := stream.receive(0.0):
        for event in events:
            receive(event)
    publish()
    if log.to == stream.end():
        log.add("close", to=log.to, at=clock.time())


def lost_log_error(position: Position) -> LostChangesError:
    """Return the error for a lost log that alone had the changes after a sink's position."""
    return LostChangesError(
        "SQ3436",
        "the log of the source is lost and the server no longer has its changes",
        detail=f"Sinks are at position {position} and later positions.",
        hint=SKIP,
    )
