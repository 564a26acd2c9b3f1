"""A sink's `Write` → the writer that owns its Iceberg table while the job runs."""

from __future__ import annotations

from collections.abc import Sequence

from sinkql import physical
from sinkql.connector_api.stream import (
    Checkpoint,
    ClaimRequest,
    Committed,
    Context,
    Writer,
    WriteResult,
    WriteTask,
)
from sinkql.connectors.iceberg.commit.snapshot import selfcheck
from sinkql.connectors.iceberg.storage import storage_errors
from sinkql.connectors.iceberg.table.table import count_rows
from sinkql.connectors.iceberg.write.append import AppendMode
from sinkql.connectors.iceberg.write.claimed_table import ClaimedTable
from sinkql.connectors.iceberg.write.maintenance import IcebergMaintenance
from sinkql.connectors.iceberg.write.mode import WriteMode, commit_batch
from sinkql.connectors.iceberg.write.refresh import RefreshWriter
from sinkql.connectors.iceberg.write.replacement import DataFiles
from sinkql.connectors.iceberg.write.table_files import TableFiles
from sinkql.connectors.iceberg.write.table_index import TableIndex
from sinkql.connectors.iceberg.write.upsert import UpsertMode
from sinkql.machine.randomness import new_id
from sinkql.state_store.directory import StateDirectory


def open_writer(write: physical.Write, context: Context) -> IcebergWriter:
    """Return the writer of a job; only its `open` reaches the catalog."""
    return IcebergWriter(write, context)


class IcebergWriter(Writer):
    """Writes one Iceberg table. `open` comes first, then `claim`; a new claim discards the index of the one before."""

    def __init__(self, write: physical.Write, context: Context) -> None:
        self._write = write
        self._context = context
        self.table = ClaimedTable(write, context)
        self._mode: WriteMode | None = None
        self._files = TableFiles(self.table)
        self._maintenance = IcebergMaintenance(self.table)
        self._full_refresh: RefreshWriter | None = None
        self._data_files: DataFiles | None = None
        if write.mode == "upsert":
            staging = StateDirectory.of(context, "rebuild")
            self._full_refresh = RefreshWriter(self.table, staging, write.key, write.change)

    @property
    def full_refresh(self) -> RefreshWriter | None:
        """Return the full refresh of an upsert sink."""
        return self._full_refresh

    @property
    def data_files(self) -> DataFiles | None:
        """Return the data files of an append sink, once it has claimed its table."""
        return self._data_files

    @property
    def files(self) -> TableFiles:
        """Return the copies of source files in the table's metadata folder."""
        return self._files

    @property
    def maintenance(self) -> IcebergMaintenance:
        """Return the maintenance of the table."""
        return self._maintenance

    def open(self) -> None:
        """Open the catalog, and create the namespace and table if absent; refuse a table that does not fit."""
        selfcheck()
        self.table.open()

    def load_checkpoint(self) -> Checkpoint | None:
        """Reload the table and return its checkpoint; raises SQ3501 if the table was rolled back."""
        return self.table.load_checkpoint()

    def claim(self, request: ClaimRequest) -> Checkpoint:
        """Claim the table, and choose the files of the claim's batches."""
        checkpoint = self.table.claim(request).checkpoint
        write = self._write
        mode: AppendMode | UpsertMode
        if self._full_refresh is not None:
            index = TableIndex(StateDirectory.of(self._context, "index"), write.key)
            self._full_refresh.begin_claim(index, request.switch)
            mode = UpsertMode(index, write.change)
        else:
            mode = AppendMode(changelog=write.changelog, replaces=self.table.replaces_foreign_rows)
            self._data_files = DataFiles(self.table, mode)
        self._mode = mode
        self._maintenance.begin_claim(mode)
        return checkpoint

    def replaces_foreign_rows(self) -> bool:
        """Return whether EXISTING ROWS = REPLACE applies to rows in the table."""
        return self.table.replaces_foreign_rows and count_rows(self.table.loaded) > 0

    def refresh(self) -> Checkpoint:
        """Reload the table and return its checkpoint; raises SQ5101 (fenced), SQ3501, SQ3503, SQ3504, SQ3556."""
        full_refresh = self._full_refresh
        pending = full_refresh if full_refresh is not None and full_refresh.is_pending() else None
        table = self.table.load()
        while True:
            stored = self.table.check(table, pending.plan_schema(table) if pending is not None else None)
            try:
                with storage_errors(self.table.name):
                    if full_refresh is not None:
                        full_refresh.discard_earlier_claims()
                    (self._claimed_mode if pending is None else pending).refresh(table, stored)
                break
            except FileNotFoundError as error:
                table = self.table.reload_expired(table, error)
        self.table.adopt(table, stored)
        return stored.checkpoint

    def begin(self, *, bucketing: str, buckets: int, cleared: bool = False) -> WriteTask:
        """Return the task of a new attempt on the refreshed table."""
        table, stored = self.table.current
        return self._claimed_mode.begin(
            table, stored, commit=new_id(), bucketing=bucketing, buckets=buckets, cleared=cleared
        )

    def commit(self, task: WriteTask, results: Sequence[WriteResult], checkpoint: Checkpoint) -> Committed:
        """Commit one snapshot with the task's files and the new checkpoint; raises as `ClaimedTable.commit` does."""
        return commit_batch(self.table, self._claimed_mode, task, results, checkpoint)

    def invalidate_index(self) -> None:
        """Rebuild the index of the table at the next refresh."""
        self._claimed_mode.invalidate_index()

    @property
    def _claimed_mode(self) -> WriteMode:
        assert self._mode is not None, "not claimed"
        return self._mode
