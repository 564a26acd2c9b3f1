"""The entries of a log after a place → what a sink takes of them, and where a batch of it ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from sinkql import physical
from sinkql.capture import content, find
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
    if find.may_duplicate(reader, position_of(start)) and not find.loss_accepted(reader, start):
        raise SinkqlError(
            "SQ3434",
            f'the log of "{reader.name}" no longer tells which changes the first snapshot of the table had',
            detail=f"they follow position {position_of(start).to}",
            hint=SKIP,
        )
    begun = find.resolve(reader, position_of(start), stop)
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
    begun = find.resolve(reader, position_of(start), position_of(end)) if reader.holes else None
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
    begun, found = find.resolve(reader, place), None
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
        raise reader.bad.failure(content.split_failures(reader, entry.log, bad)[0])
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
