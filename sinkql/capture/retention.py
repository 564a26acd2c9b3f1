"""The sinks' positions → what the server may delete, and which log entries may go.

The quota of a log → whether the capture may read more, and the error to report if the log stays full.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from sinkql import codec
from sinkql.capture import messages
from sinkql.capture.control import CaptureHost, CaptureIntervals, SubscribedSink
from sinkql.capture.log import Entry, LogWriter, SnapshotGeneration
from sinkql.capture.log_store import FencedLogError, LostLogError
from sinkql.capture.messages import CaptureError
from sinkql.capture.position import LogPosition
from sinkql.connector_api.cdc import CapturedTable, LogRetention, Position, Stream
from sinkql.errors import SinkqlError, as_data
from sinkql.machine import clock
from sinkql.storage import failpoint
from sinkql.storage.key_value import KeyValueStore

_FIRST_EPOCH = messages.CaptureEpoch()


@dataclass(slots=True)
class SinkRegistry:
    """The sinks of the catalog that read the source.

    A sink is in the catalog before it sends a message, but the catalog may have been read a moment earlier.
    `unknown_readers` sent messages and were not in the catalog, with the time since when. Their messages are deleted
    after `seconds`.
    """

    host: CaptureHost
    messages: KeyValueStore
    seconds: float
    unknown_readers: dict[str, float] = field(default_factory=dict)

    def current(self) -> Sequence[SubscribedSink]:
        """Return the sinks. Raises SinkqlError if the catalog cannot be read."""
        sinks, now = self.host.subscribed_sinks(), clock.monotonic()
        subscribed = {sink.reader for sink in sinks}
        readers = {reader for folder in ("at", "want") for reader in self.messages.names(folder)}
        self.unknown_readers = {reader: self.unknown_readers.get(reader, now) for reader in readers - subscribed}
        for reader, since in self.unknown_readers.items():
            if now >= since + self.seconds:
                self.messages.remove(f"at/{reader}", f"want/{reader}")
        return sinks

    def prune(self) -> Sequence[SubscribedSink]:
        """Return the sinks after the messages of unknown readers are deleted."""
        sinks = self.current()
        if self.unknown_readers:
            clock.sleep(self.seconds)
            sinks = self.current()
        return sinks


@dataclass(frozen=True, slots=True)
class SinkPositions:
    """The positions of the source's sinks and their requests for snapshots, both by the readers' names."""

    by_reader: Mapping[str, messages.ReaderPosition]
    requests: Mapping[str, messages.SnapshotRequest]

    @classmethod
    def read(
        cls, store: KeyValueStore, sinks: Sequence[SubscribedSink], epoch: messages.CaptureEpoch = _FIRST_EPOCH
    ) -> SinkPositions:
        """Read the positions and requests, also from sinks that are newer than the list `sinks`.

        A sink sends its position first and then removes its request, so requests are read first. A sink that moved to
        another host sends its messages there: its position is then in the catalog alone. A sink of an earlier capture
        epoch is at the beginning of this one, if that is known.
        """
        requests: dict[str, messages.SnapshotRequest] = dict(messages.all_of(store, "want", messages.SnapshotRequest))
        positions: dict[str, messages.ReaderPosition] = dict(messages.all_of(store, "at", messages.ReaderPosition))
        for sink in sinks:
            if sink.offsets is not None:
                stored = codec.convert(sink.offsets, LogPosition)
                if stored.is_in_log:
                    positions[sink.reader] = _later_position(positions.get(sink.reader), stored.at(sink.table.id))
        earlier = {reader: position for reader, position in positions.items() if position.era < epoch.number}
        for reader, position in earlier.items():
            positions[reader] = messages.ReaderPosition(position.table, epoch.translate(position.to), era=epoch.number)
            if not epoch.begin:
                del positions[reader]
        return cls(positions, requests)

    def sorted_positions(self) -> list[Position]:
        """Return the server positions of the sinks, sorted, without duplicates."""
        return sorted({position.to for position in self.by_reader.values()})

    def by_generation(self, tables: Container[str]) -> Mapping[int, Sequence[messages.ReaderPosition]]:
        """Group the positions of sinks of some tables by the number of their generation."""
        groups: dict[int, list[messages.ReaderPosition]] = {}
        for position in self.by_reader.values():
            if position.generation is not None and position.table in tables:
                groups.setdefault(position.generation, []).append(position)
        return groups

    def readers_of(self, generation: SnapshotGeneration) -> list[messages.ReaderPosition]:
        """Return the positions of sinks that are reading the chunks of a generation."""
        positions = self.by_reader.values()
        return [position for position in positions if position.generation == generation.number and not position.done]

    def in_other_logs(self, log: str) -> list[messages.ReaderPosition]:
        """Return the positions of sinks that last read another log."""
        return [position for position in self.by_reader.values() if position.log not in ("", log)]


def _later_position(sent: messages.ReaderPosition | None, stored: messages.ReaderPosition) -> messages.ReaderPosition:
    """Return the later of two positions of a sink, with the higher of both `high` positions.

    After a full refresh a sink may be at an earlier entry than before, and is in a later generation.
    """
    if sent is None:
        return stored
    same_log = sent.log == stored.log

    def order(position: messages.ReaderPosition) -> tuple[int, int, int, Position]:
        generation = -1 if position.generation is None else position.generation
        return position.era, generation, position.entry if same_log else 0, position.to

    later = stored if order(stored) > order(sent) else sent
    return msgspec.structs.replace(later, high=max(sent.high, stored.high))


def latest_epoch(store: KeyValueStore, sinks: Sequence[SubscribedSink]) -> messages.CaptureEpoch:
    """Return the latest capture epoch, even if only the sinks still know it."""
    epoch = messages.latest_epoch(store)
    numbers = [codec.convert(sink.offsets, LogPosition).era for sink in sinks if sink.offsets is not None]
    numbers += [position.era for _, position in messages.all_of(store, "at", messages.ReaderPosition)]
    number = max([epoch.number, *numbers])
    return epoch if number == epoch.number else messages.CaptureEpoch(number)


def check_log_identity(log: LogWriter, status: messages.CaptureStatus | None, stream: Stream) -> None:
    """Raise LostLogError if another capture has confirmed a newer log to the server.

    A capture that resumes late may find an empty folder and restore its old log there. A capture that lost its lease
    may also have continued this log after it was read: FencedLogError then makes the runner read it again.
    """
    if status is None or not log.entries or status.confirmed <= log.to or stream.follows(log.to):
        return
    if log.directory.numbers()[-1] > log.entries[-1].entry:
        raise FencedLogError
    raise LostLogError(f"it ends at {log.to}, and the server has deleted its changes before {status.confirmed}")


def needed_position(
    entries: Sequence[Entry], positions: SinkPositions, generations: Sequence[SnapshotGeneration]
) -> Position | None:
    """Return the position after which some sink needs the changes; None if no sink needs any."""
    requested = {request.table for request in positions.requests.values()}
    first = entries[0].entry
    latest = _latest(generations)
    begins = [item.begin for item in latest if item.table in requested and item.begin >= first]
    return min([*positions.sorted_positions(), *(entries[begin - first].start for begin in begins)], default=None)


def removable_count(
    entries: Sequence[Entry],
    confirmed: Position,
    positions: SinkPositions,
    generations: Sequence[SnapshotGeneration],
    *,
    before: float,
) -> int:
    """Count the first entries older than `before` that are confirmed and no sink needs.

    A requested generation is kept from its beginning. If a sink requests the whole log, all of it is kept.
    """
    if any(request.all for request in positions.requests.values()):
        return 0
    requested = {request.table for request in positions.requests.values()}
    begins = [generation.begin for generation in _latest(generations) if generation.table in requested]
    first = min(begins, default=1 << 62)
    count = 0
    for entry in entries:
        if entry.to > confirmed or entry.at >= before or entry.entry >= first:
            break
        if any(may_need(position, entry) for position in positions.by_reader.values()):
            break
        count += 1
    return count


def may_need(position: messages.ReaderPosition, entry: Entry) -> bool:
    """Return whether a sink may not have passed an entry."""
    return entry.entry > position.entry if position.log == entry.log else entry.to >= position.to


def partial_entry(
    entries: Sequence[Entry], positions: Sequence[messages.ReaderPosition], tables: Mapping[str, CapturedTable]
) -> Position | None:
    """Return the position of a sink inside an entry that it cannot read again; None otherwise."""
    once = {position.to for position in positions if position.table in tables and not tables[position.table].repeatable}
    changes = [entry for entry in entries if entry.kind == "changes"] if once else []
    return next((to for to in once if any(entry.start < to < entry.to for entry in changes)), None)


def _latest(generations: Sequence[SnapshotGeneration]) -> Sequence[SnapshotGeneration]:
    """Return the last generation of each table."""
    by_number = sorted(generations, key=lambda generation: generation.number)
    return list({generation.table: generation for generation in by_number}.values())


_NAMED_SINKS = 5


@dataclass(slots=True)
class LogQuota:
    """The size limit of a log. `error` is set after the log was full for `patience` seconds."""

    log: LogWriter
    max_bytes: int
    patience: float
    error: SinkqlError | None = None
    _full_since: float | None = field(default=None, init=False)
    _late_sinks: Sequence[str] = field(default=(), init=False)

    @property
    def is_full(self) -> bool:
        """Return whether the log exceeds its limit."""
        return self.log.size > self.max_bytes

    @property
    def trouble(self) -> CaptureError | None:
        """Return the error as sinks receive it that have read everything."""
        if self.error is None or self._full_since is None:
            return None
        return CaptureError(as_data(self.error), self._full_since, self._full_since)

    def measure(self, positions: SinkPositions, sinks: Sequence[SubscribedSink]) -> bool:
        """Update `error` after entries were deleted; return whether it is, or was, set."""
        before, now = self.error, clock.time()
        self._full_since = (self._full_since or now) if self.is_full else None
        is_late = self._full_since is not None and now >= self._full_since + self.patience
        late = self._late(positions, sinks) if is_late else ()
        if not is_late:
            self.error = None
        elif self.error is None or late != self._late_sinks:
            self.error = self._full_error(late)
        self._late_sinks = late
        return (before, self.error) != (None, None)

    def _late(self, positions: SinkPositions, sinks: Sequence[SubscribedSink]) -> Sequence[str]:
        """Return the names of the sinks that must still read the log's first entry."""
        first = self.log.entries[0]
        return sorted({sink.sink or sink.sink_id for sink in sinks if _needs(first, sink.reader, positions)})

    def _full_error(self, late: Sequence[str]) -> SinkqlError:
        names = ", ".join(f'"{name}"' for name in late[:_NAMED_SINKS])
        names += " and others" if len(late) > _NAMED_SINKS else ""
        readers = f". {names} must still read its first entry" if late else ""
        return SinkqlError(
            "SQ3443",
            "the log of the source is full; reading resumes when its sinks have consumed it",
            detail=f"the log has {self.log.size} bytes, and MAX LOG SIZE is {self.max_bytes}{readers}",
            hint="Start the sinks that are stopped, or drop sinks that you no longer need. "
            "ALTER SOURCE … SET (MAX LOG SIZE = …) raises the limit.",
        )


