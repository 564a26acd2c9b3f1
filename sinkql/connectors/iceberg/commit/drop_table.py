"""The table of a sink that is dropped → gone from its catalog, if the sink made it and nothing is in it.

A sink that was dropped → its table without the sink's tag, so that the snapshot may expire.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, RemoveSnapshotRefUpdate

from sinkql import physical
from sinkql.connector_api.stream import Context
from sinkql.connectors.iceberg.file.reader import live_rows
from sinkql.connectors.iceberg.storage import job_stores, storing
from sinkql.connectors.iceberg.table.branch import BranchTable
from sinkql.connectors.iceberg.table.catalog import open_catalog
from sinkql.connectors.iceberg.table.failure import explain
from sinkql.connectors.iceberg.table.sql_catalog import CachingCatalog
from sinkql.connectors.iceberg.table.table import CREATED_BY, rows
from sinkql.connectors.iceberg.table.tag import tag_name
from sinkql.connectors.iceberg.table.target import Patience, TargetTable
from sinkql.errors import SinkqlError
from sinkql.keywords import qualified_name
from sinkql.storage import failpoint

_PATIENCE = Patience(tries=2)  # somebody is waiting at a prompt
_OF_SINK = re.compile(r"sinkql\.([^.]+)\.(?:first|last)")


def drop_table_if_empty(write: physical.Write, context: Context, *, dry: bool) -> bool:
    """Drop the table of a sink that is stopped; with `dry` only look. Returns whether there is one.

    Its files stay in the warehouse, so that a table can be registered again. Raises SQ3570 where it has rows, SQ3571
    where the sink has not made it, SQ3572 where others use it, and SQ42xx where the catalog does not answer.
    """
    connection = write.connection
    catalog = open_catalog(connection.name, connection.options, context, job_stores(write, context))
    namespace, name = write.options["namespace"], write.options["table"]
    target = TargetTable(catalog, namespace, name, connection.name, patience=_PATIENCE)
    try:
        table = target.load()
        _check(table, context.sink_id)
        if not dry:
            failpoint.point("drop-table")
            _drop(target, table)
    except NoSuchTableError:
        return False
    return True


def _drop(target: TargetTable, table: Table) -> None:
    """Drop a table as it was looked at; raises SQ3572 if it has changed since, as far as its catalog can tell."""
    try:
        if isinstance(target.catalog, CachingCatalog):
            target.catalog.drop_unchanged(table)
            return
        if target.load().metadata_location != table.metadata_location:
            raise CommitFailedException("it was changed")
        target.catalog.drop_table(target.identifier)
    except CommitFailedException as error:
        raise _used(table, "it was changed just now") from error
    except (NoSuchTableError, SinkqlError):
        raise
    except Exception as error:
        raise explain(error, target.connection) from error


def _check(table: Table, sink: str) -> None:
    if table.properties.get(CREATED_BY) != sink:
        raise SinkqlError(
            "SQ3571",
            f'table "{qualified_name(*table.name())}" was not made by this sink',
            hint="Drop the sink without WITH TABLE, and the table by the program that made it.",
        )
    with storing(qualified_name(*table.name())):
        for branch, seen in _branches(table):
            if rows(seen) and any(part.num_rows for _, part in live_rows(seen)):
                where = "" if branch == MAIN_BRANCH else f' on branch "{branch}"'
                raise SinkqlError(
                    "SQ3570",
                    f'table "{qualified_name(*table.name())}" has rows{where}',
                    hint="Drop the sink without WITH TABLE, which keeps the table, or delete its rows first.",
                )
    others = {found[1] for each in table.properties if (found := _OF_SINK.fullmatch(each))} - {sink}
    if others:
        raise _used(table, "another sink has written to it")
    tags = [name for name, ref in table.metadata.refs.items() if ref.snapshot_ref_type == SnapshotRefType.TAG]
    kept = [name for name in tags if name != tag_name(sink)]
    if kept:
        raise _used(table, f'tag "{sorted(kept)[0]}" keeps a snapshot of it')


def _branches(table: Table) -> Iterator[tuple[str, Table]]:
    yield MAIN_BRANCH, table
    for name, ref in table.metadata.refs.items():
        if ref.snapshot_ref_type == SnapshotRefType.BRANCH and name != MAIN_BRANCH:
            yield name, BranchTable(table, name)


def _used(table: Table, why: str) -> SinkqlError:
    return SinkqlError(
        "SQ3572",
        f'table "{qualified_name(*table.name())}" is used by others: {why}',
        hint="Drop the sink without WITH TABLE, which keeps the table.",
    )


_TRIES = 5


def delete_sink_tag(write: physical.Write, context: Context) -> None:
    """Remove the tag, if there is one; raises SQ42xx where the catalog does not answer, or refuses."""
    connection = write.connection
    catalog = open_catalog(connection.name, connection.options, context, job_stores(write, context))
    target = TargetTable(
        catalog,
        write.options["namespace"],
        write.options["table"],
        connection.name,
        hint_file=connection.options["catalog_type"] == "sql",
        patience=_PATIENCE,
    )
    name = tag_name(context.sink_id)
    for tried in range(_TRIES):
        try:
            table = target.load()
        except NoSuchTableError:
            return
        ref = table.metadata.refs.get(name)
        if ref is None:
            return
        held = AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": ref.snapshot_id})
        gone = RemoveSnapshotRefUpdate.model_validate({"ref-name": name})
        try:
            after = target.post(table, (AssertTableUUID(uuid=table.metadata.table_uuid), held), (gone,))
        except CommitFailedException as error:
            if tried + 1 == _TRIES:
                raise explain(error, connection.name) from error
        except Exception as error:
            raise explain(error, connection.name) from error
        else:
            target.tidy(table, after)
            return
