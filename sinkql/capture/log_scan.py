"""The entries of a log after a place → what a sink takes of them, and where a batch of it ends.

A place of a sink → where that is in the log as it is now, which may have begun again since.

Places of a log that was lost are found in the present one by the server's position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from sinkql import physical
from sinkql.capture import data_file, messages
from sinkql.capture.log import Entry, TableEntry
from sinkql.capture.position import LogPosition, position_after, position_of
from sinkql.capture.subscription import Subscription
from sinkql.connector_api.cdc import SKIP
from sinkql.connector_api.stream import Limit, Offsets
from sinkql.errors import GoneError, SinkqlError

_IDLE_SECONDS = 300.0
_IDLE_BYTES = 64 << 20
"""After so long, or so much of other tables, a sink commits how far it is without a row."""


@dataclass(slots=True)
class LogScan:
    """A walk through the entries after a place: how far it is, and what it took in."""

    place: LogPosition
    rows: int = 0
    bytes: int = 0
    passed: int = 0
    began_at: float | None = None
    at: float = 0.0
    turned: bool = False
    """Whether the place says more than that time has gone by."""

    def idle(self) -> bool:
        """Tell whether what it found is not worth a commit."""
        waited = self.at - self.began_at if self.began_at is not None else 0.0
        return not self.turned and not self.rows and waited < _IDLE_SECONDS and self.passed < _IDLE_BYTES


@dataclass(slots=True)
class ScanCache:
    """A walk from a place that found nothing worth a commit: the next look goes on where it ended.

    Where many tables of a source change, each sink would look through all of their entries each time. It is no part of
    a reader in a task.
    """

    _from: LogPosition | None = None
    _walk: LogScan | None = None

    def walk(self, begun: LogPosition) -> LogScan:
        """Return the walk from a place."""
        return replace(self._walk) if self._walk is not None and self._from == begun else LogScan(begun)

    def keep(self, begun: LogPosition, walk: LogScan) -> None:
        """Take note of one that is to be gone on with."""
        self._from, self._walk = begun, walk

    def __reduce__(self) -> tuple[Any, ...]:
        return ScanCache, ()


def advance(reader: Subscription, walk: LogScan, entry: Entry, limit: Limit) -> bool:
    """Go past an entry; tell whether to go on, False where the batch ends before it or at it."""
    part = reader.part(walk.place, entry)
    first = walk.rows == 0
    if part is not None:
        if not first and (part.emptied or (part.moved and reader.holes)):
            return False
        rows = sum(each.rows for each in part.files)
        size = sum(each.bytes for each in part.files)
        if not first and (walk.rows + rows > limit.rows or walk.bytes + size > limit.bytes):
            return False
        if not _fits(reader, part, entry, first=first):
            return False
        walk.rows += rows
        walk.bytes += size
        walk.turned |= part.emptied
    if not _keeps_columns(reader, walk.place, entry, first=first):
        return False
    before = walk.place
    walk.place = position_after(before, entry, part, reader.table.id)
    walk.passed += entry.size
    walk.at = entry.at
    walk.turned |= (walk.place.done, walk.place.generation) != (before.done, before.generation)
    return not reader.snapshot_alone(before, walk.place)  # what comes next may take back its rows


def entries(reader: Subscription, begun: LogPosition, until: Offsets | None) -> Iterator[Entry]:
    """Yield what comes after a place in its log, up to a target or another place."""
    for entry in reader.log.after(begun.entry):
        if entry.log != begun.log:
            return
        if until is not None and "until" not in until and entry.entry > until.get("entry", -1):
            return
        yield entry


def scan_parts(reader: Subscription, start: Offsets, end: Offsets) -> Iterator[TableEntry]:
    """Yield what a sink takes between two places; raises SQ3434 or SQ3435 where the log has that no more."""
    stop = position_of(end)
    if may_duplicate(reader, position_of(start)) and not loss_accepted(reader, start):
        raise SinkqlError(
            "SQ3434",
            f'the log of "{reader.name}" no longer tells which changes the first snapshot of the table had',
            detail=f"they follow position {position_of(start).to}",
            hint=SKIP,
        )
    begun = resolve(reader, position_of(start), stop)
    if begun is None:  # a first batch is read elsewhere then; what is in a table cannot be read again
        raise GoneError(
            "SQ3435",
            f'the log of "{reader.name}" no longer begins where the sink did',
            detail=f"it had read up to position {stop.to}",
            hint="A sink that has committed nothing yet begins again by itself.",
        )
    if begun.log != stop.log:
        raise reader.unreadable("the log began again")
    place = begun
    for entry in entries(reader, begun, end):
        part = reader.part(place, entry)
        if part is not None:
            yield part
        place = position_after(place, entry, part, reader.table.id)
    if place.entry != stop.entry:
        raise reader.unreadable("the log began again")


def step(reader: Subscription, start: Offsets, end: Offsets) -> Offsets:
    """Return how far one batch may go between two places: up to where a row has values of one from before it."""
    begun = resolve(reader, position_of(start), position_of(end)) if reader.holes else None
    if begun is None:
        return end
    place, some = begun, False
    for entry in entries(reader, begun, end):
        part = reader.part(place, entry)
        if part is not None:
            if some and part.moved:
                return place.offsets()
            some = some or bool(part.files)
        place = position_after(place, entry, part, reader.table.id)
    return end


def before_truncate(reader: Subscription, place: LogPosition, *, last: bool = False) -> LogPosition | None:
    """Return the place before a table without a key is emptied, if that is what follows; with `last` its last one.

    A source may have ON TRUNCATE = FAIL.
    """
    if reader.change != "retract" or not place.done or reader.keeping.on_truncate == "fail":
        return None
    begun, found = resolve(reader, place), None
    for entry in reader.log.after(begun.entry) if begun is not None else ():
        part = reader.part(begun, entry) if begun is not None and entry.log == begun.log else None
        if part is not None and part.emptied:
            assert begun is not None, "an entry follows it"
            found = msgspec.structs.replace(begun, entry=entry.entry - 1, to=entry.start)
        if part is not None and not (last and found is not None):
            break
    return found


def _fits(reader: Subscription, part: TableEntry, entry: Entry, *, first: bool) -> bool:
    """Tell whether a part can be taken; raises where it cannot and is the first of a batch."""
    if part.emptied and reader.keeping.on_truncate == "fail":
        raise SinkqlError(
            "SQ3432",
            f'table "{".".join(reader.table.name)}" was truncated on the server',
            detail=f"up to position {entry.to}, and the source says ON TRUNCATE = FAIL",
            hint="Run ALTER SOURCE … SET (ON TRUNCATE = APPLY) to have the tables of its sinks emptied too.",
        )
    if reader.keeping.on_error == "fail" and any(each.failed for each in part.files):
        if not first:
            return False
        bad = next(each for each in part.files if each.failed)
        raise reader.bad.failure(data_file.split_failures(reader, entry.log, bad)[0])
    return True


def _keeps_columns(reader: Subscription, place: LogPosition, entry: Entry, *, first: bool) -> bool:
    """Tell whether the table has, from an entry on, the columns that the sink needs; raises at the first.

    A sink that a user has go on without what is lost goes past that.
    """
    if entry.kind != "schema" or entry.table != reader.table.id:
        return True
    if entry.lost and place.done and reader.accepted is not None:
        return True
    if entry.lost and first:
        raise SinkqlError(
            "SQ3440",
            f'the server has not sent all changes of table "{".".join(reader.table.name)}"',
            detail=entry.problem,
            hint=f"Fix on the server what the detail says, if anything. Then {SKIP[0].lower()}{SKIP[1:]}",
        )
    now = {each.name: each for each in entry.columns}
    used = [each for each in reader.table.columns if reader.used is None or each.name in reader.used]
    lost = [each.name for each in used if not _same(each, now)]
    if not lost and tuple(entry.key) == reader.table.key:
        return True
    if not first:
        return False
    what = f'column "{lost[0]}"' if lost else "the key"
    raise SinkqlError(
        "SQ3433",
        f'{what} of table "{".".join(reader.table.name)}" was dropped, renamed or changed on the server',
        detail=entry.problem,
        hint="Run ALTER SOURCE … REFRESH REFERENCES; and start the sink again: it has the table's columns of now then. "
        "What that says it cannot change, as a view that names the column or an append sink, is dropped first and "
        "created again, sinks into new tables. Or put the column back on the server, and run ALTER SOURCE … SKIP;",
    )


def _same(column: physical.Column, now: dict[str, Any]) -> bool:
    """Tell whether a column is as it was planned; one that has NULL no more is."""
    found = now.get(column.name)
    return found is not None and found.type == column.type and (column.nullable or not found.nullable)


_KEEPS_ROWS = "SQ3439"
"""The loss whose sink keeps the rows that it has."""


def resolve(reader: Subscription, place: LogPosition, end: LogPosition | None = None) -> LogPosition | None:
    """Return the place in the log as it is now, None where there is nothing yet; SQ3434 where it is not in it.

    `end` is where a batch that begins there ended, if that is known.
    """
    if not place.began:
        return _beginning(reader, end) if end is not None else _joined(reader)
    return place if is_same_log(reader, place) else translate_position(reader, place, end)


def is_same_log(reader: Subscription, place: LogPosition) -> bool:
    """Tell whether the log still is the one that a place is in, and goes on there."""
    here = reader.log.entry(place.entry)
    if here is not None and here.log == place.log:
        return True
    following = reader.log.entry(place.entry + 1)
    return following is not None and following.log == place.log


def loss_accepted(reader: Subscription, offsets: Offsets) -> bool:
    """Tell whether what follows is lost, and a user has accepted that."""
    return position_of(offsets).began and (reader.accepted is not None or has_newer_epoch(reader, offsets))


def has_newer_epoch(reader: Subscription, offsets: Offsets) -> bool:
    """Tell whether another era has begun since."""
    place = position_of(offsets)
    return place.began and not is_same_log(reader, place) and place.era < current_epoch(reader, reader.log.numbers())


def may_duplicate(reader: Subscription, place: LogPosition) -> bool:
    """Tell whether changes that follow may be in the first snapshot of a table without a key already.

    The log that left them out is lost, and another one has them.
    """
    late = reader.change == "retract" and place.done and place.to < place.high
    return late and not is_same_log(reader, place)


def keeps_table_rows(reader: Subscription) -> bool:
    """Tell whether a user has accepted, too, that the sink's rows are not computed again."""
    return reader.accepted == messages.LossAcceptance(_KEEPS_ROWS)


