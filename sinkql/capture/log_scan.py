"""The log entries after a position → what a sink reads of them, and where its batch ends.

A sink stops at an entry with changed columns if it uses one of them: SQ3433, or SQ3440 if changes are missing.

The position of a sink in a lost log → its position in the present log, by the position on the server.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from sinkql import physical
from sinkql.capture import data_file, messages
from sinkql.capture.log import Column, Entry, TableEntry
from sinkql.capture.position import LogPosition, position_after, position_of
from sinkql.capture.subscription import Subscription
from sinkql.connector_api.cdc import SKIP
from sinkql.connector_api.stream import Limit, Offsets
from sinkql.errors import GoneError, SinkqlError

_IDLE_SECONDS = 300.0
_IDLE_BYTES = 64 << 20
"""After this time, or this size of other tables' entries, a sink commits its position without rows."""


@dataclass(slots=True)
class LogScan:
    """A scan of the entries after a position: the position reached, and the rows read."""

    position: LogPosition
    rows: int = 0
    bytes: int = 0
    passed_bytes: int = 0
    first_at: float | None = None
    last_at: float = 0.0
    must_commit: bool = False
    """Whether the position must be committed even without rows."""

    def is_idle(self) -> bool:
        """Return whether the scan read nothing that is worth a commit."""
        seconds = self.last_at - self.first_at if self.first_at is not None else 0.0
        is_short = seconds < _IDLE_SECONDS and self.passed_bytes < _IDLE_BYTES
        return not self.must_commit and not self.rows and is_short


@dataclass(slots=True)
class ScanCache:
    """The last idle scan. The next scan from the same position continues where it ended.

    Without it, each sink of a source with many changing tables would scan all entries each time. The cache is not
    pickled with the reader.
    """

    _start: LogPosition | None = None
    _scan: LogScan | None = None

    def scan(self, start: LogPosition) -> LogScan:
        """Return a copy of the scan from a position, or a new one."""
        return replace(self._scan) if self._scan is not None and self._start == start else LogScan(start)

    def store(self, start: LogPosition, scan: LogScan) -> None:
        """Store an idle scan from a position."""
        self._start, self._scan = start, scan

    def __reduce__(self) -> tuple[Any, ...]:
        return ScanCache, ()


def advance(reader: Subscription, scan: LogScan, entry: Entry, limit: Limit) -> bool:
    """Read an entry; return whether the batch continues after it.

    Return False if the batch ends before the entry or with it.
    """
    part = reader.part(scan.position, entry)
    is_first = scan.rows == 0
    if part is not None:
        if not is_first and (part.emptied or (part.moved and reader.unchanged_values)):
            return False
        rows = sum(file.rows for file in part.files)
        size = sum(file.bytes for file in part.files)
        if not is_first and (scan.rows + rows > limit.rows or scan.bytes + size > limit.bytes):
            return False
        if not _can_read(reader, part, entry, is_first=is_first):
            return False
        scan.rows += rows
        scan.bytes += size
        scan.must_commit |= part.emptied
    if not _has_columns(reader, scan.position, entry, is_first=is_first):
        return False
    before = scan.position
    scan.position = position_after(before, entry, part, reader.table.id)
    scan.passed_bytes += entry.size
    scan.last_at = entry.at
    scan.must_commit |= (scan.position.done, scan.position.generation) != (before.done, before.generation)
    return not reader.is_snapshot_alone(before, scan.position)  # the next changes may retract its rows


def entries(reader: Subscription, start: LogPosition, until: Offsets | None) -> Iterator[Entry]:
    """Yield the entries after a position in its log, up to a target or another position."""
    for entry in reader.log.entries_after(start.entry):
        if entry.log != start.log:
            return
        if until is not None and "until" not in until and entry.entry > until.get("entry", -1):
            return
        yield entry


def scan_parts(reader: Subscription, start: Offsets, end: Offsets) -> Iterator[TableEntry]:
    """Yield the parts that a sink reads between two positions.

    Raises SQ3434 or SQ3435 if the log lacks some.
    """
    first, last = position_of(start), position_of(end)
    if may_duplicate(reader, first) and not loss_accepted(reader, start):
        raise SinkqlError(
            "SQ3434",
            f'the log of "{reader.name}" no longer shows which changes the initial snapshot of the table contains',
            detail=f"The changes follow position {first.to}.",
            hint=SKIP,
        )
    position = resolve(reader, first, last)
    if position is None:  # a first batch can start elsewhere; rows in the table cannot be read again
        raise GoneError(
            "SQ3435",
            f'the log of "{reader.name}" no longer begins where the sink began',
            detail=f"The sink had read up to position {last.to}.",
            hint="Wait for the sink. It has not committed yet, and starts over.",
        )
    if position.log != last.log:
        raise reader.unreadable_error("The log began again.")
    for entry in entries(reader, position, end):
        part = reader.part(position, entry)
        if part is not None:
            yield part
        position = position_after(position, entry, part, reader.table.id)
    if position.entry != last.entry:
        raise reader.unreadable_error("The log began again.")


