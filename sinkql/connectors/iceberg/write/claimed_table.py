"""The table of a sink as it was last loaded, with the sink's checkpoint in it."""

from __future__ import annotations

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from sinkql import physical
from sinkql.connector_api.stream import Checkpoint, ClaimRequest, Context, PlanChange, StaleFilesError
from sinkql.connectors.iceberg.commit import checkpoint as checkpoints
from sinkql.connectors.iceberg.commit.committer import (
    check_still_ours,
    commit_proposal,
    recreated,
    retries_exhausted,
    same_table,
)
from sinkql.connectors.iceberg.commit.proposal import BatchCommit, Claim, schema_of_claim, take
from sinkql.connectors.iceberg.compact.compaction import delete_files
from sinkql.connectors.iceberg.plan.options import CatalogConnection, IcebergSink
from sinkql.connectors.iceberg.storage import job_stores
from sinkql.connectors.iceberg.table.catalog import open_catalog
from sinkql.connectors.iceberg.table.schema import Layout
from sinkql.connectors.iceberg.table.table import (
    Expected,
    check_table,
    count_rows,
    ensure_table,
    foreign_rows_error,
    is_own_and_empty,
)
from sinkql.connectors.iceberg.table.tag import TagState
from sinkql.connectors.iceberg.table.target import TargetTable
from sinkql.errors import CrowdedError
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint

_CLAIMED = "table.uuid"


