"""What a sink proposes to commit.

A claim, which takes the table under a new epoch; a batch's files and offsets; a compaction, which changes no row.

ALTER SINK … PUBLISH: main goes to where a sink's branch is, in one commit of nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from uuid import uuid4

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID

from sinkql import physical
from sinkql.connector_api.stream import (
    NO_PLAN,
    Checkpoint,
    Context,
    JobOffsets,
    PlanChange,
    Published,
    StaleFilesError,
    claim_checkpoint,
)
from sinkql.connectors.iceberg.commit import checkpoint as markers
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
from sinkql.connectors.iceberg.storage import job_stores
from sinkql.connectors.iceberg.table.branch import moved, on_top, reaches
from sinkql.connectors.iceberg.table.catalog import open_catalog
from sinkql.connectors.iceberg.table.table import Expected, check, evolved, foreign_rows, own_empty, rows
from sinkql.connectors.iceberg.table.tag import set_tag
from sinkql.connectors.iceberg.table.target import TargetTable
from sinkql.errors import CrowdedError, SinkqlError
from sinkql.keywords import qualified_name
from sinkql.storage import failpoint


class Claim:
    """One claim of a table by a sink; a `Proposal`. `floor` is the least epoch that it may take.

    `renew` renews the sink's lease, and raises where somebody else has it by now. It is called before each attempt,
    after the table was loaded on which that is made: whoever gets the lease later claims a table that the attempt no
    longer finds as it was. Without it, a claim that was overtaken by another one is given up.
    """

    def __init__(
        self,
        sink: str,
        initial: JobOffsets,
        expected: Expected,
        *,
        floor: int,
        keep_rows: bool,
        switch: PlanChange | None = None,
        renew: Callable[[], None] | None = None,
    ) -> None:
        self.id = uuid4().hex
        self._sink = sink
        self._initial = initial
        self._expected = expected
        self._floor = floor
        self._keep_rows = keep_rows
        self._switch = switch
        self._renew = renew
        self._before: tuple[str | None] | None = None

    def prepare(self, table: Table) -> Prepared:
        """Write the claim on top of what the table says now; each time with a new epoch."""
        kept = markers.find(table, self._sink)
        schema = schema_of_claim(table, self._expected, kept, sink=self._sink, switch=self._switch)
        check(table, self._expected, schema)
        if kept is None and not self._keep_rows and rows(table):
            raise foreign_rows(table)
        marker = claim_checkpoint(
            kept.marker if kept else None,
            sink=self._sink,
            claim=self.id,
            initial=self._initial,
            epoch=self._floor,
            switch=self._switch,
        )
        timestamp = kept.timestamp if kept else 0
        summary = markers.encode(table, marker, timestamp=timestamp, attempt=self.id)
        begins = {} if kept else markers.first_epoch_property(self._sink, marker.epoch)
        if self._switch is not None and marker.plan in self._switch.again:
            schema = None  # it comes with the rows, which readers see as they were until then
        notes = _notes(table, self._sink, summary, begins)
        return _tagged(prepare(table, FileChange(), notes, by=_by(marker), schema=schema), self._sink)

    def landed(self, table: Table) -> bool:
        """Tell whether the table has this claim."""
        return markers.commit_succeeded(table, self._sink, "claim", self.id)

    def check(self, base: Table, now: Table) -> None:
        """Raise where it may not be tried: another table of the same name, or another run has the lease, or claimed."""
        same_table(base, now)
        if self._renew is not None:
            self._renew()
            return
        found = markers.standing(now, self._sink)
        claim = found.claim if found is not None else None
        if self._before is None:
            self._before = (claim,)
        elif found is not None and claim != self._before[0]:
            raise fenced(now, f"Epoch {found.epoch} has claimed the table meanwhile.")

    def stands(self, table: Table) -> None:
        """Raise SQ5101 where another claim came after it."""
        found = markers.standing(table, self._sink)
        if found is not None and found.claim != self.id:
            raise fenced(table, f"Epoch {found.epoch} has claimed the table at the same time.")


def schema_of_claim(
    table: Table, expected: Expected, kept: markers.StoredCheckpoint | None, *, sink: str, switch: PlanChange | None
) -> Schema | None:
    """Return the schema that a table gets with a claim of the sink, if it is another one."""
    if switch is None or (kept is None and not own_empty(table, sink)):
        return None
    plan = kept.marker.plan if kept is not None else NO_PLAN
    renamed = switch.follows.get(plan)
    if renamed is not None and plan == NO_PLAN and switch.empties:  # an earlier claim may have done so
        renamed = {old: new for old, new in renamed.items() if old not in expected.schema.column_names}
    return evolved(table.metadata, expected, renamed) if renamed is not None else None


def take(target: TargetTable, table: Table, claim: Claim) -> Table:
    """Commit the claim and return the table after it."""
    failpoint.point("claim")
    return commit_proposal(target, table, claim)


@dataclass(frozen=True, slots=True)
class BatchCommit:
    """One batch's files and marker, and the commit that the table stood at when they were made; a `Proposal`.

    With `schema`, the table gets it in the same commit.
    """

    files: FileChange
    marker: Checkpoint
    previous: str
    timestamp: int
    expected: Expected
    schema: Schema | None = None

    def prepare(self, table: Table) -> Prepared:
        """Write the snapshot's manifests."""
        summary = markers.encode(table, self.marker, timestamp=self.timestamp, attempt=self.marker.commit)
        notes = _notes(table, self.marker.sink, summary, markers.consistency(self.marker))
        try:
            prepared = prepare(table, self.files, notes, by=_by(self.marker), schema=self.schema)
        except FileNotFoundError as error:
            if self.expected.upsert or not self.files.remove:
                raise
            raise StaleFilesError(str(error)) from error  # rows of others were to go, and are in other files by now
        return _tagged(prepared, self.marker.sink)

    def landed(self, table: Table) -> bool:
        """Tell whether the table has this commit."""
        return markers.commit_succeeded(table, self.marker.sink, "commit", self.marker.commit)

    def check(self, base: Table, now: Table) -> None:
        """Raise where the batch may not be tried again: fenced, another table, other columns, or to be redone."""
        same_table(base, now)
        if self.schema is not None and not _same_columns(base, now):
            raise StaleFilesError("another writer changed the table's columns")
        found = held(now, self.marker)
        fits(now, self.marker, self.expected, self.schema)
        if found.commit != self.previous:
            # An attempt given up earlier has arrived after all: it may have had these very rows.
            raise SinkqlError(
                "SQ5207",
                f'an earlier commit of this run reached table "{qualified_name(*now.name())}" late',
                hint="The sink continues after that commit.",
            )
        check_usable(base, now, upsert=self.expected.upsert)

    def stands(self, table: Table) -> None:
        """Raise SQ5101 where another run has claimed the table since."""
        held(table, self.marker)


