"""A sink that was dropped → its table without the sink's tag, so that the snapshot may expire."""

from __future__ import annotations

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, RemoveSnapshotRefUpdate

from sinkql import physical
from sinkql.connector_api.stream import Context
from sinkql.connectors.iceberg.storage.access import job_stores
from sinkql.connectors.iceberg.table.catalog import open_catalog
from sinkql.connectors.iceberg.table.failure import explain
from sinkql.connectors.iceberg.table.tag import tag_name
from sinkql.connectors.iceberg.table.target import Patience, TargetTable

_PATIENCE = Patience(tries=2)  # somebody is waiting at a prompt
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
