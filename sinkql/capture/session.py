"""One reading of a server: receive, keep in memory, publish, read chunks, confirm, until it is to end or fails."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from sinkql.capture import messages, recovery
from sinkql.capture.buffer import Buffer
from sinkql.capture.control import CaptureHost, CaptureIntervals, CaptureProgress, SubscribedSink
from sinkql.capture.log import LogWriter, SnapshotGeneration
from sinkql.capture.log_store import FencedLogError, LostLogError
from sinkql.capture.metrics import CaptureMetrics, as_progress
from sinkql.capture.recovery import lost_log_error, resumed
from sinkql.capture.retention import (
    LogQuota,
    SinkPositions,
    SinkRegistry,
    check_log_identity,
    needed_position,
    partial_entry,
    removable_count,
)
from sinkql.capture.snapshot import SnapshotReader
from sinkql.capture.unchanged_values import MissingKeys, keys_to_fetch, with_rows_at
from sinkql.connector_api.cdc import (
    CapturedTable,
    Event,
    LogRetention,
    Position,
    PositionAdvanced,
    RowsChanged,
    SchemaChanged,
    Stream,
    TableRows,
)
from sinkql.errors import SinkqlError, TableError, as_data
from sinkql.storage import failpoint
from sinkql.storage.key_value import KeyValueStore


@dataclass(slots=True)
class CaptureSession:
    """Capture a source over one stream. `tables` are those that sinks of the catalog read, by their ids."""

    log: LogWriter
    stream: Stream
    host: CaptureHost
    keeping: LogRetention
    pace: CaptureIntervals
    roll: SinkRegistry
    clients: Sequence[SubscribedSink]
    tables: dict[str, CapturedTable]
    era: messages.CaptureEpoch = messages.CaptureEpoch()
    buffer: Buffer = field(init=False)
    snapshots: SnapshotReader = field(init=False)
    marks: SinkPositions = field(init=False)
    figures: CaptureMetrics = field(init=False)
    room: LogQuota = field(init=False)
    recent: list[tuple[Position, Any]] = field(default_factory=list)
    visible: Position = ""
    confirmed: Position = ""
    kept: str = "server"
    wanted: Position = ""
    settled: bool = False
    """Whether it went through all that it does at least once."""
    lacking: MissingKeys = field(default_factory=MissingKeys)
    stops: list[Position] = field(default_factory=list)
    """Where sinks are beyond the log, in order: an entry ends at each, so that nothing comes to one again."""
    unsent: dict[str, SchemaChanged] = field(default_factory=dict)
    """The tables that the server does not send as they were planned, and why."""
    _wanted_at: dict[str, float] = field(default_factory=dict, init=False)
    """Since when sinks want one of those, and the server was not looked at since."""
    _created: Position = ""
    """Where the server said that a new log may begin."""
    _pushed: Position = ""
    """Up to where rows had been pushed when the log began; empty where none are."""
    _keeper: str = ""
    _joinable: set[str] = field(default_factory=set)
    """The sinks that were told where to join."""
    _looked_at: float = 0.0
    _confirmed_at: float = 0.0
    _published_at: float = 0.0
    _unconfirmed: int = 0
    _retained: int = 0
    _snapshots_said: dict[str, messages.Snapshot] = field(default_factory=dict)
    _bound: int | None = None

    @property
    def notes(self) -> KeyValueStore:
        """Return what sinks and captures tell each other."""
        return self.log.place.notes

    # --- beginning ---------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Check the server, fence older captures, and begin to receive where the log ends.

        Raises LostLogError where files are gone that sinks need, SinkqlError where the server has not what follows.
        """
        self.marks = self._marks()
        self.snapshots = SnapshotReader(self.log, self.stream, self.tables, self.pace)
        self.figures = CaptureMetrics(self.log, self.stream)
        self.room = LogQuota(self.log, self.keeping.max_log, self.pace.full_seconds)
        self.stream.check()
        check_log_identity(self.log, messages.status(self.notes), self.stream)
        self.kept = self.keeping.keep
        start = self.log.to if self.log.entries else self._start()
        if self.era.number and not self.log.entries:
            self.log.add("gap", start=start, to=start, at=time.time(), problem=self.era.why)
        self._keeper = recovery.require_local_log(self.log, self.stream, start)
        self._pushed = recovery.before(self.log, self.stream)
        recovery.check(self._pushed, self.marks.elsewhere(self.log.id))
        self._begin_era()
        self._recall()
        if self.keeping.keep == "log":  # it may have been the server before
            self.kept = "log"
        self._resume()
        self.stops = [each for each in self.marks.positions() if each > start]
        if not self._opened():
            self._open(start)
        self.log.sweep()
        self.buffer = Buffer(self.log.place.store, self.log.epoch, to=start)
        self._published_at = self._confirmed_at = time.monotonic()
        self.visible = next((each.start for each in self.log.entries if each.unseen), start)
        said = messages.status(self.notes)
        self.confirmed = min(said.confirmed, start) if said is not None else ""
        self._receive_after(start)

    def _start(self) -> Position:
        """Return where a log begins: with what the server keeps, for a sink may be further than anybody was told.

        A server that keeps nothing for its readers is read from where the least sink is, as long as it has that.
        """
        at = self.marks.positions()
        begin = self._created = self.stream.create()
        # what is pushed next would have positions that sinks are beyond
        end = recovery.end(self.stream)
        beyond = bool(at and end) and at[-1] > end
        if not at or (begin <= at[0] and not beyond):
            return begin
        if beyond or (self.kept == "log" and not self.stream.follows(at[0])):
            raise lost_log_error(at[0])
        return at[0]

    def _receive_after(self, start: Position) -> None:
        """Begin to receive what follows a position.

        Raises LostLogError where the log begins there since the server said so, which had not yet heard the last that
        the capture before confirmed to it: now it says another place.
        """
        try:
            self.stream.begin(start, list(self.tables.values()), list(self.stops))
        except SinkqlError as error:
            if error.of_loss and start == self._created and self.stream.create() != start:
                raise LostLogError(str(error)) from error
            raise

    def _begin_era(self) -> None:
        """Write down where the era begins, once the log has that: a log that is gone after it is lost."""
        if self.era.number and not self.era.begin:
            end = recovery.end(self.stream)
            end = min(end, self.era.end or end)
            self.era = msgspec.structs.replace(self.era, begin=self.log.entries[0].start, end=end)
            messages.begin_epoch(self.notes, self.era)
            self.marks = self._marks()

    def _marks(self) -> SinkPositions:
        return SinkPositions.read(self.notes, self.clients, self.era)

    def _resume(self) -> None:
        """Go on with generations of which sinks have some chunks from a log that was lost, or lack some of this one.

        Of one whose chunks all sinks have, changes that may be in them can be still to come.
        """
        known, sinks = self.snapshots.known, self.marks.readers(self.tables)
        for number, at in sinks.items():
            running = [each for each in at if not each.done]
            again = resumed(self.log, number, known.get(number), running) if running else None
            if again is not None:
                known[number] = again
                self.snapshots.chunked.pop(number, None)
            late = [each for each in at if each.done and each.to < each.high and each.log != self.log.id]
            if late:
                before = known.get(number) or SnapshotGeneration(
                    number, late[0].table, -1, done=True, run=uuid.uuid4().hex
                )
                high = max(before.high, *(each.high for each in late))
                if high > before.high:
                    known[number] = msgspec.structs.replace(before, high=high)
                    self.snapshots.chunked.pop(number, None)

    def _recall(self) -> None:
        """Find in the log how far generations are, and which of its transactions a snapshot may not see."""
        known = self.snapshots.known
        for entry in self.log.entries:
            if entry.kind == "open":
                known.clear()
                known.update({each.number: each for each in entry.generations})
                self.kept = entry.kept or self.kept
            elif entry.generation is not None:
                known[entry.generation.number] = entry.generation
            for table, part in entry.tables.items():
                self.snapshots.extend(table, part.high)
            self.recent += entry.unseen
        for number in [each.number for each in known.values() if each.table not in self.tables]:
            del known[number]  # its changes are not captured from here on
        self.snapshots.chunked.clear()  # which rows sinks lack is forgotten

    # --- the loop ----------------------------------------------------------------------------------------------------

    def run(self, stopping: threading.Event) -> None:
        """Capture until it is to stop, or sinks read other tables."""
        try:
            while not stopping.is_set():
                if time.monotonic() >= self._looked_at + self.pace.look_seconds and not self._look():
                    break
                self.step()
            self._tell_last()
            if not self.room.full:
                with suppress(SinkqlError):
                    recovery.drain(self.log, self.stream, self._take, self.publish)
        finally:
            self.snapshots.close()

    def step(self) -> None:
        """Do what is due, and wait a little for changes."""
        if self._full():
            time.sleep(self.pace.receive_seconds)
        else:
            for event in self.stream.receive(self.pace.receive_seconds):
                self._take(event)
        if self.snapshots.holding:
            if self._settle():
                self._say()
        elif self._due():
            self.publish()
        if not self.snapshots.holding:
            self._read_chunks()
        self._answer()
        waited = time.monotonic() >= self._confirmed_at + self.pace.confirm_seconds
        if waited or self._unconfirmed >= self.pace.confirm_bytes:
            self.confirm()

    def _full(self) -> bool:
        """Tell whether nothing more can be taken in now."""
        snapshots = self.snapshots
        if self.buffer.bytes >= self.pace.memory_bytes and snapshots.holding and not snapshots.doubts:
            return True
        return self.room.full and not self.buffer.open

    def _take(self, event: Event) -> None:
        match event:
            case RowsChanged():
                self._stop(event.to, opens=event.open)
                self.buffer.take(event, time.monotonic())
                if self.buffer.bytes >= self.pace.spill_bytes and not self.snapshots.holding:
                    self.buffer.spill()
            case PositionAdvanced():
                self._stop(event.to)
                self.buffer.move(event.to)
            case SchemaChanged():
                self._reshape(event)

    def _stop(self, to: Position, *, opens: bool = False) -> None:
        """End entries where sinks are that what comes goes past, up to `to`, or may go past as it `opens` more."""
        while self.stops and to > self.stops[0]:
            self.buffer.move(self.stops.pop(0))
            self.publish()
        if self.stops and opens:
            self.publish()

    def _reshape(self, event: SchemaChanged) -> None:
        """End the entry before a table has other columns."""
        self.snapshots.abandon()
        self.publish()
        if event.problem is None:
            self.unsent.pop(event.table.id, None)
        else:
            self.unsent[event.table.id] = event
        self.snapshots.reshape(event)

    def _due(self) -> bool:
        buffer, now = self.buffer, time.monotonic()
        if buffer.open or buffer.to <= self.log.to:
            return False
        if buffer.since is not None and (
            now >= buffer.since + self.pace.entry_after(self.clients)
            or buffer.bytes >= self.pace.entry_bytes
            or buffer.files
        ):
            return True
        # nothing that is captured came: some wait for the position itself
        return (
            self.log.to < max(self.wanted, self.snapshots.high) or now >= self._published_at + self.pace.quiet_seconds
        )

    def publish(self) -> None:
        """Put what came into the log, unless it ends in the middle of a transaction."""
        buffer = self.buffer
        if buffer.open or buffer.to <= self.log.to:
            return
        failpoint.point("publish")
        tables = buffer.parts(self.tables, self._complete)
        failpoint.point("publish-files")
        unseen = self._unseen(buffer.ends)
        self.log.add(
            "changes",
            to=buffer.to,
            at=time.time(),
            transactions=len(buffer.ends),
            unseen=tuple(unseen),
            tables=dict(tables),
        )
        self.recent += unseen
        if not self.recent:
            self.visible = self.log.to
        for table, part in tables.items():
            self.snapshots.extend(table, part.high)
        self._published_at = time.monotonic()
        self._unconfirmed += buffer.bytes
        self.buffer = Buffer(self.log.place.store, self.log.epoch, to=self.log.to)
        self._say()

    def _unseen(self, ends: Sequence[tuple[Position, Any]]) -> list[tuple[Position, Any]]:
        """Return the transactions from the first on that a snapshot does not see yet."""
        if not ends:
            return []
        first = self.stream.look().unseen([id_ for _, id_ in ends])
        return [] if first is None else list(ends[first:])

    def _complete(self, table: str, rows: TableRows, ids: Sequence[Any]) -> tuple[TableRows, Position | None]:
        """Fill holes from the server as long as chunks may have been read after the changes.

        Its values, and rows that it does not have any more, may be of later changes up to the position.
        """
        lacking = self.lacking.of(table, self.log.to)
        anything = self.snapshots.before_chunks(table)
        captured = self.tables[table]
        places = keys_to_fetch(captured, rows.rows, None if anything else lacking) if anything or lacking else []
        if not places:
            return rows, None
        try:
            found, end = self.stream.complete(captured, TableRows(rows.rows.take(pa.array(places))), ids)
        except TableError as error:
            detail = f" ({error.detail})" if error.detail else ""
            # its sinks stop before them
            self.snapshots.reshape(SchemaChanged(captured, f"{error.message}{detail}", lost=True))
            return rows, None
        if end is None:
            return rows, None
        self.stream.flush()  # nothing else might bring the log there
        self.lacking.note(captured, found.rows, end)
        return TableRows(with_rows_at(rows.rows, places, found.rows), rows.errors), end

    def _settle(self) -> bool:
        """Put chunks into the log that are read by now; tell whether there were any."""
        return self.snapshots.settle(self.buffer)

    # --- snapshots ---------------------------------------------------------------------------------------------------

    def _read_chunks(self) -> None:
        """Begin generations that sinks wait for, and read the next chunks of those that are not done."""
        self._resume()
        waiting: dict[str, float] = {}
        for reader, want in self.marks.wants.items():
            captured = self.tables.get(want.table)
            if want.all or captured is None or not set(want.columns) <= set(captured.typed):
                continue
            if self._join(want) is None:
                since = self._wanted_at.get(reader, time.monotonic())
                if want.table in self.unsent and not self.stream.looked_since(since):
                    waiting[reader] = since  # its user may just have put that right: it is not told of it again
                    continue
                used = [each.generation + 1 for each in self.marks.at.values() if each.generation is not None]
                self.snapshots.begin(want.table, max(used, default=0))
                if want.table in self.unsent:
                    self.snapshots.reshape(self.unsent[want.table])
        self._wanted_at = waiting
        if any(reader not in self._joinable for reader, want in self.marks.wants.items() if want.table in self.tables):
            self._say()
        if not self.snapshots.unfinished() or self.room.full:
            return
        self.publish()
        self.stops = [each for each in self.stops if each > self.log.to]
        if self.stops:
            return
        self.snapshots.start(self._ready, [id_ for _, id_ in self.recent])

    def _ready(self, generation: SnapshotGeneration) -> bool:
        """Tell whether the log has come to where all sinks of a generation are."""
        unsent = self.unsent.get(generation.table)
        if unsent is not None and (unsent.lost or not unsent.table.columns):
            return False
        return all(each.to <= self.log.to for each in self.marks.of(generation))

    def _join(self, want: messages.SnapshotRequest) -> int | None:
        """Return the entry where the last generation of a table begins that is in the log from there on, as wanted.

        What follows it is to be on the server too, where that is what keeps it: a log that is lost begins again.
        """
        entries = self.log.entries
        first, last = entries[0].entry, self.snapshots.of(want.table) if want.table in self.tables else None
        if last is None or last.begin < first or not last.has(want.columns):
            return None
        begun = last.begin - first + (2 if want.table in self.unsent else 1)  # the second tells its sinks why they wait
        if any(each.stops(want.table, want.columns) for each in entries[begun:]):
            return None
        there = self.kept == "log" or entries[last.begin - first].start >= self.confirmed
        return last.begin if there else None

    # --- what sinks and users are told -------------------------------------------------------------------------------

    def _look(self) -> bool:
        """Look at the catalog and at what sinks say; tell whether the tables still are the ones that are captured."""
        self._looked_at = time.monotonic()
        try:
            if not self.host.renew():
                raise FencedLogError
            self.clients = self.roll.current()
        except SinkqlError:
            return True  # a catalog that cannot be read now is asked again
        if {each.table.id: each.table for each in self.clients} != self.tables:
            return False
        damaged = messages.receive(self.notes, "damaged", messages.DamagedFileReport)
        if damaged is not None and damaged.log == self.log.id:
            raise LostLogError(damaged.file)
        if damaged is not None:  # a reader was late to tell: the log that has the file is no more
            self.notes.remove("damaged")
        unread = self.snapshots.unread
        self.snapshots.retry(
            [table for table, each in unread.items() if messages.retry_requested(self.notes, each.tried)]
        )
        self.marks = self._marks()
        return self._ends_where_sinks_are()

    def _ends_where_sinks_are(self) -> bool:
        """Tell whether an entry ends, or will end, at the place of each sink that has read another log.

        A sink may have committed what it had read of a log that is lost while this one began. Raises LostLogError
        where an entry has what such a sink has and what it has not, and it cannot take all of that.
        """
        others = self.marks.elsewhere(self.log.id)
        recovery.check(self._pushed, others)
        to = partial_entry(self.log.entries, others, self.tables)
        if to is not None:
            raise LostLogError(f"sinks are in the midst of an entry, at position {to}")
        return all(at.to <= self.log.to or at.to in self.stops for at in others)

    def _answer(self) -> None:
        """Tell whoever asks where the server's end is; the log then goes there at once."""
        asked_for = [
            each for each in messages.all_of(self.notes, "ask", messages.EndRequest) if each[1].table in self.tables
        ]
        if asked_for and self._pushed:  # a sink says where it is, and asks after that
            recovery.check(self._pushed, self._marks().elsewhere(self.log.id))
        for name, _ in asked_for:
            to = self.stream.end()
            self.wanted = max(self.wanted, to)
            last = self.log.entries[-1]
            self.notes.remove(f"ask/{name}")
            messages.send(
                self.notes, f"answer/{name}", messages.EndReply(to, self.log.id, last.entry, last.to, self.era.number)
            )

    def _say(self) -> None:
        """Say how far the log is, and where sinks may join."""
        joins = {reader: self._join(want) for reader, want in self.marks.wants.items()}
        joinable = {reader: entry for reader, entry in joins.items() if entry is not None}
        last = self.log.entries[-1].entry
        tables = {
            table: messages.CaptureError(as_data(each.error), each.tried, each.failing)
            for table, each in self.snapshots.unread.items()
            if each.told
        }
        where = (self.log.epoch, time.time(), self.log.id, last, self.confirmed)
        messages.send(
            self.notes,
            "word",
            messages.CaptureStatus(*where, joinable, self.log.place.where, self.room.trouble, tables),
        )
        self._joinable = set(joinable)

    # --- what may be forgotten ---------------------------------------------------------------------------------------

    def confirm(self) -> None:
        """Let the server forget what nobody needs from it any more, and the log what no sink needs."""
        self._confirmed_at, self._unconfirmed = time.monotonic(), 0
        self.marks = self._marks()
        self._see()
        self._spare()
        generations = list(self.snapshots.known.values())
        least = needed_position(self.log.entries, self.marks, generations)
        sinks = self.log.to if least is None else least
        position = min(self.log.to if self.kept == "log" else sinks, self.visible)
        if position > self.confirmed:
            failpoint.point("confirm")
            self.confirmed = position
            self._say()  # before the server forgets anything
        if self.confirmed:
            self.stream.confirm(self.confirmed)
        self._forget(min(self.confirmed, sinks), generations)
        news = self.room.measure(self.marks, self.clients)
        self._tell(sinks)
        if self.snapshots.unread or news:
            self._say()  # as long as that is so
        if not self.settled:
            self._say()  # which takes back the error that ended the one before
            self.notes.remove("skip")  # so there is nothing to skip
            self.settled = True

    def _see(self) -> None:
        """Find out up to where a snapshot sees all that is in the log."""
        first = self.stream.look().unseen([id_ for _, id_ in self.recent]) if self.recent else None
        if first is None:
            self.recent, self.visible = [], self.log.to
            return
        if first:
            self.visible = self.recent[first - 1][0]
        self.recent = self.recent[first:]

    def _spare(self) -> None:
        """Keep in the log what the server would have to keep for too long, until sinks have come far enough."""
        if self.keeping.keep == "log":
            return
        if self._bound is None:
            self._bound = self.keeping.max_retained or self.stream.most_retained()
        self._retained = self.stream.retained()
        least = needed_position(self.log.entries, self.marks, list(self.snapshots.known.values()))
        late = least is not None and least < self.confirmed
        if self.kept == "server" and self._retained > self._bound:
            self._keep("log")
        elif self.kept == "log" and not late and self._retained <= self._bound // 2:
            self._keep("server")

    def _keep(self, where: str) -> None:
        self.kept = where
        if self.snapshots.holding:
            return
        self._open()

    def _open(self, start: Position | None = None) -> None:
        """Write down what the entries before say; a log begins at `start`."""
        to = self.log.to if start is None else start
        self.log.add("open", start=to, to=to, at=time.time(), **self._known())

    def _known(self) -> dict[str, Any]:
        generations = tuple(self.snapshots.known.values())
        captured = tuple(sorted(self.tables))
        return {
            "captured": captured,
            "generations": generations,
            "kept": self.kept,
            "keeper": self._keeper,
            "pushed": self._pushed,
        }

    def _opened(self) -> bool:
        """Tell whether a try before, under the same lease, has written that down at the log's end, and come no further.

        Tries that fail as they begin would else add an entry each.
        """
        last = self.log.entries[-1] if self.log.entries else None
        if last is None or last.kind != "open" or last.epoch != self.log.epoch:
            return False
        return all(getattr(last, name) == value for name, value in self._known().items())

    def _forget(self, position: Position, generations: Sequence[SnapshotGeneration]) -> None:
        """Delete entries that no sink needs: after a while, or at once where the log is too large."""
        before = time.time() + 1 if self.room.full else time.time() - self.pace.kept_seconds
        count = removable_count(self.log.entries, position, self.marks, generations, before=before)
        if not count or self.snapshots.holding:
            return
        last = max(place for place, each in enumerate(self.log.entries) if each.kind == "open")
        if last < count:
            self._open()
        failpoint.point("forget")
        self.log.forget(count)
        self._say()

    def _tell(self, sinks: Position, *, last: bool = False) -> None:
        """Tell what the capture is doing, and say how far first snapshots are, where that has changed."""
        snapshots = self.snapshots.speed.all_of(self.snapshots.known.values())
        if snapshots != self._snapshots_said:
            messages.send(self.notes, "snapshots", messages.Snapshots(snapshots))
            self._snapshots_said = snapshots
        running = {each.table for each in self.snapshots.unfinished()}
        retained = self._retained if self.keeping.keep == "server" and not last else None
        came = self.log.to if self.buffer.holds else max(self.buffer.to, self.log.to)
        details = {
            "confirmed_to": self.confirmed,
            "sinks_to": sinks,
            "kept_by": self.kept,
            **self.figures.now(self.marks, came, retained, last=last),
        }
        if running:
            tables = {each: self.tables[each].name for each in running}
            details["snapshots"] = {".".join(tables[each]): as_progress(snapshots[each]) for each in sorted(running)}
        errors = {table: each.error for table, each in sorted(self.snapshots.unread.items()) if each.told}
        if errors:
            details["unread"] = {
                ".".join(self.tables[table].name): f"{error.code}: {error.message}" for table, error in errors.items()
            }
        error = self.room.error or next(iter(errors.values()), None)
        full = self.room.error is not None
        self.host.report(
            CaptureProgress("stalled" if full else "snapshotting" if running else "running", error, details, last=last)
        )

    def _tell_last(self) -> None:
        """Tell how far the sinks were at the end."""
        with suppress(SinkqlError):
            self.marks = self._marks()
            least = needed_position(self.log.entries, self.marks, list(self.snapshots.known.values()))
            self._tell(self.log.to if least is None else least, last=True)
