"""A table of a captured source, as its log has it → splits of data files. Nothing in it reaches the server.

Offsets are a `LogPosition`: entry `entry` of log `log` and all before it were read. A log that was lost begins again
with other entries, in which places are found by `to`, the position of the server; while a snapshot is read by its
generation too. Before the first entry a sink waits for a generation of its table that it can read from its beginning.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from sinkql import codec, physical
from sinkql.capture import data_file, log_scan, messages
from sinkql.capture.log import DataFile
from sinkql.capture.log_store import FolderLogStore
from sinkql.capture.object_log_store import log_folder
from sinkql.capture.position import LogPosition, Target, position_of
from sinkql.capture.subscription import Subscription
from sinkql.connector_api.cdc import captured_source, captured_table
from sinkql.connector_api.stream import Context, FirstSnapshot, Limit, Measure, Offsets, Reader, Split, Tally
from sinkql.errors import DamagedFileError, SinkqlError

if TYPE_CHECKING:
    import pyarrow as pa

_SMALL_ROWS = 20_000
_SMALL_BYTES = 4 << 20
_PATIENCE_SECONDS = 60.0
_ELSEWHERE_SECONDS = 10.0
_SNAPSHOT = ("generation", "run", "chunks", "done")


@dataclass(frozen=True, slots=True)
class LogReader(Subscription, Reader):
    """Read a table of a captured source from its log."""

    since: float = field(default_factory=time.time, compare=False)
    """When it was made: what the capture met before that may have been mended."""
    _passed: log_scan.ScanCache = field(default_factory=log_scan.ScanCache, repr=False, compare=False)

    @classmethod
    def of(cls, read: physical.Read, context: Context) -> LogReader:
        """Return the reader of a planned table; SQ3430 for one that is in no catalog."""
        source, keeping = captured_source(read.connector, read.options, None, read.log)
        if not source.id:
            raise SinkqlError(
                "SQ3430",
                f'source "{read.name}" was compiled, not created: nothing captures it',
                hint="Run CREATE SOURCE with sinkql exec, and run the sink from that catalog.",
            )
        log = log_folder(context.folder.parent.parent, source, keeping, context.store, open_notes=context.open_notes)
        return cls(read.name, context.sink_id, log, captured_table(read), keeping, read.change, read.holes)

    # --- where a sink begins, and where a run ends -------------------------------------------------------------------

    def initial(self, *, at_end: bool) -> Offsets:
        """Return the place before any log, or the log's present end."""
        if not at_end:
            return LogPosition().offsets()
        now = self._ask()
        place = LogPosition(now.log, now.entry, now.at, done=True, era=now.era)
        if self._told() is None:
            self._tell(place)
        return place.offsets()

    def target(self, start: Offsets) -> Offsets:
        """Return all that has committed on the server by now; SQ3431 where no capture answers."""
        return msgspec.to_builtins(Target(self._ask().to))  # type: ignore[no-any-return]  # of any struct

    def target_reached(self, offsets: Offsets, target: Offsets) -> bool:
        """Tell whether a target is reached: the snapshot is whole, and no change of it is still to come."""
        place = position_of(offsets)
        if "until" not in target:
            return place.done and place.log == target["log"] and place.entry >= target["entry"]
        until = codec.convert(target, Target).until
        return place.done and place.to >= until and place.to >= place.high and not self.refresh_outdated(offsets)

    def local_only(self) -> bool:
        """Tell whether the log lies in a folder of this machine."""
        return isinstance(self.log.store, FolderLogStore)

    def comparable_position(self, offsets: Offsets) -> Offsets | None:
        """Return the place in the log; None before the first snapshot is whole, for each sink has its own."""
        place = position_of(offsets)
        if not place.done or place.to < place.high or self.refresh_outdated(offsets):
            return None
        return {"log": place.log, "entry": place.entry}

    def can_full_refresh(self) -> bool:
        """Tell whether the server has the rows: those that are pushed are in the log alone."""
        return not self.table.pushed

    def target_at(self, offsets: Offsets) -> Offsets:
        """Return the target of all that had committed up to a place: its snapshot may not be read twice."""
        return msgspec.to_builtins(Target(position_of(offsets).to))  # type: ignore[no-any-return]  # of any struct

    def _ask(self) -> messages.EndReply:
        found = messages.request_end(self.notes, self.table.id, patience=_PATIENCE_SECONDS)
        if found is not None:
            return found
        failing = messages.failure(self.notes, self.table.id, self.since)
        if failing is not None:
            raise failing[0]
        raise SinkqlError(
            "SQ3431",
            f'the process that captures the source of "{self.name}" does not answer',
            hint="The sink tries again by itself. If it goes on, see whether the machine or the server is overloaded.",
        )

    # --- what there is -----------------------------------------------------------------------------------------------

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return how far whole entries go within the limit, at least one.

        A batch ends before an entry that empties the table, or has other columns than the sink needs. Raises what the
        capture cannot get over where nothing more is there.
        """
        before = position_of(start)
        begun = log_scan.resolve(self, before)
        if begun is None:
            self._check_capture()
            self._check_here()
            return start
        found = self._passed.walk(begun) if until is None else log_scan.LogScan(begun)
        found.turned |= log_scan.loss_accepted(self, start)
        at = found.place.entry
        for entry in log_scan.entries(self, found.place, until):
            if found.began_at is None:
                found.began_at = entry.at
            if (until is not None and self._ends(found.place, until)) or not log_scan.advance(
                self, found, entry, limit
            ):
                break
        nothing = found.place.entry == at or not (found.rows or found.turned)
        if nothing and not (until is not None and self._ends(found.place, until)):
            self._check_capture(patience=0.0 if until is None else _PATIENCE_SECONDS)
        if found.idle() and until is None:
            self._passed.keep(begun, found)
            return start
        moved = found.place != begun or found.turned or not before.began  # where nothing was pushed, too
        return found.place.offsets() if moved else start

    def _ends(self, place: LogPosition, until: Offsets) -> bool:
        """Tell whether a place is a target, or the other place, up to which was asked."""
        return (
            self.target_reached(place.offsets(), until) if "until" in until else place.entry >= until.get("entry", -1)
        )

    def _check_capture(self, patience: float = 0.0) -> None:
        """Raise what the capture cannot get over; what may pass, once it has not for so many seconds."""
        found = messages.failure(self.notes, self.table.id, self.since)
        if found is None:
            return
        error, failing = found
        if not error.retryable or time.time() >= failing + patience:
            raise error

    def _check_here(self) -> None:
        """Raise SQ3444 where another machine has the log, and has had it for a while: nothing of it comes here."""
        said = messages.status(self.notes)
        elsewhere = said is not None and said.where not in ("", self.log.where)
        if said is None or not elsewhere or time.time() < self.since + _ELSEWHERE_SECONDS or self.log.numbers():
            return
        raise SinkqlError(
            "SQ3444",
            f'the log of "{self.name}" is on another host',
            detail=f"it is in {said.where}",
            hint="Run the sink there, or stop what runs there; the sink goes on by itself then. A source that is "
            "created IN CLUSTER of one with STATE, or with LOG, has its log where all hosts reach it.",
        )

    # --- places ------------------------------------------------------------------------------------------------------

    def wants_full_refresh(self, offsets: Offsets) -> bool:
        """Tell whether changes that follow are lost, and a user has accepted that; rows that are pushed come once.

        Or whether what follows empties a table without a key, or has what its first snapshot had.
        """
        if self.table.pushed or log_scan.keeps_table_rows(self):
            return False
        place = position_of(offsets)
        return (
            log_scan.loss_accepted(self, offsets)
            or log_scan.may_duplicate(self, place)
            or log_scan.before_truncate(self, place) is not None
        )

    def full_refresh_start(self, offsets: Offsets) -> Offsets:
        """Return the beginning of the table, or where it was emptied last."""
        place = position_of(offsets)
        whole = log_scan.loss_accepted(self, offsets) or log_scan.may_duplicate(self, place)
        emptied = None if whole else log_scan.before_truncate(self, place, last=True)
        return emptied.offsets() if emptied is not None else self.initial(at_end=False)

    def refresh_outdated(self, offsets: Offsets) -> bool:
        """Tell whether another era has begun since."""
        return log_scan.has_newer_epoch(self, offsets)

    def translate_end(self, start: Offsets, end: Offsets) -> Offsets | None:
        """Return the end in the present log; None where an entry goes past it, or chunks are other ones now."""
        begun, stop = position_of(start), position_of(end)
        if not stop.began or log_scan.is_same_log(self, stop):
            return end
        if not begun.began or any(getattr(begun, each) != getattr(stop, each) for each in _SNAPSHOT):
            return None
        entries = [each for number in self.log.numbers() if (each := self.log.entry(number))]
        if any(each.start < stop.to < each.to for each in entries) or stop.era < log_scan.current_epoch(
            self, self.log.numbers()
        ):
            return None
        found = log_scan.translate_position(self, stop)
        if found is None:
            raise self.unreadable(f"a batch was begun that ends at position {stop.to}")
        parts = list(log_scan.scan_parts(self, start, found.offsets()))
        return found.offsets() if not (self.holes and any(each.moved for each in parts[1:])) else None

    # --- what is read ------------------------------------------------------------------------------------------------

    def truncated_between(self, start: Offsets, end: Offsets) -> bool:
        """Tell whether the table was emptied before the rows between two places."""
        return any(part.emptied for part in log_scan.scan_parts(self, start, end))

    def snapshot_running(self, start: Offsets) -> bool:
        """Tell whether chunks are still to come, or changes that may be in them."""
        place = position_of(start)
        return (
            not place.done
            or place.to < place.high
            or (log_scan.needs_full_refresh(self, place) and log_scan.loss_accepted(self, start))
        )

    def step(self, start: Offsets, end: Offsets) -> Offsets:
        """Return the place before the next entry whose rows lack values of others that came before it."""
        return log_scan.step(self, start, end)

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return groups of data files, a quarter of a million rows each, in order; one where rows come and go.

        A first snapshot alone has several: nothing goes in it.

        What was there before the table was emptied is in none of them.
        """
        parts = list(log_scan.scan_parts(self, start, end))
        emptied = max((number for number, part in enumerate(parts) if part.emptied), default=0)
        files = [file for part in parts[emptied:] for file in part.files]
        groups = data_file.group_files(self, files, whole=not self.snapshot_alone(position_of(start), position_of(end)))
        return [{"log": end["log"], "files": msgspec.to_builtins(files)} for files in groups]

    def using(self, names: frozenset[str]) -> LogReader:
        """Return a reader that goes on where other columns are dropped or renamed."""
        return replace(self, used=names)

    def with_columns(self, names: tuple[str, ...]) -> LogReader:
        """Return a reader of these columns."""
        columns = tuple(each for each in self.table.columns if each.name in names)
        return replace(self, table=replace(self.table, columns=columns))

    def fits_in_process(self, splits: Sequence[Split]) -> bool:
        """Tell by what entries say of their files."""
        files = [file for split in splits for file in codec.convert(split["files"], list[DataFile])]
        return sum(file.rows for file in files) <= _SMALL_ROWS and sum(file.bytes for file in files) <= _SMALL_BYTES

    def read(self, split: Split, tally: Tally) -> Iterator[pa.RecordBatch]:
        """Yield the rows of data files, in order; those that come and go within the split are left out."""
        batches = data_file.read_split(self, split, tally)
        if self.change != "retract":
            yield from batches
            return
        from sinkql.storage.consolidate import consolidate

        found = consolidate(came := list(batches))
        # a row that came and went counts each time
        tally.dropped += sum(map(len, came)) - sum(map(len, found))
        yield from found

    # --- what sinks tell ---------------------------------------------------------------------------------------------

    def on_task_failure(self, error: SinkqlError) -> None:
        """Tell the capture of a data file that a task has found damaged, which may be on another machine."""
        if isinstance(error, DamagedFileError) and error.damaged[0] == str(self.folder):
            _, log, file = error.damaged
            messages.send(self.notes, "damaged", messages.DamagedFileReport(log, file))

    def on_resume(self, offsets: Offsets) -> None:
        """Tell the capture where the sink's table is; that it waits no longer, unless it is to read all rows again."""
        place = position_of(offsets)
        if not place.began:
            return
        if self._told() != place.at(self.table.id):
            self._tell(place)
        if not self.wants_full_refresh(offsets):
            self.notes.remove(self.wish)

    def verify(self, offsets: Offsets) -> None:
        """Raise SQ3434 where the log does not go on there, SQ3435 where it will once it was read again."""
        place = position_of(offsets)
        if place.began:
            log_scan.resolve(self, place)

    def before_commit(self, end: Offsets) -> None:
        """Tell the capture what it has to know if the commit is the last that the sink does, and the log is lost.

        It is to keep what follows the place of a sink that it knows to wait alone: for a generation of that log. And
        to know up to where changes may be in the sink's rows: holes in those are filled by the server.
        """
        place, told = position_of(end), self._told()
        if not place.began:
            return
        if told is None:
            if self.notes.read(self.wish) is not None:
                self._tell(place)
        elif told.high < place.high:
            messages.send(self.notes, self.at, msgspec.structs.replace(told, high=place.high))

    def after_commit(self, end: Offsets) -> None:
        """Tell the capture how far the sink's table is."""
        place = position_of(end)
        if not place.began:
            return
        self._tell(place)
        self.notes.remove(self.wish, self.skip)

    def _told(self) -> messages.ReaderPosition | None:
        found: messages.ReaderPosition | None = messages.receive(self.notes, self.at, messages.ReaderPosition)
        return found

    def _tell(self, place: LogPosition) -> None:
        messages.send(self.notes, self.at, place.at(self.table.id))

    def is_consistent(self, offsets: Offsets) -> bool | None:
        """Tell whether no chunk is still to come, nor changes that may be in one; rows that are pushed have none."""
        return None if self.table.pushed else not self.snapshot_running(offsets)

    def measure(self, offsets: Offsets) -> Measure:
        """Return how far the first snapshot is: how far changes are is known to the capture."""
        place = position_of(offsets)
        if self.table.pushed:
            return Measure()
        if place.done:  # but changes may be still to come that are in chunks
            done = self.is_consistent(offsets) is True
            return Measure(snapshot=FirstSnapshot(place.rows, place.rows, place.chunks, place.chunks, done=done))
        said = messages.receive(self.notes, "snapshots", messages.Snapshots)
        found = said.tables.get(self.table.id) if said is not None else None
        if found is None:
            return Measure(snapshot=FirstSnapshot())
        return Measure(
            snapshot=FirstSnapshot(
                found.rows, found.of_rows, found.chunks, found.of_chunks, seconds_left=found.seconds_left
            )
        )

    def lag(self, offsets: Offsets) -> float:
        """Return the age of the oldest entry beyond the place that has rows of the table, in seconds."""
        place = position_of(offsets)
        for entry in self.log.after(place.entry) if place.began else ():
            if entry.log != place.log:
                break
            if self.part(place, entry) is not None:
                return max(0.0, time.time() - entry.at)
        return 0.0