def step(reader: Subscription, start: Offsets, end: Offsets) -> Offsets:
    """Return the end of one batch between two positions.

    It ends before an entry with unchanged values of earlier rows.
    """
    position = resolve(reader, position_of(start), position_of(end)) if reader.unchanged_values else None
    if position is None:
        return end
    has_rows = False
    for entry in entries(reader, position, end):
        part = reader.part(position, entry)
        if part is not None:
            if has_rows and part.moved:
                return position.offsets()
            has_rows = has_rows or bool(part.files)
        position = position_after(position, entry, part, reader.table.id)
    return end


def before_truncate(reader: Subscription, position: LogPosition, *, last: bool = False) -> LogPosition | None:
    """Return the position before the next, or `last`, truncation of a table without a key.

    Return None if other changes come first, or if the source has ON TRUNCATE = FAIL.
    """
    if reader.change != "retract" or not position.done or reader.options.on_truncate == "fail":
        return None
    start = resolve(reader, position)
    if start is None:
        return None
    truncation = None
    for entry in reader.log.entries_after(start.entry):
        part = reader.part(start, entry) if entry.log == start.log else None
        if part is not None and part.emptied:
            truncation = msgspec.structs.replace(start, entry=entry.entry - 1, to=entry.start)
        if part is not None and not (last and truncation is not None):
            break
    return truncation


def _can_read(reader: Subscription, part: TableEntry, entry: Entry, *, is_first: bool) -> bool:
    """Return whether a part can join the batch. Raises for the batch's first part."""
    if part.emptied and reader.options.on_truncate == "fail":
        raise SinkqlError(
            "SQ3432",
            f'table "{".".join(reader.table.name)}" was truncated on the server',
            detail=f"The truncation is at or before position {entry.to}. The source has ON TRUNCATE = FAIL.",
            hint="Run ALTER SOURCE … SET (ON TRUNCATE = APPLY) to truncate the tables of its sinks too.",
        )
    if reader.options.on_error == "fail" and any(file.failed for file in part.files):
        if not is_first:
            return False
        file = next(file for file in part.files if file.failed)
        raise reader.error_policy.failure(data_file.split_failures(reader, entry.log, file)[0])
    return True


def _has_columns(reader: Subscription, position: LogPosition, entry: Entry, *, is_first: bool) -> bool:
    """Return whether the table has the sink's columns after an entry. Raises in an empty batch.

    A sink that continues after an accepted loss passes entries with missing changes.
    """
    if entry.kind != "schema" or entry.table != reader.table.id:
        return True
    name = ".".join(reader.table.name)
    if entry.lost and position.done and reader.messages.accepted_loss() is not None:
        return True
    if entry.lost and is_first:
        raise SinkqlError(
            "SQ3440",
            f'the server has not sent all changes of table "{name}"',
            detail=entry.problem,
            hint=f"Fix the problem in the detail on the server, if any. Then {SKIP[0].lower()}{SKIP[1:]}",
        )
    columns = {column.name: column for column in entry.columns}
    used = reader.used_columns
    changed = [
        column.name
        for column in reader.table.columns
        if (used is None or column.name in used) and not _is_same(column, columns.get(column.name))
    ]
    if not changed and tuple(entry.key) == reader.table.key:
        return True
    if not is_first:
        return False
    subject = f'column "{changed[0]}"' if changed else "the key"
    raise SinkqlError(
        "SQ3433",
        f'{subject} of table "{name}" was dropped, renamed or changed on the server',
        detail=entry.problem,
        hint="Run ALTER SOURCE … REFRESH REFERENCES; and restart the sink to use the table's present columns. First "
        "drop views that name the column and append sinks, and create them again afterwards, the sinks with new "
        "tables. Or restore the column on the server and run ALTER SOURCE … SKIP;",
    )


def _is_same(planned: physical.Column, column: Column | None) -> bool:
    """Return whether a column still fits its planned type; a column may have become NOT NULL."""
    return column is not None and column.type == str(planned.type) and (planned.nullable or not column.nullable)


_KEEPS_ROWS = "SQ3439"
"""The code of the loss after which a sink keeps its rows without a full refresh."""


def resolve(reader: Subscription, position: LogPosition, end: LogPosition | None = None) -> LogPosition | None:
    """Return a position in the present log, None if the log has not reached it.

    Raises SQ3434 if the changes after it are lost. `end` is the end of the batch that begins there, if known.
    """
    if not position.is_in_log:
        return _snapshot_start(reader, end) if end is not None else _join(reader)
    return position if is_same_log(reader, position) else translate_position(reader, position, end)


def is_same_log(reader: Subscription, position: LogPosition) -> bool:
    """Return whether the present log is the position's, and has the entry there or the next one."""
    numbers = (position.entry, position.entry + 1)
    return any((entry := reader.log.entry(number)) is not None and entry.log == position.log for number in numbers)


def loss_accepted(reader: Subscription, offsets: Offsets) -> bool:
    """Return whether the next changes are lost and a user has accepted the loss."""
    if not position_of(offsets).is_in_log:
        return False
    return reader.messages.accepted_loss() is not None or has_newer_epoch(reader, offsets)


