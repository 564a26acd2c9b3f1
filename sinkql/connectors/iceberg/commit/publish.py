"""ALTER SINK … PUBLISH: main goes to where a sink's branch is, in one commit of nothing else."""

from __future__ import annotations

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID

from sinkql import physical
from sinkql.connector_api.stream import Context, Published
from sinkql.connectors.iceberg.commit.committer import commit_proposal
from sinkql.connectors.iceberg.commit.conflict import same_table
from sinkql.connectors.iceberg.commit.snapshot import Prepared
from sinkql.connectors.iceberg.storage.access import job_stores
from sinkql.connectors.iceberg.table.branch import moved, on_top, reaches
from sinkql.connectors.iceberg.table.catalog import open_catalog
from sinkql.connectors.iceberg.table.target import TargetTable
from sinkql.errors import CrowdedError, SinkqlError
from sinkql.keywords import qualified_name


class PublishCommit:
    """Main on its way to a branch's head; a `Proposal`. The branch goes on meanwhile: a sink may be writing to it."""

    def __init__(self, branch: str) -> None:
        self._branch = branch
        self._head: int | None = None

    def prepare(self, table: Table) -> Prepared:
        """Take the branch's head as it is now; raises SQ3522 without a branch, SQ3523 where main has left its line."""
        refs = table.metadata.refs
        if self._branch not in refs:
            raise _nothing(table, self._branch)
        if not on_top(table.metadata, self._branch):
            raise _apart(table, self._branch)
        self._head = head = refs[self._branch].snapshot_id
        heads = {name: refs[name].snapshot_id if name in refs else None for name in (MAIN_BRANCH, self._branch)}
        held = [AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": each}) for name, each in heads.items()]
        return Prepared(
            head, (AssertTableUUID(uuid=table.metadata.table_uuid), *held), (moved(table.metadata, MAIN_BRANCH, head),)
        )

    def landed(self, table: Table) -> bool:
        """Tell whether main has been there."""
        return self._head is not None and reaches(table.metadata, MAIN_BRANCH, self._head)

    def check(self, base: Table, now: Table) -> None:
        """Nothing but another table of the same name keeps it from being tried: whoever writes, it moves main alone."""
        same_table(base, now)

    def stands(self, table: Table) -> None:
        """Main belongs to nobody."""


def publish(write: physical.Write, context: Context) -> Published:
    """Let main go to the head of the sink's branch; once it is there, nothing is done.

    Raises SQ3503, SQ3522, SQ3523, SQ5203, and SQ42xx where the catalog does not answer.
    """
    connection, branch = write.connection, write.options["branch"]
    target = TargetTable(
        open_catalog(connection.name, connection.options, context, job_stores(write, context)),
        write.options["namespace"],
        write.options["table"],
        connection.name,
        hint_file=connection.options["catalog_type"] == "sql",
    )
    name = f"{target.namespace}.{target.table}"
    try:
        table = target.load()
    except NoSuchTableError:
        raise _nothing_in(name, branch) from None
    head, main = table.metadata.refs.get(branch), table.metadata.refs.get(MAIN_BRANCH)
    if head is not None and main is not None and head.snapshot_id == main.snapshot_id:
        target.tidy(table, table)  # whoever moved it may have ended before that
        return Published(name, head.snapshot_id, moved=False)
    try:
        after = commit_proposal(target, table, PublishCommit(branch))
    except CrowdedError as error:
        raise SinkqlError(
            error.code,
            error.message,
            detail=error.detail,
            hint="Run ALTER SINK … PUBLISH again, when less is written to the table.",
        ) from error
    return Published(name, after.metadata.refs[MAIN_BRANCH].snapshot_id, moved=True)


def _nothing(table: Table, branch: str) -> SinkqlError:
    return _nothing_in(qualified_name(*table.name()), branch)


def _nothing_in(name: str, branch: str) -> SinkqlError:
    return SinkqlError(
        "SQ3522",
        f'table "{name}" has no branch "{branch}": nothing has been committed to it',
        hint="Run the sink, and publish what it has written.",
    )


def _apart(table: Table, branch: str) -> SinkqlError:
    return SinkqlError(
        "SQ3523",
        f'main of table "{qualified_name(*table.name())}" has a commit that branch "{branch}" does not have',
        detail=f"main is at snapshot {table.metadata.refs[MAIN_BRANCH].snapshot_id}, which is not below the branch.",
        hint="Set main back to where it was before that commit, and publish again; or keep main as it is, drop the "
        "sink, and create it with EXISTING ROWS and another BRANCH, which begins there.",
    )