def needs_full_refresh(reader: Subscription, place: LogPosition) -> bool:
    """Tell whether a sink that goes on without what was lost reads all rows: one without them at first never does.

    The server may leave values out of changes of rows that the sink does not know.
    """
    overwritten = reader.holes or (reader.change == "upsert" and keeps_table_rows(reader))
    return not place.done or (overwritten and place.generation is not None)


def translate_position(reader: Subscription, place: LogPosition, end: LogPosition | None = None) -> LogPosition | None:
    """Return where a place of a log that was lost is in the present one."""
    numbers = reader.log.numbers()
    if not numbers:
        return None
    if place.era < current_epoch(reader, numbers):
        return _beyond(reader, place, numbers, end)
    before = None
    for number in numbers:
        entry = reader.log.entry(number)
        if entry is None:
            continue  # it was forgotten meanwhile
        if entry.start > place.to:
            break
        if entry.start == place.to or (reader.table.repeatable and entry.to > place.to):
            before = entry
            break
        if entry.to > place.to:  # the capture ends its entries where sinks are, once it knows
            raise reader.unreadable(f"the sink is at position {place.to}, in the midst of an entry")
    if before is None:
        last = reader.log.entry(numbers[-1])
        if last is None or last.to < place.to:
            return None  # it has not come so far again, or was lost once more
        if last.to == place.to:
            return msgspec.structs.replace(place, log=last.log, entry=last.entry)
        if reader.accepted is not None:
            return _beyond(reader, place, numbers, end)
        raise SinkqlError(
            "SQ3434",
            f'the log of "{reader.name}" no longer has the changes that follow those in the sink\'s table',
            detail=f"they follow position {place.to}",
            hint=SKIP,
        )
    return msgspec.structs.replace(place, log=before.log, entry=before.entry - 1)


