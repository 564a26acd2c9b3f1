"""How far sinks are → what the server may forget, and which entries of the log may go.

A log, and how far its sinks are → whether it has room for more, and once it has had none for long, why not.
"""

from __future__ import annotations

import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from sinkql import codec
from sinkql.capture import messages
from sinkql.capture.control import CaptureHost, SubscribedSink
from sinkql.capture.log import Entry, LogWriter, SnapshotGeneration
from sinkql.capture.log_store import FencedLogError, LostLogError
from sinkql.capture.messages import CaptureError
from sinkql.capture.position import LogPosition
from sinkql.connector_api.cdc import CapturedTable, Position, Stream
from sinkql.errors import SinkqlError, as_data
from sinkql.storage.key_value import KeyValueStore

_FIRST_ERA = messages.CaptureEpoch()


@dataclass(slots=True)
class SinkRegistry:
    """The sinks of the catalog that read the source. What others have said of themselves is deleted in the end.

    A sink is in the catalog before it says anything, but the catalog may be known as it was a moment ago: `strangers`
    are those that it did not have, since when.
    """

    host: CaptureHost
    notes: KeyValueStore
    seconds: float
    strangers: dict[str, float] = field(default_factory=dict)

    def current(self) -> Sequence[SubscribedSink]:
        """Return the sinks; raises SinkqlError where the catalog cannot be read."""
        clients, now = self.host.clients(), time.monotonic()
        known = {each.reader for each in clients}
        said = {reader for what in ("at", "want") for reader in self.notes.names(what)}
        self.strangers = {reader: self.strangers.get(reader, now) for reader in said - known}
        for reader, since in self.strangers.items():
            if now >= since + self.seconds:
                self.notes.remove(f"at/{reader}", f"want/{reader}")
        return clients

    def prune(self) -> Sequence[SubscribedSink]:
        """Return the sinks once what strangers have said is deleted."""
        clients = self.current()
        if self.strangers:
            time.sleep(self.seconds)
            clients = self.current()
        return clients


@dataclass(frozen=True, slots=True)
class SinkPositions:
    """How far sinks are that read the source, and which of them wait for a generation, by the readers' names."""

    at: Mapping[str, messages.ReaderPosition]
    wants: Mapping[str, messages.SnapshotRequest]

    @classmethod
    def read(
        cls, notes: KeyValueStore, clients: Sequence[SubscribedSink], era: messages.CaptureEpoch = _FIRST_ERA
    ) -> SinkPositions:
        """Read them: those of sinks too that the catalog had not when it was asked for its `clients`.

        A sink says where it is, and no longer that it waits after that: in this order none is missed. One that goes on
        on another host says so there: the catalog alone knows of it then. One from an earlier era is at the beginning
        of this one, if that is known.
        """
        wants: dict[str, messages.SnapshotRequest] = dict(messages.all_of(notes, "want", messages.SnapshotRequest))
        at: dict[str, messages.ReaderPosition] = dict(messages.all_of(notes, "at", messages.ReaderPosition))
        for client in clients:
            if client.offsets is not None:
                place = codec.convert(client.offsets, LogPosition)
                if place.began:
                    at[client.reader] = _later(at.get(client.reader), place.at(client.table.id))
        early = {reader: each for reader, each in at.items() if each.era < era.number}
        for reader, each in early.items():
            at[reader] = messages.ReaderPosition(each.table, era.place(each.to), era=era.number)
            if not era.begin:
                del at[reader]
        return cls(at, wants)

    def positions(self) -> list[Position]:
        """Return how far the sinks are, in order, each position once."""
        return sorted({each.to for each in self.at.values()})

    def readers(self, tables: Container[str]) -> Mapping[int, Sequence[messages.ReaderPosition]]:
        """Return how far those are that read, or have read, generations of some tables, by the generation's number."""
        found: dict[int, list[messages.ReaderPosition]] = {}
        for each in self.at.values():
            if each.generation is not None and each.table in tables:
                found.setdefault(each.generation, []).append(each)
        return found

    def of(self, generation: SnapshotGeneration) -> list[messages.ReaderPosition]:
        """Return how far those are that read a generation's chunks."""
        return [each for each in self.at.values() if each.generation == generation.number and not each.done]

    def elsewhere(self, log: str) -> list[messages.ReaderPosition]:
        """Return how far those are that have read another log."""
        return [each for each in self.at.values() if each.log not in ("", log)]


def _later(told: messages.ReaderPosition | None, known: messages.ReaderPosition) -> messages.ReaderPosition:
    """Return the later of two places of a sink; with up to where changes may be in its rows, as far as one says so.

    One that read all rows again may be at an earlier entry than before, and is in a later generation.
    """
    if told is None:
        return known
    same = told.log == known.log

    def order(at: messages.ReaderPosition) -> tuple[int, int, int, Position]:
        return at.era, -1 if at.generation is None else at.generation, at.entry if same else 0, at.to

    later = known if order(known) > order(told) else told
    return msgspec.structs.replace(later, high=max(told.high, known.high))


def latest_epoch(notes: KeyValueStore, clients: Sequence[SubscribedSink]) -> messages.CaptureEpoch:
    """Return the era that began last: also where a folder was lost, and sinks alone know of it."""
    found = messages.latest_epoch(notes)
    places = [codec.convert(each.offsets, LogPosition).era for each in clients if each.offsets is not None]
    number = max(
        [found.number, *places, *(each.era for _, each in messages.all_of(notes, "at", messages.ReaderPosition))]
    )
    return found if number == found.number else messages.CaptureEpoch(number)


