"""Drop the empty table of a dropped sink, or remove the sink's tag from it so that its snapshot can expire."""

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
from sinkql.connectors.iceberg.plan.options import CatalogConnection, IcebergSink
from sinkql.connectors.iceberg.storage import job_stores, storage_errors
from sinkql.connectors.iceberg.table.branch import BranchTable
from sinkql.connectors.iceberg.table.catalog import open_catalog
from sinkql.connectors.iceberg.table.failure import catalog_error
from sinkql.connectors.iceberg.table.sql_catalog import CachingCatalog
from sinkql.connectors.iceberg.table.table import CREATED_BY, count_rows
from sinkql.connectors.iceberg.table.tag import tag_name
from sinkql.connectors.iceberg.table.target import Patience, TargetTable
from sinkql.errors import SinkqlError
from sinkql.keywords import qualified_name
from sinkql.storage import failpoint

_PATIENCE = Patience(tries=2)  # a user waits for the statement
_OF_SINK = re.compile(r"sinkql\.([^.]+)\.(?:first|last)")


def drop_table_if_empty(write: physical.Write, context: Context, *, dry: bool) -> bool:
    """Drop the table of a stopped sink, or only check that this is allowed with `dry`.

    Return whether the table exists. Its files stay in the warehouse, so that the table can be registered again. Raises
    SQ3570 if the table has rows, SQ3571 if the sink did not create it, and SQ3572 if others use it. Raises SQ42xx if
    the catalog does not answer.
    """
    connection = write.connection
    catalog = open_catalog(connection.name, connection.options, context, job_stores(write, context))
    sink = IcebergSink.from_plan(write.options)
    target = TargetTable(catalog, sink.namespace, sink.table, connection.name, patience=_PATIENCE)
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
    """Drop the table that was checked; raise SQ3572 if it has changed since, as far as the catalog knows."""
    try:
        if isinstance(target.catalog, CachingCatalog):
            target.catalog.drop_unchanged(table)
            return
        if target.load().metadata_location != table.metadata_location:
            raise CommitFailedException("the table was changed")
        target.catalog.drop_table(target.identifier)
    except CommitFailedException as error:
        raise _used_error(table, "it was changed just now") from error
    except (NoSuchTableError, SinkqlError):
        raise
    except Exception as error:
        raise catalog_error(error, target.connection) from error


def _check(table: Table, sink: str) -> None:
    if table.properties.get(CREATED_BY) != sink:
        raise SinkqlError(
            "SQ3571",
            f'table "{qualified_name(*table.name())}" was not created by this sink',
            hint="Drop the sink without WITH TABLE. Drop the table with the program that created it.",
        )
    with storage_errors(qualified_name(*table.name())):
        for branch, head in _branches(table):
            if count_rows(head) and any(part.num_rows for _, part in live_rows(head)):
                where = "" if branch == MAIN_BRANCH else f' on branch "{branch}"'
                raise SinkqlError(
                    "SQ3570",
                    f'table "{qualified_name(*table.name())}" has rows{where}',
                    hint="Drop the sink without WITH TABLE to keep the table, or delete its rows first.",
                )
    others = {match[1] for property_ in table.properties if (match := _OF_SINK.fullmatch(property_))} - {sink}
    if others:
        raise _used_error(table, "another sink has written to it")
    tags = [name for name, ref in table.metadata.refs.items() if ref.snapshot_ref_type == SnapshotRefType.TAG]
    foreign = [name for name in tags if name != tag_name(sink)]
    if foreign:
        raise _used_error(table, f'tag "{sorted(foreign)[0]}" keeps a snapshot of it')


def _branches(table: Table) -> Iterator[tuple[str, Table]]:
    yield MAIN_BRANCH, table
    for name, ref in table.metadata.refs.items():
        if ref.snapshot_ref_type == SnapshotRefType.BRANCH and name != MAIN_BRANCH:
            yield name, BranchTable(table, name)


def _used_error(table: Table, why: str) -> SinkqlError:
    return SinkqlError(
        "SQ3572",
        f'table "{qualified_name(*table.name())}" is used by others: {why}',
        hint="Drop the sink without WITH TABLE to keep the table.",
    )


_TRIES = 5


def delete_sink_tag(write: physical.Write, context: Context) -> None:
    """Remove the sink's tag if it exists; raise SQ42xx if the catalog does not answer, or refuses."""
    connection = write.connection
    catalog = open_catalog(connection.name, connection.options, context, job_stores(write, context))
    sink = IcebergSink.from_plan(write.options)
    target = TargetTable(
        catalog,
        sink.namespace,
        sink.table,
        connection.name,
        hint_file=CatalogConnection.from_plan(connection.options).has_hint_file,
        patience=_PATIENCE,
    )
    name = tag_name(context.sink_id)
    for attempt in range(_TRIES):
        try:
            table = target.load()
        except NoSuchTableError:
            return
        ref = table.metadata.refs.get(name)
        if ref is None:
            return
        requirement = AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": ref.snapshot_id})
        removal = RemoveSnapshotRefUpdate.model_validate({"ref-name": name})
        try:
            after = target.post(table, (AssertTableUUID(uuid=table.metadata.table_uuid), requirement), (removal,))
        except CommitFailedException as error:
            if attempt + 1 == _TRIES:
                raise catalog_error(error, connection.name) from error
        except Exception as error:
            raise catalog_error(error, connection.name) from error
        else:
            target.tidy(table, after)
            return