def current_epoch(reader: Subscription, numbers: Sequence[int]) -> int:
    """Return the era of the log as it is now: of which its entries tell, too."""
    last = reader.log.entry(numbers[-1]) if numbers else None
    return max(messages.latest_epoch(reader.notes).number, last.era if last is not None else 0)


def _joined(reader: Subscription) -> LogPosition | None:
    """Return the place before a generation of the table that is there from its beginning; wish for one.

    Rows that are pushed have none: a sink begins where the log does.
    """
    read = tuple(each for each in reader.table.typed if reader.used is None or each[0] in reader.used)
    wish = messages.SnapshotRequest(reader.table.id, reader.table.pushed, read)
    if messages.receive(reader.notes, reader.wish, messages.SnapshotRequest) != wish:
        messages.send(reader.notes, reader.wish, wish)
    if reader.table.pushed:
        first = next((each for number in reader.log.numbers() if (each := reader.log.entry(number))), None)
        return LogPosition(first.log, first.entry - 1, first.start, done=True, begin=first.entry) if first else None
    said = messages.status(reader.notes)
    number = said.joinable.get(reader.reader) if said is not None else None
    entry = reader.log.entry(number) if number is not None else None
    if entry is None or entry.kind != "begin" or entry.table != reader.table.id:
        return None
    if entry.generation is None or not entry.generation.has(reader.table.typed):
        return None
    return LogPosition(entry.log, entry.entry - 1, entry.start, era=entry.era)


def _beginning(reader: Subscription, place: LogPosition) -> LogPosition | None:
    """Return where a sink began that is at a place now; None where that is not in the log any more."""
    entry = reader.log.entry(place.begin)
    if entry is None or entry.log != place.log:
        return None
    return LogPosition(entry.log, entry.entry - 1, entry.start, era=entry.era)


def _beyond(
    reader: Subscription, place: LogPosition, numbers: Sequence[int], end: LogPosition | None
) -> LogPosition | None:
    """Return where a sink goes on without what was lost: at the beginning of the log.

    One that lacks rows of its first snapshot, or may be sent parts of rows that it lacks, reads all rows as they
    are now.
    """
    if needs_full_refresh(reader, place):
        return _beginning(reader, end) if end is not None else _joined(reader)
    first, now = reader.log.entry(numbers[0]), messages.latest_epoch(reader.notes)
    if first is None or first.era < now.number:
        return None  # it is about to go
    to = max(first.start, now.place(place.to))
    return LogPosition(first.log, first.entry - 1, to, done=True, era=first.era)
