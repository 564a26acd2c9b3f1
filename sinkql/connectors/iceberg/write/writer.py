"""A sink's `Write` → the writer that owns its Iceberg table while the job runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from uuid import uuid4

import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from sinkql import physical
from sinkql.connector_api.stream import (
    Checkpoint,
    Committed,
    Compacted,
    Context,
    JobOffsets,
    PlanChange,
    StaleFilesError,
    Writer,
    WriteResult,
    WriteTask,
)
from sinkql.connectors.iceberg.commit import checkpoint as markers
from sinkql.connectors.iceberg.commit.committer import (
    check_still_ours,
    commit_proposal,
    held,
    recreated,
    retries_exhausted,
    same_table,
)
from sinkql.connectors.iceberg.commit.maintenance import OrphanFiles, expire, expired
from sinkql.connectors.iceberg.commit.proposal import BatchCommit, Claim, schema_of_claim, take
from sinkql.connectors.iceberg.commit.snapshot import selfcheck
from sinkql.connectors.iceberg.compact.compaction import remove
from sinkql.connectors.iceberg.file.reader import live_rows
from sinkql.connectors.iceberg.storage import job_stores, storing
from sinkql.connectors.iceberg.table.catalog import open_catalog
from sinkql.connectors.iceberg.table.metadata_file import PREFIX, SUFFIX, metadata_path, read, write_again, write_once
from sinkql.connectors.iceberg.table.schema import Layout
from sinkql.connectors.iceberg.table.table import Expected, check, ensure, foreign_rows, own_empty, rows, with_schema
from sinkql.connectors.iceberg.table.tag import TagState
from sinkql.connectors.iceberg.table.target import TargetTable
from sinkql.connectors.iceberg.write.append import AppendMode
from sinkql.connectors.iceberg.write.compaction import CompactionSchedule
from sinkql.connectors.iceberg.write.mode import WriteMode
from sinkql.connectors.iceberg.write.upsert import UpsertMode
from sinkql.errors import CrowdedError
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint

_SWEEP_EVERY = 20
_OLD = 86400.0
"""Seconds; what no snapshot names is deleted by cleaners of S3 Tables after three days, by others after a week."""
_CLAIMED = "table.uuid"


def open_writer(write: physical.Write, context: Context) -> IcebergWriter:
    """Return the writer of a job; reaches the catalog only in `open`."""
    return IcebergWriter(write, context)


class IcebergWriter(Writer):
    """Own one Iceberg table. The table is the record: every batch begins with a load."""

    def __init__(self, write: physical.Write, context: Context) -> None:
        self._write = write
        self._context = context
        self._expected = Expected(
            write.columns,
            changelog=write.changelog,
            upsert=write.mode == "upsert",
            layout=Layout.of(write.options),
            version=write.options.get("format_version", 2),
        )
        self._opened: TargetTable | None = None
        self._mode: WriteMode | None = None
        self._compacting: CompactionSchedule | None = None
        self._leftovers: OrphanFiles | None = None
        self._table: Table | None = None
        self._kept: markers.StoredCheckpoint | None = None
        self._mine: Checkpoint | None = None
        self._switch: PlanChange | None = None
        self._coming: Schema | None = None
        self._commits = 0

    def open(self) -> None:
        """Open the catalog, create namespace and table if absent; refuse what does not fit, and foreign rows."""
        selfcheck()
        write = self._write
        options = write.connection.options
        stores = job_stores(write, self._context)
        target = TargetTable(
            catalog=open_catalog(write.connection.name, options, self._context, stores),
            namespace=write.options["namespace"],
            table=write.options["table"],
            connection=write.connection.name,
            hint_file=options["catalog_type"] == "sql",
            branch=write.options.get("branch"),
            # S3 Tables expires no snapshots of a table with tags
            tags=TagState(taken=options["catalog_type"] != "s3tablesrest"),
        )
        self._opened = target
        claimed = None if write.options.get("letters") else self._claimed_before()  # theirs is made anew
        table = ensure(target, self._expected, sink_id=self._context.sink_id, claimed=claimed is not None)
        kept = markers.find(table, self._context.sink_id)
        if kept is None and claimed not in (None, str(table.metadata.table_uuid)):
            raise recreated(table)
        known = kept is not None or own_empty(table, self._context.sink_id)
        if not known:  # else the claim checks it, and may give it other columns
            check(table, self._expected)
            if not self._keep_rows and rows(table):
                raise foreign_rows(table)
        self._table = table

    def load_checkpoint(self) -> Checkpoint | None:
        """Reload the table and return the marker that holds now; raises SQ3501 where the table was rolled back."""
        table = self._load()
        kept = markers.find(table, self._context.sink_id)
        failpoint.point("read-marker")
        return kept.marker if kept else None

    def claim(
        self,
        initial: JobOffsets,
        *,
        epoch: int,
        switch: PlanChange | None = None,
        renew: Callable[[], None] | None = None,
    ) -> Checkpoint:
        """Take the table with an epoch above its own and not below `epoch`; `initial` is for what it does not know."""
        keep, sink = self._keep_rows, self._context.sink_id
        claim = Claim(sink, initial, self._expected, floor=epoch, keep_rows=keep, switch=switch, renew=renew)
        self._mine = None
        self._table = take(self._target, self._load(), claim)
        kept = markers.find(self._table, sink)
        assert kept is not None
        self._note_claim(self._table)
        self._mine, self._kept, self._mode, self._switch = kept.marker, kept, self._new_mode(), switch
        self._commits = kept.marker.epoch  # of a sink that runs for one batch each time, some sweep too
        self._compacting = compacting = CompactionSchedule(self._target, self._mode, self._expected)
        sql = self._target.hint_file
        self._leftovers = OrphanFiles(
            self._load, compacting.busy, sink=kept.marker.sink, epoch=kept.marker.epoch, sql=sql
        )
        return kept.marker

    def refresh(self) -> Checkpoint:
        """Reload the table and return its marker; raises SQ5101 (fenced), SQ3501, SQ3503, SQ3504, SQ3556."""
        assert self._mine is not None, "refresh before claim"
        table = self._load()
        anew = self._switch is not None and self._mine.plan in self._switch.again
        while True:
            self._coming = self._next_schema(table) if anew else None
            self._kept = check_still_ours(table, self._mine, self._expected, self._coming)
            failpoint.point("read-marker")
            try:
                with storing(self._name):
                    if anew:
                        self._rebuilding.refresh_to_rebuild(with_schema(table, self._coming), self._kept)
                    else:
                        self._mode_of.refresh(table, self._kept)
                break
            except FileNotFoundError as error:
                table = self._moved_on(table, error)
        self._table = table
        return self._kept.marker

    def _moved_on(self, table: Table, missing: FileNotFoundError) -> Table:
        """Return the table as it is by now where somebody has expired what was read of it; else raise SQ3556."""
        now = self._load()
        if now.metadata.current_snapshot_id == table.metadata.current_snapshot_id:
            raise self._target.lost_file(missing) from missing
        return now

    def _next_schema(self, table: Table) -> Schema | None:
        sink = self._context.sink_id
        return schema_of_claim(table, self._expected, markers.find(table, sink), sink=sink, switch=self._switch)

    def invalidate_index(self) -> None:
        """Make the index of the table anew at the next refresh."""
        self._mode_of.invalidate_index()

    def begin(self, *, bucketing: str, buckets: int, cleared: bool = False) -> WriteTask:
        """Return the task of a new attempt on the table as it was refreshed."""
        table, kept = self._known
        mode, commit = self._mode_of, uuid4().hex
        return mode.begin(table, kept, commit=commit, bucketing=bucketing, buckets=buckets, cleared=cleared)

    def commit(self, task: WriteTask, results: Sequence[WriteResult], marker: Checkpoint) -> Committed:
        """Commit one snapshot with the task's files and the new marker; never twice.

        Raises RedoBatchError where the attempt is of no use any more, SQ5101 (fenced), SQ35xx, and SQ42xx where the
        catalog does not answer for long: then the outcome is unknown, and the next claim settles it.
        """
        return self._commit(task, results, marker)

    def replace_files(
        self, task: WriteTask, results: Sequence[WriteResult], marker: Checkpoint, gone: frozenset[str]
    ) -> None:
        """Commit one snapshot with the task's files in the place of others."""
        mode = self._mode_of
        assert isinstance(mode, AppendMode), "not an append sink"
        self._commit(task, results, marker, gone)
        mode.exchanged(gone)

    def rows_by_file(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield the rows of each file; raises SQ3554 for a file or a delete that SinkQL does not read."""
        table, _ = self._known
        with storing(self._name):
            yield from live_rows(table)

    def _commit(
        self,
        task: WriteTask,
        results: Sequence[WriteResult],
        marker: Checkpoint,
        gone: frozenset[str] = frozenset(),
    ) -> Committed:
        table, kept = self._known
        with storing(self._name):
            change, index = self._mode_of.stage(task, results)
        change = replace(change, remove=change.remove | gone)
        marker = replace(marker, index=index)
        timestamp = max(kept.timestamp, self._mode_of.timestamp(task))
        batch = BatchCommit(change, marker, kept.marker.commit, timestamp, self._expected)
        try:
            self._table = commit_proposal(self._target, table, batch)
        except (StaleFilesError, CrowdedError) as error:
            if retries_exhausted(error):
                remove(table, change.add)
            raise
        # Others may have committed since: what is known of the rows holds for this commit's own snapshot.
        done = markers.written_by(self._table, marker.sink, marker.commit)
        self._kept = done or markers.StoredCheckpoint(marker, timestamp, snapshot=0, sequence=0)
        self._mode_of.on_commit(self._kept.snapshot)
        sizes = {entry.path: entry.size for entry in change.add}
        return Committed(
            marker=marker,
            snapshot=self._kept.snapshot,
            rows=sum(result.rows for result in results),
            bytes=sum(sizes.values()),
            files=len(sizes),
        )

    def replaces_foreign_rows(self) -> bool:
        """Tell whether EXISTING ROWS = REPLACE finds rows in the table."""
        assert self._table is not None, "not open"
        return self._write.options.get("existing_rows") == "replace" and rows(self._table) > 0

    def begin_refresh(self, number: int, *, buckets: int) -> WriteTask:
        """Return the task that puts by the rows of part `number`."""
        table, _ = self._known
        coming = with_schema(table, self._coming)
        return self._rebuilding.collect(coming, number, commit=uuid4().hex, buckets=buckets)

    def commit_refresh(
        self, results: Sequence[WriteResult], marker: Checkpoint, between: Callable[[int], None] = lambda rows: None
    ) -> Committed:
        """Commit one snapshot after which the table has just the rows put by; raises what `commit` does."""
        table, kept = self._known
        mode, names = self._rebuilding, [result.data for result in results if result.data is not None]
        commit = uuid4().hex
        with storing(self._name):
            coming = with_schema(table, self._coming)
            change, index, count = mode.rebuild(coming, kept, names, commit=commit, between=between)
        marker = replace(marker, commit=commit, index=index)
        batch = BatchCommit(change, marker, kept.marker.commit, kept.timestamp, self._expected, self._coming)
        try:
            self._table = commit_proposal(self._target, table, batch)
        except (StaleFilesError, CrowdedError) as error:
            if retries_exhausted(error):
                remove(table, change.add)
            raise
        done = markers.written_by(self._table, marker.sink, marker.commit)
        self._kept = done or markers.StoredCheckpoint(marker, kept.timestamp, snapshot=0, sequence=0)
        self._mine, self._coming = replace(marker, claim=kept.marker.claim), None
        mode.rebuilt(self._kept.snapshot)
        size = sum(entry.size for entry in change.add)
        return Committed(marker, self._kept.snapshot, rows=count, bytes=size, files=len(change.add))

    @property
    def _rebuilding(self) -> UpsertMode:
        assert isinstance(self._mode, UpsertMode), "not an upsert sink"
        return self._mode

    def store_file(self, name: str, data: bytes) -> None:
        """Keep a reader's file in the table's metadata folder, unless it is there."""
        table, _ = self._known
        with storing(self._name):
            write_once(table, self._attachment(table, name), data)

    def load_file(self, name: str) -> bytes | None:
        """Return a file kept by `store_file`."""
        table = self._table or self._load()
        with storing(self._name):
            return read(table, self._attachment(table, name))

    def refresh_files(self, files: Mapping[str, bytes]) -> None:
        """Write files kept by `store_file`, and the one with the sink's own offsets, again where they are a day old."""
        table, (_, kept) = self._load(), self._known  # nothing goes where a table was that is dropped
        own = markers.offsets_again(table, kept.marker)
        paths = {self._attachment(table, name): data for name, data in files.items()}
        if own is not None:
            paths[metadata_path(table, own[0])] = own[1]
        with storing(self._name):
            for path, data in paths.items():
                write_again(table, path, data, since=time.time() - _OLD)

    def delete_file(self, name: str) -> bool:
        """Delete a file kept by `store_file`; one that cannot be deleted now is for the next sweep."""
        table, _ = self._known
        try:
            table.io.delete(self._attachment(table, name))
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def maintenance_share(self) -> float:
        """Return which part of the time may go into `maintain`, as MAINTENANCE SHARE says."""
        return float(self._write.options.get("maintenance_share", 15.0)) / 100

    def maintain(self, go_on: Callable[[bool], bool] = lambda begun: True) -> Sequence[Compacted]:
        """Compact files, expire snapshots and remove what nothing reaches, when due; called between batches."""
        done: Sequence[Compacted] = ()
        maintained = self._write.options.get("maintenance") is not False
        if self._compacting is not None and maintained:
            done = self._compact(self._compacting, go_on)
            if self._compacting.unknown(self._known[0]):
                return done
        if self._leftovers is not None and (maintained or self._leftovers.asked):
            self._leftovers.run(lambda: go_on(False))
        self._tidy()
        return done

    def optimize(self, go_on: Callable[[], bool] = lambda: True) -> tuple[Sequence[Compacted], bool]:
        """Compact all files, whatever MAINTENANCE is; in the end expire what may be. Tell whether that is done."""
        assert self._compacting is not None, "not claimed"
        done = self._compact(self._compacting, lambda begun: go_on(), whole=True)
        finished = self._compacting.finished
        if finished and not self._compacting.unknown(self._known[0]):
            self._tidy(whole=True)
            if self._leftovers is not None:
                self._leftovers.run(go_on, now=True)  # what is not done then is done in `maintain`
        return done, finished

    def files_to_optimize(self) -> int:
        """Return how many files of the table `optimize` goes through."""
        return self._compacting.files if self._compacting is not None else 0

    def _compact(
        self, compacting: CompactionSchedule, go_on: Callable[[bool], bool], *, whole: bool = False
    ) -> Sequence[Compacted]:
        table, kept = self._known
        with storing(self._name):
            self._table, self._kept, done = compacting.compact_next(table, kept, go_on=go_on, whole=whole)
        return done

    def _tidy(self, *, whole: bool = False) -> None:
        table, kept = self._known
        held(table, kept.marker)  # also of what no sink proposes: no table is touched that another run has
        gone = expired(table, self._write.options, whole=whole)
        with storing(self._name):
            if gone:
                expire(self._target, table, gone)
            self._commits += 1
            if whole or self._commits % _SWEEP_EVERY == 0:
                self._mode_of.sweep(table, kept)

    @property
    def _name(self) -> str:
        return f"{self._write.options['namespace']}.{self._write.options['table']}"

    @property
    def _target(self) -> TargetTable:
        assert self._opened is not None, "not open"
        return self._opened

    @property
    def _mode_of(self) -> WriteMode:
        assert self._mode is not None, "not claimed"
        return self._mode

    @property
    def _known(self) -> tuple[Table, markers.StoredCheckpoint]:
        assert self._table is not None, "not refreshed"
        assert self._kept is not None, "not claimed"
        return self._table, self._kept

    @property
    def _keep_rows(self) -> bool:
        return self._write.options.get("existing_rows") in ("keep", "replace")

    def _load(self) -> Table:
        try:
            table = self._target.load()
        except NoSuchTableError as error:
            raise self._target.gone() from error
        if self._table is not None:
            same_table(self._table, table)
        return table

    def _claimed_before(self) -> str | None:
        """Return the id of the table that this sink claimed last, as far as its folder knows."""
        found = self._home.read_small(_CLAIMED)
        return found.decode(errors="replace") if found is not None else None

    @property
    def _home(self) -> StateDirectory:
        return StateDirectory.of(self._context)

    def _note_claim(self, table: Table) -> None:
        """Remember that the sink has a table, unless it goes with this process, or is made anew where it went."""
        if self._write.connection.options["catalog_type"] == "memory" or self._write.options.get("letters"):
            return
        self._context.folder.mkdir(parents=True, exist_ok=True)
        self._home.write_small(_CLAIMED, str(table.metadata.table_uuid).encode())

    def _attachment(self, table: Table, name: str) -> str:
        flat = name.replace("/", "-")  # some stores take no folders in there
        return metadata_path(table, f"{PREFIX}{self._context.sink_id}-{flat}{SUFFIX}")

    def _new_mode(self) -> WriteMode:
        write = self._write
        if write.mode == "upsert":
            return UpsertMode(
                StateDirectory.of(self._context, "index"),
                StateDirectory.of(self._context, "rebuild"),
                write.key,
                write.change,
            )
        return AppendMode(changelog=write.changelog, replaces=write.options.get("existing_rows") == "replace")
