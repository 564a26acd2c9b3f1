"""A table of a captured source → splits of data files in the source's log. The server is never read.

Offsets are a `LogPosition`: entry `entry` of log `log` and all entries before it were read. A lost log begins again
with other entries. A position in it is then found by `to`, the position on the server, and during a snapshot also by
its generation. Before its first entry a sink waits for a generation of its table that it can read from the beginning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from sinkql import codec, physical
from sinkql.capture import data_file, log_scan
from sinkql.capture.log import DataFile
from sinkql.capture.log_store import FolderLogStore
from sinkql.capture.object_log_store import open_log_directory
from sinkql.capture.position import LogPosition, Target, position_of
from sinkql.capture.subscription import Subscription
from sinkql.connector_api.cdc import captured_source, captured_table
from sinkql.connector_api.stream import (
    Context,
    FirstSnapshot,
    Limit,
    Measure,
    Offsets,
    ReadCounts,
    Reader,
    RefreshableReader,
    Size,
    SnapshotReader,
    Split,
)
from sinkql.errors import DamagedFileError, SinkqlError
from sinkql.machine import clock

if TYPE_CHECKING:
    import pyarrow as pa

_SNAPSHOT_FIELDS = ("generation", "run", "chunks", "done")


@dataclass(frozen=True, slots=True)
class LogReader(Subscription, Reader, SnapshotReader, RefreshableReader):
    """The reader of a captured table. Its messages to the capture go through `messages`."""

    _scans: log_scan.ScanCache = field(default_factory=log_scan.ScanCache, repr=False, compare=False)

    @classmethod
    def from_read(cls, read: physical.Read, context: Context) -> LogReader:
        """Return the reader of a planned table. Raises SQ3430 if the source is in no catalog."""
        source, options = captured_source(read.connector, read.options, None, read.log)
        if not source.id:
            raise SinkqlError(
                "SQ3430",
                f'source "{read.name}" was compiled but not created, so nothing captures it',
                hint="Run CREATE SOURCE with sinkql exec, and run the sink from that catalog.",
            )
        catalog_folder = context.folder.parent.parent
        log = open_log_directory(catalog_folder, source, options, context.store, open_notes=context.open_notes)
        return cls(read.name, context.sink_id, log, captured_table(read), options, read.change, read.holes)

    @property
    def snapshot(self) -> LogReader:
        """Return the reader itself: the log has initial snapshots and truncations."""
        return self

    @property
    def full_refresh(self) -> LogReader:
        """Return the reader itself: the log can lose changes."""
        return self

    # --- where a sink begins, and where a run ends -------------------------------------------------------------------

    def initial(self, *, at_end: bool) -> Offsets:
        """Return the position before any log, or the log's present end."""
        if not at_end:
            return LogPosition().offsets()
        end = self.messages.request_end()
        position = LogPosition(end.log, end.entry, end.at, done=True, era=end.era)
        if self.messages.position() is None:
            self.messages.send_position(position.at(self.table.id))
        return position.offsets()

    def target(self, start: Offsets) -> Offsets:
        """Return the target of the server's present commits. Raises SQ3431 without a capture."""
        return msgspec.to_builtins(Target(self.messages.request_end().to))  # type: ignore[no-any-return]  # of any struct

    def target_reached(self, offsets: Offsets, target: Offsets) -> bool:
        """Return whether the snapshot is complete and the sink has all changes up to a target."""
        position = position_of(offsets)
        if "until" not in target:
            return position.done and position.log == target["log"] and position.entry >= target["entry"]
        until = codec.convert(target, Target).until
        has_changes = position.done and position.to >= until and position.to >= position.high
        return has_changes and not self.refresh_outdated(offsets)

    def local_only(self) -> bool:
        """Return whether the log is in a folder of this machine."""
        return isinstance(self.log.store, FolderLogStore)

    def comparable_position(self, offsets: Offsets) -> Offsets | None:
        """Return the position in the log; None during the sink's own initial snapshot."""
        position = position_of(offsets)
        if not position.done or position.to < position.high or self.refresh_outdated(offsets):
            return None
        return {"log": position.log, "entry": position.entry}

    def restart_of(self, offsets: Offsets) -> Offsets:
        """Return the position before any log: a snapshot is read again with another generation."""
        return self.initial(at_end=False)

    def can_full_refresh(self) -> bool:
        """Return whether the server has the rows; pushed rows are in the log alone."""
        return not self.table.pushed

    def target_at(self, offsets: Offsets) -> Offsets:
        """Return the target of all commits up to a position; its snapshot cannot be read twice."""
        return msgspec.to_builtins(Target(position_of(offsets).to))  # type: ignore[no-any-return]  # of any struct

    # --- batches -----------------------------------------------------------------------------------------------------

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return the end of the next batch: whole entries within the limit, at least one.

        A batch ends before an entry that truncates the table or changes the sink's columns. Raises the capture's error
        if there is no new entry.
        """
        first = position_of(start)
        position = log_scan.resolve(self, first)
        if position is None:
            self.messages.check_capture(is_patient=False)
            self.messages.check_location()
            return start
        scan = self._scans.scan(position) if until is None else log_scan.LogScan(position)
        scan.must_commit |= log_scan.loss_accepted(self, start)
        begin = scan.position.entry
        for entry in log_scan.entries(self, scan.position, until):
            if scan.first_at is None:
                scan.first_at = entry.at
            if _is_end(self, scan.position, until) or not log_scan.advance(self, scan, entry, limit):
                break
        has_news = scan.position.entry != begin and (scan.rows or scan.must_commit)
        if not has_news and not _is_end(self, scan.position, until):
            self.messages.check_capture(is_patient=until is not None)
        if scan.is_idle() and until is None:
            self._scans.store(position, scan)
            return start
        has_moved = scan.position != position or scan.must_commit or not first.is_in_log  # also without pushed rows
        return scan.position.offsets() if has_moved else start

    def step(self, start: Offsets, end: Offsets) -> Offsets:
        """Return the position before the next entry with unchanged values of earlier rows."""
        return log_scan.step(self, start, end)

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return groups of data files in order, of a quarter of a million rows each.

        If changes can retract rows, there is one group, except for an initial snapshot, which only adds rows. Files
        from before a truncation are left out.
        """
        parts = list(log_scan.scan_parts(self, start, end))
        first = max((index for index, part in enumerate(parts) if part.emptied), default=0)
        files = [file for part in parts[first:] for file in part.files]
        only_adds = self.is_snapshot_alone(position_of(start), position_of(end))
        groups = data_file.group_files(self, files, one_group=not only_adds)
        return [{"log": end["log"], "files": msgspec.to_builtins(group)} for group in groups]

    def using(self, names: frozenset[str]) -> LogReader:
        """Return a reader that continues when columns other than these are dropped or renamed."""
        return replace(self, used_columns=names)

    def with_columns(self, names: tuple[str, ...]) -> LogReader:
        """Return a reader of some columns."""
        columns = tuple(column for column in self.table.columns if column.name in names)
        return replace(self, table=replace(self.table, columns=columns))

    def size(self, splits: Sequence[Split]) -> Size:
        """Return the rows of the splits' files, and their bytes, which are compressed lightly."""
        files = [file for split in splits for file in codec.convert(split["files"], list[DataFile])]
        return Size(sum(file.rows for file in files), sum(file.bytes for file in files))

    def read(self, split: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        """Yield the rows of data files in order.

        Rows that are both added and retracted within the split are left out.
        """
        batches = data_file.read_split(self, split, read_counts)
        if self.change != "retract":
            yield from batches
            return
        from sinkql.storage.consolidate import consolidate  # loads pyarrow.compute

        rows = list(batches)
        consolidated = consolidate(rows)
        # an added and retracted row counts as two
        read_counts.dropped += sum(map(len, rows)) - sum(map(len, consolidated))
        yield from consolidated

    # --- losses and truncations --------------------------------------------------------------------------------------

    def verify(self, offsets: Offsets) -> None:
        """Raise SQ3434 if the log lacks the next changes, SQ3435 if it must be read again first."""
        position = position_of(offsets)
        if position.is_in_log:
            log_scan.resolve(self, position)

    def wants_full_refresh(self, offsets: Offsets) -> bool:
        """Return whether the sink must compute all rows again; pushed rows never are.

        The next changes are lost and a user accepted that; or, for a table without a key, they truncate it or repeat
        its initial snapshot.
        """
        if self.table.pushed or log_scan.keeps_table_rows(self):
            return False
        position = position_of(offsets)
        return (
            log_scan.loss_accepted(self, offsets)
            or log_scan.may_duplicate(self, position)
            or log_scan.before_truncate(self, position) is not None
        )

    def full_refresh_start(self, offsets: Offsets) -> Offsets:
        """Return the beginning of the table, or its last truncation."""
        position = position_of(offsets)
        if not log_scan.loss_accepted(self, offsets) and not log_scan.may_duplicate(self, position):
            truncation = log_scan.before_truncate(self, position, last=True)
            if truncation is not None:
                return truncation.offsets()
        return self.initial(at_end=False)

    def refresh_outdated(self, offsets: Offsets) -> bool:
        """Return whether another capture epoch has begun since."""
        return log_scan.has_newer_epoch(self, offsets)

    def translate_end(self, start: Offsets, end: Offsets) -> Offsets | None:
        """Translate the end of a batch to the present log; None if it is inside an entry.

        Also None if the batch reads chunks, as these differ in another log.
        """
        first, last = position_of(start), position_of(end)
        if not last.is_in_log or log_scan.is_same_log(self, last):
            return end
        if not first.is_in_log or any(getattr(first, name) != getattr(last, name) for name in _SNAPSHOT_FIELDS):
            return None
        numbers = self.log.numbers()
        entries = [entry for number in numbers if (entry := self.log.entry(number))]
        if any(entry.start < last.to < entry.to for entry in entries):
            return None
        if last.era < log_scan.current_epoch(self, self.log.numbers()):
            return None
        position = log_scan.translate_position(self, last)
        if position is None:
            raise self.unreadable_error(f"A batch has begun that ends at position {last.to}.")
        parts = list(log_scan.scan_parts(self, start, position.offsets()))
        is_split = self.unchanged_values and any(part.moved for part in parts[1:])
        return None if is_split else position.offsets()

    def truncated_between(self, start: Offsets, end: Offsets) -> bool:
        """Return whether the table was truncated before the rows between two positions."""
        return any(part.emptied for part in log_scan.scan_parts(self, start, end))

    def snapshot_running(self, start: Offsets) -> bool:
        """Return whether chunks are still to come, or changes that the chunks may contain."""
        position = position_of(start)
        if not position.done or position.to < position.high:
            return True
        return log_scan.needs_full_refresh(self, position) and log_scan.loss_accepted(self, start)

    # --- messages to the capture -------------------------------------------------------------------------------------

    def on_task_failure(self, error: SinkqlError) -> None:
        """Report a data file that a task, perhaps on another machine, found damaged."""
        if isinstance(error, DamagedFileError) and error.damaged[0] == str(self.folder):
            _, log, file = error.damaged
            self.messages.report_damage(log, file)

    def on_resume(self, offsets: Offsets) -> None:
        """Send the sink's position; remove its request unless it needs a full refresh."""
        position = position_of(offsets)
        if not position.is_in_log:
            return
        if self.messages.position() != position.at(self.table.id):
            self.messages.send_position(position.at(self.table.id))
        if not self.wants_full_refresh(offsets):
            self.messages.remove_request()

    def before_commit(self, end: Offsets) -> None:
        """Send what the capture must know if this is the sink's last commit and the log is lost.

        The capture must keep the changes after the position of a sink that it knows only by its request, for a
        generation of that log. It must also know the sink's high watermark: up to it, the server fills unchanged
        values.
        """
        position, sent = position_of(end), self.messages.position()
        if not position.is_in_log:
            return
        if sent is None:
            if self.messages.has_request():
                self.messages.send_position(position.at(self.table.id))
        elif sent.high < position.high:
            self.messages.send_position(msgspec.structs.replace(sent, high=position.high))

    def after_commit(self, end: Offsets) -> None:
        """Send the position of the sink's table."""
        position = position_of(end)
        if not position.is_in_log:
            return
        self.messages.send_position(position.at(self.table.id))
        self.messages.remove_request_and_acceptance()

    # --- metrics -----------------------------------------------------------------------------------------------------

    def is_consistent(self, offsets: Offsets) -> bool | None:
        """Return whether the sink has the whole initial snapshot; None if rows are pushed."""
        return None if self.table.pushed else not self.snapshot_running(offsets)

    def measure(self, offsets: Offsets) -> Measure:
        """Return the progress of the initial snapshot; the capture measures the changes."""
        position = position_of(offsets)
        if self.table.pushed:
            return Measure()
        if position.done:  # changes that its chunks may contain can still follow
            done = self.is_consistent(offsets) is True
            rows, chunks = position.rows, position.chunks
            return Measure(snapshot=FirstSnapshot(rows, rows, chunks, chunks, done=done))
        return Measure(snapshot=self.messages.snapshot_progress())

    def lag(self, offsets: Offsets) -> float:
        """Return the age in seconds of the oldest entry after a position with rows of the table."""
        position = position_of(offsets)
        for entry in self.log.entries_after(position.entry) if position.is_in_log else ():
            if entry.log != position.log:
                break
            if self.part(position, entry) is not None:
                return max(0.0, clock.time() - entry.at)
        return 0.0


def _is_end(reader: LogReader, position: LogPosition, until: Offsets | None) -> bool:
    """Return whether a position has reached a target or another position."""
    if until is None:
        return False
    if "until" in until:
        return reader.target_reached(position.offsets(), until)
    return position.entry >= int(until.get("entry", -1))