def has_newer_epoch(reader: Subscription, offsets: Offsets) -> bool:
    """Return whether another capture epoch has begun since."""
    position = position_of(offsets)
    if not position.is_in_log or is_same_log(reader, position):
        return False
    return position.era < current_epoch(reader, reader.log.numbers())


def may_duplicate(reader: Subscription, position: LogPosition) -> bool:
    """Return whether the initial snapshot of a table without a key may contain the next changes.

    The log that left them out is lost, and another one has them.
    """
    is_early = reader.change == "retract" and position.done and position.to < position.high
    return is_early and not is_same_log(reader, position)


def keeps_table_rows(reader: Subscription) -> bool:
    """Return whether a user has accepted that the sink keeps its rows without a full refresh."""
    return reader.messages.accepted_loss() == messages.LossAcceptance(_KEEPS_ROWS)


def needs_full_refresh(reader: Subscription, position: LogPosition) -> bool:
    """Return whether a sink that continues after a loss reads all rows.

    A sink that began without an initial snapshot never does. The server may leave values out of changes
    of rows that the sink lacks.
    """
    overwrites = reader.unchanged_values or (reader.change == "upsert" and keeps_table_rows(reader))
    return not position.done or (overwrites and position.generation is not None)


def translate_position(
    reader: Subscription, position: LogPosition, end: LogPosition | None = None
) -> LogPosition | None:
    """Translate a position in a lost log to the present log; None if that has not reached it."""
    numbers = reader.log.numbers()
    if not numbers:
        return None
    if position.era < current_epoch(reader, numbers):
        return _after_loss(reader, position, numbers, end)
    following = None
    for number in numbers:
        entry = reader.log.entry(number)
        if entry is None:
            continue  # it was deleted after the listing
        if entry.start > position.to:
            break
        if entry.start == position.to or (reader.table.repeatable and entry.to > position.to):
            following = entry
            break
        if entry.to > position.to:  # the capture ends entries at sinks as soon as it knows them
            raise reader.unreadable_error(f"The sink is at position {position.to}, inside an entry.")
    if following is not None:
        return msgspec.structs.replace(position, log=following.log, entry=following.entry - 1)
    last = reader.log.entry(numbers[-1])
    if last is None or last.to < position.to:
        return None  # the log has not reached the position, or was lost once more
    if last.to == position.to:
        return msgspec.structs.replace(position, log=last.log, entry=last.entry)
    if reader.messages.accepted_loss() is not None:
        return _after_loss(reader, position, numbers, end)
    raise SinkqlError(
        "SQ3434",
        f'the log of "{reader.name}" no longer has the changes that follow those in the sink\'s table',
        detail=f"The changes follow position {position.to}.",
        hint=SKIP,
    )


def current_epoch(reader: Subscription, numbers: Sequence[int]) -> int:
    """Return the number of the present capture epoch, by its message or the log's last entry."""
    last = reader.log.entry(numbers[-1]) if numbers else None
    return max(messages.latest_epoch(reader.log.messages).number, last.era if last is not None else 0)


def _join(reader: Subscription) -> LogPosition | None:
    """Request a generation of the table; return the position before it if the log has all of it.

    If rows are pushed, the sink begins where the log does.
    """
    used = reader.used_columns
    columns = tuple(column for column in reader.table.typed if used is None or column[0] in used)
    reader.messages.request_snapshot(columns)
    if reader.table.pushed:
        first = next((entry for number in reader.log.numbers() if (entry := reader.log.entry(number))), None)
        if first is None:
            return None
        return LogPosition(first.log, first.entry - 1, first.start, done=True, begin=first.entry)
    number = reader.messages.joinable_entry()
    entry = reader.log.entry(number) if number is not None else None
    if entry is None or entry.kind != "begin" or entry.table != reader.table.id:
        return None
    if entry.generation is None or not entry.generation.has_columns(reader.table.typed):
        return None
    return LogPosition(entry.log, entry.entry - 1, entry.start, era=entry.era)


def _snapshot_start(reader: Subscription, position: LogPosition) -> LogPosition | None:
    """Return the position where a sink began to read; None if it is no longer in the log."""
    entry = reader.log.entry(position.begin)
    if entry is None or entry.log != position.log:
        return None
    return LogPosition(entry.log, entry.entry - 1, entry.start, era=entry.era)


def _after_loss(
    reader: Subscription, position: LogPosition, numbers: Sequence[int], end: LogPosition | None
) -> LogPosition | None:
    """Return the position where a sink continues after a loss: the beginning of the log.

    A sink that lacks rows of its initial snapshot, or may receive changes of rows that it lacks, reads all present
    rows.
    """
    if needs_full_refresh(reader, position):
        return _snapshot_start(reader, end) if end is not None else _join(reader)
    first, epoch = reader.log.entry(numbers[0]), messages.latest_epoch(reader.log.messages)
    if first is None or first.era < epoch.number:
        return None  # this log is about to be deleted
    to = max(first.start, epoch.translate(position.to))
    return LogPosition(first.log, first.entry - 1, to, done=True, era=first.era)
