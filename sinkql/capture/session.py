"""One reading of a server: receive, keep in memory, publish, read chunks, confirm, until it is to end or fails."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from sinkql import faults
from sinkql.capture import mark
from sinkql.capture.buffer import Buffer
from sinkql.capture.confirm import Marks, forgettable, needed
from sinkql.capture.host import Client, Doing, Host, Pace
from sinkql.capture.log import Column, FencedLogError, Generation, Log
from sinkql.capture.resume import resumed
from sinkql.capture.snapshot import Snapshots
from sinkql.errors import SinkqlError
from sinkql.extension.capture import (
    CapturedTable,
    Changed,
    Event,
    Keeping,
    Moved,
    Position,
    Reshaped,
    Stream,
    TableRows,
)


class LostLogError(Exception):
    """The log cannot be used any more; with KEEP = 'server' it begins again."""


@dataclass(slots=True)
class Session:
    """Capture a source over one stream. `tables` are those that sinks of the catalog read, by their ids."""

    log: Log
    stream: Stream
    host: Host
    keeping: Keeping
    pace: Pace
    clients: Sequence[Client]
    tables: dict[str, CapturedTable]
    buffer: Buffer = field(init=False)
    snapshots: Snapshots = field(init=False)
    marks: Marks = field(init=False)
    recent: list[tuple[Position, Any]] = field(default_factory=list)
    visible: Position = ""
    confirmed: Position = ""
    kept: str = "server"
    wanted: Position = ""
    settled: bool = False
    """Whether it went through all that it does at least once."""
    stops: list[Position] = field(default_factory=list)
    """Where sinks are beyond the log, in order: an entry ends at each, so that nothing comes to one again."""
    _joinable: dict[str, int] = field(default_factory=dict)
    _looked_at: float = 0.0
    _confirmed_at: float = 0.0
    _published_at: float = 0.0
    _retained: int = 0
    _bound: int | None = None

    @property
    def folder(self) -> Path:
        """Return the folder of all that is kept of the source."""
        return self.log.place.folder

    # --- beginning ---------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Check the server, fence older captures, and begin to receive where the log ends.

        Raises LostLogError where files are gone that sinks need, SinkqlError where the server has not what follows.
        """
        self.marks = Marks.read(self.folder, self.clients)
        self.snapshots = Snapshots(self.log, self.stream, self.tables, self.pace)
        self.stream.check()
        self.kept = self.keeping.keep
        start = self.log.to if self.log.entries else self._start()
        self._recall()
        self._resume()
        self.stops = [each for each in self.marks.positions() if each > start]
        self.log.add(
            "open",
            start=start,
            to=start,
            at=time.time(),
            captured=tuple(sorted(self.tables)),
            generations=tuple(self.snapshots.known.values()),
            kept=self.kept,
        )
        self.log.sweep()
        self.buffer = Buffer(self.log.place.data, self.log.epoch, to=start)
        self._published_at = self._confirmed_at = time.monotonic()
        self.visible = next((each.start for each in self.log.entries if each.unseen), start)
        self.confirmed = ""
        self.stream.begin(start, list(self.tables.values()), list(self.stops))

    def _start(self) -> Position:
        """Return where a log begins: with what the server keeps, for a sink may be further than anybody was told.

        A server that keeps nothing for its readers is read from where the least sink is.
        """
        at = self.marks.positions()
        if not at:
            return self.stream.create()
        if self.kept == "log":
            raise SinkqlError(
                "SQ3436",
                "the log of the source is lost, and the server no longer has what it had",
                detail=f"sinks are at position {at[0]} and later ones",
                hint="Drop the source's sinks and create them again, into new tables.",
            )
        return min(at[0], self.stream.create())

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
            late = [each for each in at if each.done and each.to < each.high and each.log != self.log.id]
            if late:
                before = known.get(number) or Generation(number, late[0].table, -1, done=True, run=uuid.uuid4().hex)
                high = max(before.high, *(each.high for each in late))
                known[number] = msgspec.structs.replace(before, high=high)

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
            self.recent += entry.unseen
        for number in [each.number for each in known.values() if each.table not in self.tables]:
            del known[number]  # its changes are not captured from here on

    # --- the loop ----------------------------------------------------------------------------------------------------

    def run(self, stopping: threading.Event) -> None:
        """Capture until it is to stop, or sinks read other tables."""
        try:
            while not stopping.is_set():
                if time.monotonic() >= self._looked_at + self.pace.look_seconds and not self._look():
                    return
                self.step()
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
        if time.monotonic() >= self._confirmed_at + self.pace.confirm_seconds:
            self.confirm()

    def _full(self) -> bool:
        """Tell whether nothing more can be taken in now."""
        if self.buffer.bytes >= self.pace.memory_bytes and self.snapshots.holding:
            return True
        return self.log.size > self.keeping.max_log and not self.buffer.open

    def _take(self, event: Event) -> None:
        match event:
            case Changed():
                self._stop(event.to, opens=event.open)
                self.buffer.take(event, time.monotonic())
                if self.buffer.bytes >= self.pace.spill_bytes and not self.snapshots.holding:
                    self.buffer.spill()
            case Moved():
                self._stop(event.to)
                self.buffer.move(event.to)
            case Reshaped():
                self._reshape(event)

    def _stop(self, to: Position, *, opens: bool = False) -> None:
        """End entries where sinks are that what comes goes past, up to `to`, or may go past as it `opens` more."""
        while self.stops and to > self.stops[0]:
            self.buffer.move(self.stops.pop(0))
            self.publish()
        if self.stops and opens:
            self.publish()

    def _reshape(self, event: Reshaped) -> None:
        """End the entry before a table has other columns."""
        self.snapshots.abandon()
        self.publish()
        table = event.table
        self.log.add(
            "schema",
            to=self.log.to,
            at=time.time(),
            table=table.id,
            columns=tuple(Column(each.name, each.type, each.nullable) for each in table.columns),
            key=table.key,
            problem=event.problem,
        )

    def _due(self) -> bool:
        buffer, now = self.buffer, time.monotonic()
        if buffer.open or buffer.to <= self.log.to:
            return False
        if buffer.since is not None and (
            now >= buffer.since + self.pace.entry_seconds or buffer.bytes >= self.pace.entry_bytes or buffer.files
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
        faults.point("publish")
        tables = buffer.parts(self.tables, self._complete)
        faults.point("publish-files")
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
            self._raise(table, part.high)
        self._published_at = time.monotonic()
        self.buffer = Buffer(self.log.place.data, self.log.epoch, to=self.log.to)
        self._say()

    def _unseen(self, ends: Sequence[tuple[Position, Any]]) -> list[tuple[Position, Any]]:
        """Return the transactions from the first on that a snapshot does not see yet."""
        if not ends:
            return []
        first = self.stream.look().unseen([id_ for _, id_ in ends])
        return [] if first is None else list(ends[first:])

    def _raise(self, table: str, high: Position) -> None:
        """Let the snapshot of a table end later."""
        for number, each in self.snapshots.known.items():
            if each.table == table and each.high < high:
                self.snapshots.known[number] = msgspec.structs.replace(each, high=high)

    def _complete(self, table: str, rows: TableRows, ids: Sequence[Any]) -> tuple[TableRows, Position | None]:
        """Fill holes from the server as long as chunks may have been read after the changes."""
        known = [each for each in self.snapshots.known.values() if each.table == table]
        if not any(not each.done or self.log.to <= each.high for each in known):
            return rows, None
        return self.stream.complete(self.tables[table], rows, ids)

    def _settle(self) -> bool:
        """Put chunks into the log that are read by now; tell whether there were any."""
        buffer = self.buffer
        return self.snapshots.settle(buffer.to, {*buffer.rows, *buffer.files, *buffer.emptied})

    # --- snapshots ---------------------------------------------------------------------------------------------------

    def _read_chunks(self) -> None:
        """Begin generations that sinks wait for, and read the next chunks of those that are not done."""
        self._resume()
        for table in sorted({each.table for each in self.marks.wants.values()} & self.tables.keys()):
            if table not in self._joins():
                used = [each.generation + 1 for each in self.marks.at.values() if each.generation is not None]
                self.snapshots.begin(table, max(used, default=0))
        if not self.snapshots.unfinished() or self.log.size > self.keeping.max_log:
            return
        self.publish()
        self.stops = [each for each in self.stops if each > self.log.to]
        if self.stops:
            return
        self.snapshots.start(self._ready, [id_ for _, id_ in self.recent])

    def _ready(self, generation: Generation) -> bool:
        """Tell whether the log has come to where all sinks of a generation are."""
        return all(each.to <= self.log.to for each in self.marks.of(generation))

    def _joins(self) -> dict[str, int]:
        """Return the entries where generations begin that are in the log from there on, by table."""
        first = self.log.entries[0].entry
        found = {}
        for table in self.tables:
            last = self.snapshots.of(table)
            if last is not None and last.begin >= first:
                found[table] = last.begin
        return found

    # --- what sinks and users are told -------------------------------------------------------------------------------

    def _look(self) -> bool:
        """Look at the catalog and at what sinks say; tell whether the tables still are the ones that are captured."""
        self._looked_at = time.monotonic()
        try:
            if not self.host.renew():
                raise FencedLogError
            self.clients = self.host.clients()
        except SinkqlError:
            return True  # a catalog that cannot be read now is asked again
        if {each.table.id: each.table for each in self.clients} != self.tables:
            return False
        damaged = mark.take(self.folder / "damaged.json", mark.Damaged)
        if damaged is not None and damaged.log in ("", self.log.id):
            raise LostLogError(damaged.file)
        self.marks = Marks.read(self.folder, self.clients)
        return True

    def _answer(self) -> None:
        """Tell whoever asks where the server's end is; the log then goes there at once."""
        for name, asked in mark.all_of(self.folder, "ask", mark.Ask):
            if asked.table not in self.tables:
                continue
            to = self.stream.end()
            self.wanted = max(self.wanted, to)
            last = self.log.entries[-1]
            (self.folder / "ask" / f"{name}.json").unlink(missing_ok=True)
            mark.put(self.folder, "answer", name, mark.Answer(to, self.log.id, last.entry, last.to))

    def _say(self) -> None:
        """Say how far the log is, and where sinks may join."""
        self._joinable = self._joins()
        last = self.log.entries[-1].entry
        mark.tell(self.folder, mark.Word(self.log.epoch, time.time(), self.log.id, last, self._joinable))

    # --- what may be forgotten ---------------------------------------------------------------------------------------

    def confirm(self) -> None:
        """Let the server forget what nobody needs from it any more, and the log what no sink needs."""
        self._confirmed_at = time.monotonic()
        self.marks = Marks.read(self.folder, self.clients)
        self._see()
        self._spare()
        generations = list(self.snapshots.known.values())
        least = needed(self.log.entries, self.marks, generations)
        sinks = self.log.to if least is None else least
        position = min(self.log.to if self.kept == "log" else sinks, self.visible)
        if position > self.confirmed:
            faults.point("confirm")
            self.confirmed = position
        if self.confirmed:
            self.stream.confirm(self.confirmed)
        self._forget(min(self.confirmed, sinks), generations)
        self._tell(sinks)
        if not self.settled:
            self._say()  # which takes back the error that ended the one before
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
        late = [at for at in self.marks.positions() if at < self.confirmed]
        if self.kept == "server" and self._retained > self._bound:
            self._keep("log")
        elif self.kept == "log" and not late and self._retained <= self._bound // 2:
            self._keep("server")

    def _keep(self, where: str) -> None:
        self.kept = where
        if self.snapshots.holding:
            return
        self._open()

    def _open(self) -> None:
        """Write down what the entries before say."""
        self.log.add(
            "open",
            to=self.log.to,
            at=time.time(),
            captured=tuple(sorted(self.tables)),
            generations=tuple(self.snapshots.known.values()),
            kept=self.kept,
        )

    def _forget(self, position: Position, generations: Sequence[Generation]) -> None:
        """Delete entries that no sink needs: after a while, or at once where the log is too large."""
        crowded = self.log.size > self.keeping.max_log
        before = time.time() + 1 if crowded else time.time() - self.pace.kept_seconds
        count = forgettable(self.log.entries, position, self.marks, generations, before=before)
        if not count or self.snapshots.holding:
            return
        last = max(place for place, each in enumerate(self.log.entries) if each.kind == "open")
        if last < count:
            self._open()
        faults.point("forget")
        self.log.forget(count)
        self._say()

    def _tell(self, sinks: Position) -> None:
        running = self.snapshots.unfinished()
        details: dict[str, Any] = {
            "captured_to": self.log.to,
            "confirmed_to": self.confirmed,
            "sinks_to": sinks,
            "log_bytes": self.log.size,
            "retained_bytes": self._retained,
            "kept_by": self.kept,
        }
        if running:
            details["snapshots"] = {each.table: each.chunks for each in running}
        self.host.tell(Doing("snapshotting" if running else "running", None, details))
