"""The proposals of a sink.

A claim takes the table under a new epoch. A batch commits files and offsets. A compaction changes no row. ALTER SINK …
PUBLISH moves main to the head of a sink's branch, in a commit of nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID

from sinkql import physical
from sinkql.connector_api.stream import (
    NO_PLAN,
    Checkpoint,
    ClaimRequest,
    Context,
    PlanChange,
    Published,
    StaleFilesError,
    claim_checkpoint,
)
from sinkql.connectors.iceberg.commit import checkpoint as checkpoints
from sinkql.connectors.iceberg.commit.committer import (
    check_usable,
    commit_proposal,
    delete_manifests,
    fenced,
    fits,
    held,
    same_table,
)
from sinkql.connectors.iceberg.commit.snapshot import FileChange, Notes, Prepared, prepare
from sinkql.connectors.iceberg.plan.options import CatalogConnection, IcebergSink
from sinkql.connectors.iceberg.storage import job_stores
from sinkql.connectors.iceberg.table.branch import head_update, is_on_top, is_reachable
from sinkql.connectors.iceberg.table.catalog import open_catalog
from sinkql.connectors.iceberg.table.table import (
    Expected,
    check_table,
    count_rows,
    evolved_schema,
    foreign_rows_error,
    is_own_and_empty,
)
from sinkql.connectors.iceberg.table.tag import set_tag
from sinkql.connectors.iceberg.table.target import TargetTable
from sinkql.errors import CrowdedError, SinkqlError
from sinkql.keywords import qualified_name
from sinkql.machine.randomness import new_id
from sinkql.storage import failpoint


class Claim:
    """A `Proposal`: one claim of a table by a sink.

    The lease is renewed before each attempt, after the table that the attempt is based on was loaded. So if another
    process gets the lease later, it claims a table that makes this attempt fail.
    """

    def __init__(self, sink: str, request: ClaimRequest, expected: Expected, *, keep_rows: bool) -> None:
        self.id = new_id()
        self._sink = sink
        self._request = request
        self._expected = expected
        self._keep_rows = keep_rows
        self._before: tuple[str | None] | None = None

    def prepare(self, table: Table) -> Prepared:
        """Write the claim on top of this load of the table, each time with a new epoch."""
        stored, switch = checkpoints.find(table, self._sink), self._request.switch
        schema = schema_of_claim(table, self._expected, stored, sink=self._sink, switch=switch)
        check_table(table, self._expected, schema)
        if stored is None and not self._keep_rows and count_rows(table):
            raise foreign_rows_error(table)
        before = stored.checkpoint if stored else None
        marker = claim_checkpoint(before, self._request, sink=self._sink, claim=self.id)
        timestamp = stored.timestamp if stored else 0
        summary = checkpoints.encode(table, marker, timestamp=timestamp, attempt=self.id)
        begins = {} if stored else checkpoints.first_epoch_property(self._sink, marker.epoch)
        if switch is not None and marker.plan in switch.again:
            schema = None  # the refresh commits it with the rows; readers see the old ones until then
        properties = _notes(table, self._sink, summary, begins)
        return _with_tag(prepare(table, FileChange(), properties, by=_name_prefix(marker), schema=schema), self._sink)

    def is_committed(self, table: Table) -> bool:
        """Return whether the table has this claim."""
        return checkpoints.commit_succeeded(table, self._sink, "claim", self.id)

    def check(self, base: Table, now: Table) -> None:
        """Raise if the table was recreated, or if another run holds the lease or has claimed the table."""
        same_table(base, now)
        if self._request.renew is not None:
            self._request.renew()
            return
        owner = checkpoints.standing(now, self._sink)
        claim = owner.claim if owner is not None else None
        if self._before is None:
            self._before = (claim,)
        elif owner is not None and claim != self._before[0]:
            raise fenced(now, f"Epoch {owner.epoch} claimed the table during this claim.")

    def stands(self, table: Table) -> None:
        """Raise SQ5101 if another claim came after this one."""
        owner = checkpoints.standing(table, self._sink)
        if owner is not None and owner.claim != self.id:
            raise fenced(table, f"Epoch {owner.epoch} claimed the table at the same time.")


def schema_of_claim(
    table: Table,
    expected: Expected,
    stored: checkpoints.StoredCheckpoint | None,
    *,
    sink: str,
    switch: PlanChange | None,
) -> Schema | None:
    """Return the schema that a table gets with a claim of the sink; None if it stays the same."""
    if switch is None or (stored is None and not is_own_and_empty(table, sink)):
        return None
    plan = stored.checkpoint.plan if stored is not None else NO_PLAN
    renamed = switch.follows.get(plan)
    if renamed is not None and plan == NO_PLAN and switch.empties:  # an earlier claim may have renamed columns already
        renamed = {old: new for old, new in renamed.items() if old not in expected.schema.column_names}
    return evolved_schema(table.metadata, expected, renamed) if renamed is not None else None


def take(target: TargetTable, table: Table, claim: Claim) -> Table:
    """Commit the claim and return the table after it."""
    failpoint.point("claim")
    return commit_proposal(target, table, claim)


@dataclass(frozen=True, slots=True)
class BatchCommit:
    """A `Proposal`: the files and checkpoint of one batch, and the commit that they are based on.

    If `schema` is set, the same commit gives it to the table.
    """

    files: FileChange
    checkpoint: Checkpoint
    previous: str
    timestamp: int
    expected: Expected
    schema: Schema | None = None

    def prepare(self, table: Table) -> Prepared:
        """Write the snapshot's manifests."""
        summary = checkpoints.encode(table, self.checkpoint, timestamp=self.timestamp, attempt=self.checkpoint.commit)
        properties = _notes(table, self.checkpoint.sink, summary, checkpoints.consistency(self.checkpoint))
        try:
            prepared = prepare(table, self.files, properties, by=_name_prefix(self.checkpoint), schema=self.schema)
        except FileNotFoundError as error:
            if self.expected.upsert or not self.files.remove:
                raise
            raise StaleFilesError(str(error)) from error  # the foreign rows to replace are now in other files
        return _with_tag(prepared, self.checkpoint.sink)

    def is_committed(self, table: Table) -> bool:
        """Return whether the table has this commit."""
        return checkpoints.commit_succeeded(table, self.checkpoint.sink, "commit", self.checkpoint.commit)

    def check(self, base: Table, now: Table) -> None:
        """Raise if the batch may not be retried: fenced, another table, other columns, or outdated files."""
        same_table(base, now)
        if self.schema is not None and not _same_columns(base, now):
            raise StaleFilesError("another writer changed the table's columns")
        owner = held(now, self.checkpoint)
        fits(now, self.checkpoint, self.expected, self.schema)
        if owner.commit != self.previous:
            # An abandoned attempt arrived late: it may contain the same rows.
            raise SinkqlError(
                "SQ5207",
                f'an earlier commit of this run reached table "{qualified_name(*now.name())}" late',
                hint="The sink continues after that commit.",
            )
        check_usable(base, now, upsert=self.expected.upsert)

    def stands(self, table: Table) -> None:
        """Raise SQ5101 if another run has claimed the table since."""
        held(table, self.checkpoint)