def check_log_identity(log: LogWriter, said: messages.CaptureStatus | None, stream: Stream) -> None:
    """Raise LostLogError where a log is one that another had followed, of which the server was told.

    A capture that slept may find nothing where that was, and put there what it had begun. One that had lost its lease,
    and was slow, may have gone on with this very log since it was read: FencedLogError has it read again.
    """
    if said is None or not log.entries or said.confirmed <= log.to or stream.follows(log.to):
        return
    if log.place.numbers()[-1] > log.entries[-1].entry:
        raise FencedLogError
    raise LostLogError(f"it ends at {log.to}, and the server has forgotten what is before {said.confirmed}")


def needed_position(
    entries: Sequence[Entry], marks: SinkPositions, generations: Sequence[SnapshotGeneration]
) -> Position | None:
    """Return the position after which some sink needs the changes; None where no sink needs any."""
    wanted = {each.table for each in marks.wants.values()}
    first = entries[0].entry
    begins = [each.begin for each in _latest(generations) if each.table in wanted and each.begin >= first]
    return min([*marks.positions(), *(entries[begin - first].start for begin in begins)], default=None)


def removable_count(
    entries: Sequence[Entry],
    confirmed: Position,
    marks: SinkPositions,
    generations: Sequence[SnapshotGeneration],
    *,
    before: float,
) -> int:
    """Return how many of the first entries no sink needs and the server has confirmed, of those older than a time.

    A generation that sinks wait for is kept from its beginning, and all of a log that a sink is to begin with.
    """
    if any(each.all for each in marks.wants.values()):
        return 0
    wanted = {each.table for each in marks.wants.values()}
    begins = [each.begin for each in _latest(generations) if each.table in wanted]
    first = min(begins, default=1 << 62)
    count = 0
    for entry in entries:
        if entry.to > confirmed or entry.at >= before or entry.entry >= first:
            break
        if any(may_need(at, entry) for at in marks.at.values()):
            break
        count += 1
    return count


def may_need(at: messages.ReaderPosition, entry: Entry) -> bool:
    """Tell whether a sink has not gone past an entry, as far as one can know."""
    return entry.entry > at.entry if at.log == entry.log else entry.to >= at.to


def partial_entry(
    entries: Sequence[Entry], places: Sequence[messages.ReaderPosition], tables: Mapping[str, CapturedTable]
) -> Position | None:
    """Return where a sink is in the midst of an entry of which it may not have again what it has; None for nowhere."""
    once = {at.to for at in places if at.table in tables and not tables[at.table].repeatable}
    changes = [each for each in entries if each.kind == "changes"] if once else []
    return next((to for to in once if any(each.start < to < each.to for each in changes)), None)


def _latest(generations: Sequence[SnapshotGeneration]) -> Sequence[SnapshotGeneration]:
    """Return the last generation of each table."""
    return list({each.table: each for each in sorted(generations, key=lambda each: each.number)}.values())


_SHOWN = 5


@dataclass(slots=True)
class LogQuota:
    """What a log of at most so many bytes has room for. `error` is what users are told after so many seconds."""

    log: LogWriter
    most: int
    patience: float
    error: SinkqlError | None = None
    _since: float | None = field(default=None, init=False)
    _named: Sequence[str] = field(default=(), init=False)

    @property
    def full(self) -> bool:
        """Tell whether there is none."""
        return self.log.size > self.most

    @property
    def trouble(self) -> CaptureError | None:
        """Return what sinks that have read everything are told."""
        if self.error is None or self._since is None:
            return None
        return CaptureError(as_data(self.error), self._since, self._since)

    def measure(self, marks: SinkPositions, clients: Sequence[SubscribedSink]) -> bool:
        """Look once what no sink needs is deleted; tell whether there is something to tell, or was until now."""
        before, now = self.error, time.time()
        self._since = (self._since or now) if self.full else None
        told = self._since is not None and now >= self._since + self.patience
        late = self._late(marks, clients) if told else ()
        if not told:
            self.error = None
        elif self.error is None or late != self._named:
            self.error = self._full(late)
        self._named = late
        return (before, self.error) != (None, None)

    def _late(self, marks: SinkPositions, clients: Sequence[SubscribedSink]) -> Sequence[str]:
        """Return the names of the sinks that must still read the log's first entry."""
        first = self.log.entries[0]
        return sorted({each.sink or each.sink_id for each in clients if _needs(first, each.reader, marks)})

    def _full(self, late: Sequence[str]) -> SinkqlError:
        names = ", ".join(f'"{each}"' for each in late[:_SHOWN]) + (" and others" if len(late) > _SHOWN else "")
        readers = f", which {names} must still read" if late else ""
        return SinkqlError(
            "SQ3443",
            "the log of the source is full: nothing more is read until its sinks have read what is there",
            detail=f"it has {self.log.size} bytes of {self.most}{readers}",
            hint="Start the sinks that do not run, or drop those that are not needed any more. ALTER SOURCE … SET (MAX "
            "LOG SIZE = …) makes more room.",
        )


def _needs(first: Entry, reader: str, marks: SinkPositions) -> bool:
    return reader in marks.wants or (reader in marks.at and may_need(marks.at[reader], first))
