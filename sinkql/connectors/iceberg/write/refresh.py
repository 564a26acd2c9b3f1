"""The full refresh of an upsert sink: stage all rows, then commit the differences from the table in one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pyiceberg.schema import Schema
from pyiceberg.table import Table

from sinkql import physical
from sinkql.connector_api.stream import (
    Checkpoint,
    Committed,
    PlanChange,
    RefreshableWriter,
    StaleFilesError,
    WriteResult,
    WriteTask,
)
from sinkql.connectors.iceberg.commit.checkpoint import StoredCheckpoint
from sinkql.connectors.iceberg.commit.proposal import BatchCommit
from sinkql.connectors.iceberg.compact.compaction import delete_files
from sinkql.connectors.iceberg.file.data_file import for_tasks
from sinkql.connectors.iceberg.storage import storage_errors
from sinkql.connectors.iceberg.table.table import with_schema
from sinkql.connectors.iceberg.write.claimed_table import ClaimedTable
from sinkql.connectors.iceberg.write.refresh_collect import CollectTask, part_files
from sinkql.connectors.iceberg.write.refresh_diff import RefreshDiff, RefreshResult
from sinkql.connectors.iceberg.write.table_index import TableIndex
from sinkql.machine.randomness import new_id
from sinkql.state_store.directory import StateDirectory


class RefreshWriter(RefreshableWriter):
    """The full refreshes of one sink; rows are staged in a directory. `begin_claim` comes first, then `refresh`.

    A change of plan may give the table another schema. The commit of the refresh sets it, together with the rows.
    """

    def __init__(
        self, claimed: ClaimedTable, staging: StateDirectory, key: tuple[str, ...], change: physical.Change
    ) -> None:
        self._claimed = claimed
        self._staging = staging
        self._key = key
        self._change: physical.Change = change
        self._index: TableIndex | None = None
        self._switch: PlanChange | None = None
        self._schema: Schema | None = None
        self._has_earlier_claims = False

    def begin_claim(self, index: TableIndex, switch: PlanChange | None) -> None:
        """Continue with the index of a new claim, and its change of plan, if any."""
        self._index, self._switch, self._schema = index, switch, None
        self._has_earlier_claims = True

    def discard_earlier_claims(self) -> None:
        """Delete the rows that earlier claims staged."""
        if self._has_earlier_claims:
            self._staging.delete_all()
            self._has_earlier_claims = False

    def is_pending(self) -> bool:
        """Return whether a full refresh must come before the next batch."""
        return self._switch is not None and self._claimed.claim_checkpoint.plan in self._switch.again

    def plan_schema(self, table: Table) -> Schema | None:
        """Return the schema that a pending refresh gives the table; None if the schema stays."""
        self._schema = self._claimed.next_schema(table, self._switch) if self._switch is not None else None
        return self._schema

    def refresh(self, table: Table, stored: StoredCheckpoint) -> None:
        """Refresh the index before the rows of a pending refresh are compared; call it after `plan_schema`."""
        self._claimed_index.refresh_or_clear(with_schema(table, self._schema), stored)

    def begin_refresh(self, number: int, *, buckets: int) -> WriteTask:
        """Return the task that stages the rows of part `number`; number 0 discards all staged rows."""
        if number == 0:
            self._staging.delete_all()
        table = for_tasks(with_schema(self._claimed.loaded, self._schema))
        return CollectTask(new_id(), buckets, self._key, self._change, number, self._staging.for_tasks(), table)

    def commit_refresh(
        self, results: Sequence[WriteResult], checkpoint: Checkpoint, between: Callable[[int], None] = lambda rows: None
    ) -> Committed:
        """Commit one snapshot after which the table has exactly the staged rows; raises as `ClaimedTable.commit` does.

        `between` is called repeatedly with the number of rows compared.
        """
        table, stored = self._claimed.current
        commit = new_id()
        names = [result.data for result in results if result.data is not None]
        with storage_errors(self._claimed.name):
            diff = self._compare(with_schema(table, self._schema), stored, names, commit, between)
            index_name = self._claimed_index.save(diff.index)
        checkpoint = replace(checkpoint, commit=commit, index=index_name)
        batch = BatchCommit(
            diff.change, checkpoint, stored.checkpoint.commit, stored.timestamp, self._claimed.expected, self._schema
        )
        snapshot = self._claimed.commit(batch).snapshot
        self._claimed.continue_from(replace(checkpoint, claim=stored.checkpoint.claim))
        self._schema = None
        self._claimed_index.adopt(diff.index, snapshot)
        self._staging.delete_all()
        size = sum(entry.size for entry in diff.change.add)
        return Committed(checkpoint, snapshot, rows=diff.rows, bytes=size, files=len(diff.change.add))

    def _compare(
        self,
        table: Table,
        stored: StoredCheckpoint,
        names: Sequence[str],
        commit: str,
        between: Callable[[int], None],
    ) -> RefreshResult:
        """Write the rows that the table lacks."""
        index = self._claimed_index.current
        self._claimed_index.fetch_runs(index)
        files = {file: None for name in names for file in part_files(name)}
        if self._staging.remote and self._staging.fetch(files):
            raise StaleFilesError
        diff = RefreshDiff(
            table,
            index,
            self._claimed_index.folder,
            self._staging.folder,
            attempt=commit,
            epoch=stored.checkpoint.epoch,
            between=between,
        )
        try:
            return diff.compare(names)
        except BaseException:
            delete_files(table, diff.written)
            raise

    @property
    def _claimed_index(self) -> TableIndex:
        assert self._index is not None, "not claimed"
        return self._index