@dataclass(frozen=True, slots=True)
class CompactionCommit:
    """A `Proposal`: files that replace others with the same rows, and the last checkpoint with a new index.

    `deletes` are the manifests of delete files that the files were read under. The proposal fails with StaleFilesError
    if another writer changed rows that it may have rewritten.
    """

    id: str
    files: FileChange
    deletes: frozenset[str]
    checkpoint: Checkpoint
    timestamp: int
    expected: Expected

    def prepare(self, table: Table) -> Prepared:
        """Write the snapshot's manifests; every replaced file must still be in the table."""
        if not delete_manifests(table) <= self.deletes:
            raise StaleFilesError("another writer deleted rows of the table")
        summary = checkpoints.encode(
            table, self.checkpoint, timestamp=self.timestamp, attempt=self.id, compaction=self.id
        )
        try:
            prepared = prepare(
                table, self.files, _notes(table, self.checkpoint.sink, summary), by=_name_prefix(self.checkpoint)
            )
        except FileNotFoundError as error:
            raise StaleFilesError(str(error)) from error
        return _with_tag(prepared, self.checkpoint.sink)

    def is_committed(self, table: Table) -> bool:
        """Return whether the table has this compaction."""
        return checkpoints.commit_succeeded(table, self.checkpoint.sink, "compaction", self.id)

    def check(self, base: Table, now: Table) -> None:
        """Raise if it may not be retried: fenced, another table, other columns, or outdated files."""
        same_table(base, now)
        owner = held(now, self.checkpoint)
        fits(now, self.checkpoint, self.expected)
        if owner.commit != self.checkpoint.commit:
            raise StaleFilesError("an earlier commit of this run reached the table late")
        check_usable(base, now, upsert=self.expected.upsert)

    def stands(self, table: Table) -> None:
        """Raise SQ5101 if another run has claimed the table since."""
        held(table, self.checkpoint)


def _same_columns(base: Table, now: Table) -> bool:
    """Return whether a schema that follows `base` also follows `now`."""
    before, after = base.metadata, now.metadata
    return (before.current_schema_id, before.last_column_id) == (after.current_schema_id, after.last_column_id)


def _name_prefix(marker: Checkpoint) -> str:
    """Return the prefix of manifest names, by which a later claim recognizes them."""
    return f"sinkql-{marker.sink}-{marker.epoch}-"