@dataclass(frozen=True, slots=True)
class CompactionCommit:
    """Files in place of others with the same rows, and the marker that stood before with another index; a `Proposal`.

    `deletes` are the manifests of delete files that the files were read under. It is given up with RedoBatchError where
    others changed rows that it may have rewritten.
    """

    id: str
    files: FileChange
    deletes: frozenset[str]
    marker: Checkpoint
    timestamp: int
    expected: Expected

    def prepare(self, table: Table) -> Prepared:
        """Write the snapshot's manifests; every file that is replaced must still be there."""
        if not delete_manifests(table) <= self.deletes:
            raise StaleFilesError("another writer deleted rows of the table")
        summary = markers.encode(table, self.marker, timestamp=self.timestamp, attempt=self.id, compaction=self.id)
        try:
            prepared = prepare(table, self.files, _notes(table, self.marker.sink, summary), by=_by(self.marker))
        except FileNotFoundError as error:
            raise StaleFilesError(str(error)) from error
        return _tagged(prepared, self.marker.sink)

    def landed(self, table: Table) -> bool:
        """Tell whether the table has this compaction."""
        return markers.commit_succeeded(table, self.marker.sink, "compaction", self.id)

    def check(self, base: Table, now: Table) -> None:
        """Raise where it may not be tried again: fenced, another table, other columns, or of no use any more."""
        same_table(base, now)
        found = held(now, self.marker)
        fits(now, self.marker, self.expected)
        if found.commit != self.marker.commit:
            raise StaleFilesError("an earlier commit of this run reached the table late")
        check_usable(base, now, upsert=self.expected.upsert)

    def stands(self, table: Table) -> None:
        """Raise SQ5101 where another run has claimed the table since."""
        held(table, self.marker)


def _same_columns(base: Table, now: Table) -> bool:
    """Tell whether a schema that was made for one is the next one of the other."""
    before, after = base.metadata, now.metadata
    return (before.current_schema_id, before.last_column_id) == (after.current_schema_id, after.last_column_id)


def _by(marker: Checkpoint) -> str:
    """Return how the names of manifests begin: a later claim knows them."""
    return f"sinkql-{marker.sink}-{marker.epoch}-"


def _tagged(prepared: Prepared, sink: str) -> Prepared:
    """Return it with the sink's tag, which goes along."""
    return replace(prepared, tag=set_tag(sink, prepared.snapshot))


def _notes(
    table: Table, sink: str, summary: Mapping[str, str], properties: Mapping[str, str] = MappingProxyType({})
) -> Callable[[int, int], Notes]:
    """Return what a snapshot on top of a table says of its sink, once it has a number."""
    parent = table.metadata.current_snapshot_id

    def notes(snapshot: int, sequence: int) -> Notes:
        value = markers.as_property(summary, snapshot=snapshot, sequence=sequence, parent=parent)
        return Notes(markers.seal(summary, snapshot=snapshot), {**properties, markers.property_name(sink): value})

    return notes


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