def _needs(first: Entry, reader: str, positions: SinkPositions) -> bool:
    position = positions.by_reader.get(reader)
    return reader in positions.requests or (position is not None and may_need(position, first))


@dataclass(slots=True)
class Retention:
    """The sinks' positions, and what the server and the log keep for them.

    `sinks` are the catalog's sinks, `positions` their positions. `kept_by` names who keeps the changes that sinks have
    not committed, the server or the log. The server may have deleted all changes up to `confirmed`.
    """

    log: LogWriter
    stream: Stream
    options: LogRetention
    intervals: CaptureIntervals
    sinks: Sequence[SubscribedSink]
    epoch: messages.CaptureEpoch = _FIRST_EPOCH
    positions: SinkPositions = field(default_factory=lambda: SinkPositions({}, {}))
    kept_by: str = field(init=False)
    confirmed: Position = ""
    retained_bytes: int = 0
    """What the server keeps for this source, as of the last choice of a keeper."""
    quota: LogQuota = field(init=False)
    _max_retained: int | None = None

    def __post_init__(self) -> None:
        self.kept_by = self.options.keep
        self.quota = LogQuota(self.log, self.options.max_log, self.intervals.full_seconds)

    def read_positions(self) -> SinkPositions:
        """Read the sinks' positions and requests again, and return them."""
        self.positions = SinkPositions.read(self.log.directory.messages, self.sinks, self.epoch)
        return self.positions

    def needed_to(self, generations: Sequence[SnapshotGeneration]) -> Position:
        """Return the position up to which no sink needs changes, at most the log's end."""
        needed = needed_position(self.log.entries, self.positions, generations)
        return self.log.to if needed is None else needed

    def choose_keeper(self, generations: Sequence[SnapshotGeneration]) -> bool:
        """Move retention to the log if the server keeps too much, or back; return whether it moved."""
        if self.options.keep == "log":
            return False
        if self._max_retained is None:
            self._max_retained = self.options.max_retained or self.stream.most_retained()
        self.retained_bytes = self.stream.retained()
        needed = needed_position(self.log.entries, self.positions, generations)
        is_late = needed is not None and needed < self.confirmed
        if self.kept_by == "server" and self.retained_bytes > self._max_retained:
            self.kept_by = "log"
        elif self.kept_by == "log" and not is_late and self.retained_bytes <= self._max_retained // 2:
            self.kept_by = "server"
        else:
            return False
        return True

    def advance(self, needed: Position, visible: Position) -> bool:
        """Advance the confirmed position to at most `visible`; return whether it moved.

        Snapshots see all changes up to `visible`.
        """
        position = min(self.log.to if self.kept_by == "log" else needed, visible)
        if position <= self.confirmed:
            return False
        failpoint.point("confirm")
        self.confirmed = position
        return True

    def confirm(self) -> None:
        """Confirm to the server that it may delete its changes up to `confirmed`."""
        if self.confirmed:
            self.stream.confirm(self.confirmed)

    def removable_count(self, needed: Position, generations: Sequence[SnapshotGeneration]) -> int:
        """Count the first entries that may go: old ones, or any if the log is full."""
        before = clock.time() + 1 if self.quota.is_full else clock.time() - self.intervals.kept_seconds
        position = min(self.confirmed, needed)
        return removable_count(self.log.entries, position, self.positions, generations, before=before)