class ClaimedTable:
    """The table of one sink, its last load, and the checkpoint there. `open` comes first, then `claim`.

    The table is the only record: each batch begins with a load.
    """

    def __init__(self, write: physical.Write, context: Context) -> None:
        self.planned = IcebergSink.from_plan(write.options)
        self.expected = Expected(
            write.columns,
            changelog=write.changelog,
            upsert=write.mode == "upsert",
            layout=Layout.from_options(self.planned),
            version=self.planned.format_version,
        )
        self.sink = context.sink_id
        self._write = write
        self._context = context
        self._target: TargetTable | None = None
        self._table: Table | None = None
        self._stored: checkpoints.StoredCheckpoint | None = None
        self._claim: Checkpoint | None = None

    @property
    def name(self) -> str:
        """Return the name of the table."""
        return f"{self.planned.namespace}.{self.planned.table}"

    @property
    def target(self) -> TargetTable:
        """Return the table in its catalog."""
        assert self._target is not None, "not open"
        return self._target

    @property
    def loaded(self) -> Table:
        """Return the last load."""
        assert self._table is not None, "not open"
        return self._table

    @property
    def current(self) -> tuple[Table, checkpoints.StoredCheckpoint]:
        """Return the last load, and the sink's checkpoint in it."""
        assert self._stored is not None, "not claimed"
        return self.loaded, self._stored

    @property
    def claim_checkpoint(self) -> Checkpoint:
        """Return the checkpoint of this claim, or of its full refresh."""
        assert self._claim is not None, "not claimed"
        return self._claim

    def open(self) -> None:
        """Open the catalog, and create the namespace and table if absent; refuse a table that does not fit."""
        connection, planned = self._write.connection, self.planned
        catalog = CatalogConnection.from_plan(connection.options)
        stores = job_stores(self._write, self._context)
        self._target = TargetTable(
            catalog=open_catalog(connection.name, connection.options, self._context, stores),
            namespace=planned.namespace,
            table=planned.table,
            connection=connection.name,
            hint_file=catalog.has_hint_file,
            branch=planned.branch,
            # S3 Tables expires no snapshots of a table with tags
            tags=TagState(is_accepted=catalog.catalog_type != "s3tablesrest"),
        )
        claimed_id = None if planned.letters else self._read_claim()  # a dropped dead-letter table is recreated
        table = ensure_table(self._target, self.expected, sink_id=self.sink, claimed=claimed_id is not None)
        stored = checkpoints.find(table, self.sink)
        if stored is None and claimed_id not in (None, str(table.metadata.table_uuid)):
            raise recreated(table)
        if stored is None and not is_own_and_empty(
            table, self.sink
        ):  # else the claim checks it, and may change its columns
            check_table(table, self.expected)
            if planned.existing_rows is None and count_rows(table):
                raise foreign_rows_error(table)
        self._table = table

    def load(self) -> Table:
        """Return the present table; raises SQ3503 if it was dropped or recreated."""
        try:
            table = self.target.load()
        except NoSuchTableError as error:
            raise self.target.dropped_error() from error
        if self._table is not None:
            same_table(self._table, table)
        return table

    def load_checkpoint(self) -> Checkpoint | None:
        """Return the sink's checkpoint in the present table; raises SQ3501 if the table was rolled back."""
        stored = checkpoints.find(self.load(), self.sink)
        failpoint.point("read-marker")
        return stored.checkpoint if stored else None

    def claim(self, request: ClaimRequest) -> checkpoints.StoredCheckpoint:
        """Claim the table; return its checkpoint after that."""
        claim = Claim(self.sink, request, self.expected, keep_rows=self.planned.existing_rows is not None)
        self._claim = None
        self._table = take(self.target, self.load(), claim)
        stored = checkpoints.find(self._table, self.sink)
        assert stored is not None
        self._write_claim(self._table)
        self._claim, self._stored = stored.checkpoint, stored
        return stored

    def check(self, table: Table, schema: Schema | None = None) -> checkpoints.StoredCheckpoint:
        """Return the sink's checkpoint in a new load; raises SQ5101 if fenced, SQ3501, SQ3503 and SQ3504.

        `schema` is the schema that the table will get with the next commit, if it changes.
        """
        self._stored = check_still_ours(table, self.claim_checkpoint, self.expected, schema)
        failpoint.point("read-marker")
        return self._stored

    def reload_expired(self, table: Table, missing: FileNotFoundError) -> Table:
        """Return the present table if another process has expired files of a load; else raise SQ3556."""
        now = self.load()
        if now.metadata.current_snapshot_id == table.metadata.current_snapshot_id:
            raise self.target.lost_file_error(missing) from missing
        return now

    def next_schema(self, table: Table, switch: PlanChange) -> Schema | None:
        """Return the schema that a change of plan gives the table, if it changes it."""
        stored = checkpoints.find(table, self.sink)
        return schema_of_claim(table, self.expected, stored, sink=self.sink, switch=switch)

    def adopt(self, table: Table, stored: checkpoints.StoredCheckpoint) -> None:
        """Continue with a new load of the table."""
        self._table, self._stored = table, stored

    def commit(self, batch: BatchCommit) -> checkpoints.StoredCheckpoint:
        """Commit a snapshot at most once, and return its checkpoint; delete the files of an attempt that cannot land.

        Raises StaleFilesError if the attempt must be written again, SQ5101 (fenced), SQ35xx, and SQ42xx if the catalog
        does not answer for long: then the outcome is unknown, and the next claim settles it.
        """
        table, _ = self.current
        try:
            self._table = commit_proposal(self.target, table, batch)
        except (StaleFilesError, CrowdedError) as error:
            if retries_exhausted(error):
                delete_files(table, batch.files.add)
            raise
        # Others may have committed since: the index and the new checkpoint are true of this commit's snapshot.
        stored = checkpoints.written_by(self._table, batch.checkpoint.sink, batch.checkpoint.commit)
        self._stored = stored or checkpoints.StoredCheckpoint(batch.checkpoint, batch.timestamp, snapshot=0, sequence=0)
        return self._stored

    def continue_from(self, checkpoint: Checkpoint) -> None:
        """Make the checkpoint of a full refresh that of this claim."""
        self._claim = checkpoint

    @property
    def replaces_foreign_rows(self) -> bool:
        """Return whether the sink replaces rows of other writers."""
        return self.planned.existing_rows == "replace"

    # --- the claim as the state folder knows it ----------------------------------------------------------------------

    @property
    def _directory(self) -> StateDirectory:
        return StateDirectory.of(self._context)

    def _read_claim(self) -> str | None:
        """Return the id of the table that this sink claimed last, if its state folder has it."""
        data = self._directory.read_small(_CLAIMED)
        return data.decode(errors="replace") if data is not None else None

    def _write_claim(self, table: Table) -> None:
        """Store the id of the claimed table, unless the table ends with this process or is recreated when dropped."""
        catalog = CatalogConnection.from_plan(self._write.connection.options)
        if catalog.catalog_type == "memory" or self.planned.letters:
            return
        self._context.folder.mkdir(parents=True, exist_ok=True)
        self._directory.write_small(_CLAIMED, str(table.metadata.table_uuid).encode())
