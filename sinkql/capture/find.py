"""A place of a sink → where that is in the log as it is now, which may have begun again since.

Places of a log that was lost are found in the present one by the server's position.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sinkql.capture import messages
from sinkql.capture.position import LogPosition, position_of
from sinkql.capture.subscription import Subscription
from sinkql.connector_api.cdc import SKIP
from sinkql.connector_api.stream import Offsets
from sinkql.errors import SinkqlError

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