def _with_tag(prepared: Prepared, sink: str) -> Prepared:
    """Return the snapshot with an update that moves the sink's tag to it."""
    return replace(prepared, tag=set_tag(sink, prepared.snapshot))


def _notes(
    table: Table, sink: str, summary: Mapping[str, str], properties: Mapping[str, str] = MappingProxyType({})
) -> Callable[[int, int], Notes]:
    """Return a function that builds the properties of a snapshot on top of a table, given its id and number."""
    parent = table.metadata.current_snapshot_id

    def notes(snapshot: int, sequence: int) -> Notes:
        value = checkpoints.as_property(summary, snapshot=snapshot, sequence=sequence, parent=parent)
        return Notes(
            checkpoints.seal(summary, snapshot=snapshot), {**properties, checkpoints.property_name(sink): value}
        )

    return notes


class PublishCommit:
    """A `Proposal`: a move of main to a branch's head. A sink may keep writing to the branch."""

    def __init__(self, branch: str) -> None:
        self._branch = branch
        self._head: int | None = None

    def prepare(self, table: Table) -> Prepared:
        """Move main to the branch's current head.

        Raises SQ3522 if the branch does not exist, SQ3523 if main has a commit that the branch does not have.
        """
        refs = table.metadata.refs
        if self._branch not in refs:
            raise _no_branch_error(table, self._branch)
        if not is_on_top(table.metadata, self._branch):
            raise _diverged_error(table, self._branch)
        self._head = head = refs[self._branch].snapshot_id
        heads = {name: refs[name].snapshot_id if name in refs else None for name in (MAIN_BRANCH, self._branch)}
        heads_required = [
            AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": snapshot_id})
            for name, snapshot_id in heads.items()
        ]
        return Prepared(
            head,
            (AssertTableUUID(uuid=table.metadata.table_uuid), *heads_required),
            (head_update(table.metadata, MAIN_BRANCH, head),),
        )

    def is_committed(self, table: Table) -> bool:
        """Return whether main has reached the head."""
        return self._head is not None and is_reachable(table.metadata, MAIN_BRANCH, self._head)

    def check(self, base: Table, now: Table) -> None:
        """Raise if the table was recreated; other writers do not matter, as only main moves."""
        same_table(base, now)

    def stands(self, table: Table) -> None:
        """Do nothing: no sink owns main."""


def publish(write: physical.Write, context: Context) -> Published:
    """Move main to the head of the sink's branch; do nothing if it is there.

    Raises SQ3503, SQ3522, SQ3523, SQ5203, and SQ42xx if the catalog does not answer.
    """
    connection, sink = write.connection, IcebergSink.from_plan(write.options)
    branch = sink.branch or MAIN_BRANCH
    target = TargetTable(
        open_catalog(connection.name, connection.options, context, job_stores(write, context)),
        sink.namespace,
        sink.table,
        connection.name,
        hint_file=CatalogConnection.from_plan(connection.options).has_hint_file,
    )
    name = f"{target.namespace}.{target.table}"
    try:
        table = target.load()
    except NoSuchTableError:
        raise _missing_branch_error(name, branch) from None
    head, main = table.metadata.refs.get(branch), table.metadata.refs.get(MAIN_BRANCH)
    if head is not None and main is not None and head.snapshot_id == main.snapshot_id:
        target.tidy(table, table)  # the process that moved main may have ended before this step
        return Published(name, head.snapshot_id, moved=False)
    try:
        after = commit_proposal(target, table, PublishCommit(branch))
    except CrowdedError as error:
        raise SinkqlError(
            error.code,
            error.message,
            detail=error.detail,
            hint="Run ALTER SINK … PUBLISH again when fewer commits go to the table.",
        ) from error
    return Published(name, after.metadata.refs[MAIN_BRANCH].snapshot_id, moved=True)


def _no_branch_error(table: Table, branch: str) -> SinkqlError:
    return _missing_branch_error(qualified_name(*table.name()), branch)


def _missing_branch_error(name: str, branch: str) -> SinkqlError:
    return SinkqlError(
        "SQ3522",
        f'table "{name}" has no branch "{branch}": nothing has been committed to it',
        hint="Run the sink, then run ALTER SINK … PUBLISH again.",
    )


def _diverged_error(table: Table, branch: str) -> SinkqlError:
    return SinkqlError(
        "SQ3523",
        f'main of table "{qualified_name(*table.name())}" has a commit that branch "{branch}" does not have',
        detail=f"main is at snapshot {table.metadata.refs[MAIN_BRANCH].snapshot_id}, which is not below the branch.",
        hint="Roll main back to the state before that commit, and publish again. To keep main, drop the sink and "
        "create it with EXISTING ROWS and a new BRANCH, which begins at main.",
    )
