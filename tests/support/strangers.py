"""Changes by other programs to a sink's table, made with PyIceberg."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import AssertTableUUID, SetSnapshotRefUpdate

from sinkql.connectors.iceberg.commit import snapshot as snapshots
from sinkql.connectors.iceberg.commit.snapshot import FileChange, Notes, prepare
from sinkql.connectors.iceberg.file.data_file import for_tasks, write_data_file
from sinkql.connectors.iceberg.file.deletes import live_files

REWRITTEN = {"entries-processed": "0"}
"""The summary of a Spark snapshot that rewrote manifests but no files."""
Pairs = Sequence[tuple[int, str | None]]


def rows_of(pairs: Pairs) -> pa.Table:
    """Return rows as a table with the schema of the tests' tables."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    return pa.Table.from_pylist([{"id": id_, "name": name} for id_, name in pairs], schema)


def append(table: Table, *pairs: tuple[int, str | None]) -> None:
    """Append rows."""
    table.append(rows_of(pairs))


def add(table: Table, *pairs: tuple[int, str | None]) -> None:
    """Append rows to a table of a format version that PyIceberg does not write."""
    entry = write_data_file(for_tasks(table), f"added-{table.metadata.current_snapshot_id}.parquet", rows_of(pairs))
    prepared = prepare(table, FileChange((entry,)), lambda snapshot, sequence: Notes({}, {}))
    table.catalog.commit_table(table, prepared.requirements, prepared.updates)


def delete(table: Table, condition: str) -> None:
    """Delete rows by rewriting their files."""
    table.delete(condition)


def compact(table: Table, *, by: str = "id") -> None:
    """Replace all data files by one, sorted by a column in descending order; do nothing if the table is empty."""
    table = table.refresh()
    head = table.current_snapshot()
    assert head is not None
    live = live_files(table)
    rows = table.scan().to_arrow().sort_by([(by, "descending")])
    if not rows:
        return
    new = write_data_file(for_tasks(table), f"compacted-{head.snapshot_id}.parquet", rows)
    gone = frozenset({*live.data, *live.deletes})
    prepared = prepare(table, FileChange((new,), gone, Operation.REPLACE), lambda snapshot, sequence: Notes({}, {}))
    table.catalog.commit_table(table, prepared.requirements, prepared.updates)


def rewrite_manifests(table: Table) -> None:
    """Merge the manifests of each kind and partition spec, with the snapshot summary that Spark writes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "_manifests_to_merge", lambda manifests: {each.manifest_path for each in manifests})
        prepared = prepare(
            table, FileChange(operation=Operation.REPLACE), lambda snapshot, sequence: Notes(REWRITTEN, {})
        )
    table.catalog.commit_table(table, prepared.requirements, prepared.updates)


def set_main(table: Table, snapshot_id: int) -> None:
    """Roll main back or forward to a snapshot."""
    head = {"ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
    requirements = (AssertTableUUID(uuid=table.metadata.table_uuid),)
    table.catalog.commit_table(table, requirements, (SetSnapshotRefUpdate.model_validate(head),))


def forget_tags(table: Table) -> None:
    """Remove all tags, like a catalog that does not support them."""
    table = table.refresh()
    for name, ref in table.metadata.refs.items():
        if ref.snapshot_ref_type == "tag":
            table.manage_snapshots().remove_tag(name).commit()


def expire_all_but_head(table: Table) -> None:
    """Expire every snapshot but the heads of branches."""
    table = table.refresh()
    heads = {each.snapshot_id for each in table.metadata.refs.values()}
    ids = [each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id not in heads]
    table.maintenance.expire_snapshots().by_ids(ids).commit()
