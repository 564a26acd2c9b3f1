"""Post a proposal until its outcome is known, and check whether other commits allow a retry.

The outcome becomes known even after lost replies, conflicts and while the catalog is unavailable.

The snapshots of a table are no `NumberedLog`: the catalog orders them, by replacing the table's metadata atomically.
"""

from __future__ import annotations

from typing import Protocol

from pyiceberg.exceptions import BadRequestError, CommitFailedException, NoSuchTableError
from pyiceberg.manifest import ManifestContent
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from sinkql.connector_api.stream import Checkpoint, StaleFilesError
from sinkql.connectors.iceberg.commit import checkpoint as checkpoints
from sinkql.connectors.iceberg.commit.snapshot import Prepared
from sinkql.connectors.iceberg.file.manifest import manifests_of
from sinkql.connectors.iceberg.storage import is_refused
from sinkql.connectors.iceberg.table.branch import BranchTable, branch_text
from sinkql.connectors.iceberg.table.failure import catalog_error
from sinkql.connectors.iceberg.table.table import Expected, check_table
from sinkql.connectors.iceberg.table.target import TargetTable
from sinkql.errors import CrowdedError, DroppedTableError, FencedError, SinkqlError
from sinkql.keywords import qualified_name
from sinkql.storage import failpoint

_CONFLICTS = 50
_REFUSALS = 4


class Proposal(Protocol):
    """A change to commit, whatever state the table has by then."""

    def prepare(self, table: Table) -> Prepared:
        """Write the snapshot's manifests on top of this load of the table, or raise SinkqlError."""

    def is_committed(self, table: Table) -> bool:
        """Return whether the table has this attempt's commit."""

    def check(self, base: Table, now: Table) -> None:
        """Raise if the proposal for `base` may not be tried on `now`; both are the same on the first attempt."""

    def stands(self, table: Table) -> None:
        """Raise SQ5101 if another run has claimed the table after this commit."""


def commit_proposal(
    target: TargetTable, table: Table, proposal: Proposal, *, most_conflicts: int = _CONFLICTS
) -> Table:
    """Commit the proposal exactly once, and return the table after it.

    After every exception, of any kind, the outcome is unknown. A reply may be lost, and a request that was applied and
    sent again returns a conflict. So the table is loaded and searched for this attempt. If the attempt is missing, it
    is retried immediately on the fresh load. Either the retry commits, and the first request no longer finds the parent
    that it requires. Or the retry fails, and the next load shows the first request.

    Nothing that an attempt wrote is deleted here.

    Each attempt, including the first, is checked against the table that it is based on. That table may contain an
    earlier proposal of this run below the claim of another run. A proposal found there is the last commit of this run.
    """
    proposal.check(table, table)
    committed = False
    try:
        after = _commit_until_known(target, table, proposal, most_conflicts=most_conflicts)
        committed = True
    finally:
        target.tags.record_end(landed=committed)
    proposal.stands(after)
    return after


def _commit_until_known(target: TargetTable, table: Table, proposal: Proposal, *, most_conflicts: int) -> Table:
    failures = conflicts = 0
    parents = set()
    while True:
        parents.add(table.metadata.current_snapshot_id)
        outcome = _try(target, table, proposal)
        now = outcome if isinstance(outcome, Table) else _load(target)
        if isinstance(outcome, Table) or proposal.is_committed(now):
            target.tidy(table, now)
            target.check_branch(table, now)
            return now
        error = outcome
        proposal.check(table, now)
        if isinstance(error, CommitFailedException) or _is_only_late(error, table, now):
            conflicts += 1
            if conflicts >= most_conflicts:
                over = now.metadata.current_snapshot_id not in parents
                raise _crowded_error(target, error, over=over) from error
        else:
            failures += 1
            limit = _REFUSALS if isinstance(error, BadRequestError) or is_refused(error) else target.patience.tries
            if failures >= limit and isinstance(error, FileNotFoundError):
                raise target.lost_file_error(error) from error
            if failures >= limit:
                raise catalog_error(error, target.connection) from error
            target.patience.wait(failures)
        table = now


def retries_exhausted(error: StaleFilesError | CrowdedError) -> bool:
    """Return whether no attempt can still arrive, so that the files of all attempts may be deleted."""
    return isinstance(error, StaleFilesError) or error.over


def _try(target: TargetTable, table: Table, proposal: Proposal) -> Table | Exception:
    """Post the attempt once and return the table after it, or the error; raise if no retry can help."""
    try:
        prepared = proposal.prepare(table)
        target.settle(prepared.files)
    except (SinkqlError, StaleFilesError):
        raise
    except Exception as error:
        return error  # the table may have been dropped with the parent's files: the next load shows it
    failpoint.point("commit-request")
    tag = (prepared.tag,) if prepared.tag is not None and target.tags.is_used else ()
    try:
        after = target.post(table, prepared.requirements, (*prepared.updates, *tag))
        failpoint.point("commit-reply")
    except Exception as error:
        if tag:
            target.tags.record_failure(error)
        return error
    return after


def _is_only_late(error: Exception, table: Table, now: Table) -> bool:
    """Return whether an attempt was refused only for its snapshot's number or its row ids.

    A commit to another branch uses up both, but no condition of the attempt forbids it.
    """
    moved = table.metadata.next_sequence_number() != now.metadata.next_sequence_number()
    return moved and isinstance(error, BadRequestError | ValueError)


def _load(target: TargetTable) -> Table:
    try:
        return target.load()
    except NoSuchTableError as error:
        raise target.dropped_error() from error


def _crowded_error(target: TargetTable, error: Exception, *, over: bool) -> CrowdedError:
    return CrowdedError(
        "SQ5203",
        f'table "{target.namespace}.{target.table}" changes faster than a commit can follow',
        detail=str(error),
        hint="The sink retries automatically. If it keeps failing, reduce the commits of other programs.",
        over=over,
    )


_ENTRIES = "entries-processed"
"""The summary key that only a rewrite of manifests has."""


def check_still_ours(
    table: Table, mine: Checkpoint, expected: Expected, schema: Schema | None = None
) -> checkpoints.StoredCheckpoint:
    """Return the valid checkpoint after the checks of `held` and `fits`; raises as they do, and SQ3502."""
    held(table, mine)
    fits(table, mine, expected, schema)
    stored = checkpoints.find(table, mine.sink)
    if stored is None:
        raise checkpoints.rolled_back(table, mine.sink)
    return stored


def held(table: Table, mine: Checkpoint) -> checkpoints.Standing:
    """Return the owner of the table if this claim still owns it; raise SQ5101 (fenced) or SQ3501."""
    owner = checkpoints.standing(table, mine.sink)
    if owner is None or owner.epoch < mine.epoch:
        raise checkpoints.rolled_back(table, mine.sink)
    if owner.claim != mine.claim:
        raise fenced(table, f"Epoch {owner.epoch} has claimed the table; this is epoch {mine.epoch}.")
    return owner


def fits(table: Table, mine: Checkpoint, expected: Expected, schema: Schema | None = None) -> None:
    """Raise SQ5102 (fenced), or SQ3504 and related codes, if the sink cannot write to the table now.

    `schema` is the schema that the table will get with the commit, if it changes.
    """
    if expected.upsert:
        _refuse_other_sink(table, mine)
    check_table(table, expected, schema)


def same_table(base: Table, now: Table) -> None:
    """Raise SQ3503 if the table was dropped and created again between two loads."""
    if base.metadata.table_uuid != now.metadata.table_uuid:
        raise recreated(now)


def recreated(table: Table) -> SinkqlError:
    """Return the error for a table that was created again after the sink wrote to it."""
    return DroppedTableError(
        "SQ3503",
        f'table "{qualified_name(*table.name())}" was dropped and created again since the sink wrote to it',
        hint="Drop the sink and create it again with a new table.",
    )


def check_usable(base: Table, now: Table, *, upsert: bool) -> None:
    """Raise StaleFilesError if files written for `base` cannot be committed to `now`."""
    before, after = base.metadata, now.metadata
    if before.default_spec_id != after.default_spec_id or _field_ids(base) != _field_ids(now):
        raise StaleFilesError("the table's schema was replaced by one with other field ids")
    if not upsert:
        return
    foreign = snapshots_since(now, before.current_snapshot_id)
    if foreign is None or any(changes_rows(snapshot) for snapshot in foreign):
        raise StaleFilesError("another writer changed the table's rows")


def snapshots_since(table: Table, snapshot_id: int | None) -> list[Snapshot] | None:
    """Return main's snapshots after the given one, newest first; None if main no longer has it."""
    newer: list[Snapshot] = []
    for snapshot in checkpoints.ancestry(table):
        if snapshot.snapshot_id == snapshot_id:
            return newer
        newer.append(snapshot)
    return None


def changes_rows(snapshot: Snapshot) -> bool:
    """Return whether a snapshot added or removed files; claims and rewrites of manifests do not."""
    summary = snapshot.summary
    if summary is None:
        return True
    counts = ("added-data-files", "added-delete-files", "deleted-data-files", "removed-delete-files")
    if any(summary.get(name) not in (None, "0") for name in counts):
        return True
    if summary.operation == Operation.REPLACE and summary.get(_ENTRIES) is not None:
        return False
    return checkpoints.writer_of(snapshot) is None


def delete_manifests(table: Table) -> frozenset[str]:
    """Return the manifests of a table's delete files; a further one may delete any row."""
    manifests = manifests_of(table, table.current_snapshot())
    return frozenset(manifest.manifest_path for manifest in manifests if manifest.content == ManifestContent.DELETES)


def fenced(table: Table, detail: str) -> FencedError:
    """Return the error for a sink whose table another run of it has claimed."""
    return FencedError(
        "SQ5101",
        f'another run has taken over table "{qualified_name(*table.name())}"',
        detail=detail,
        hint="Nothing is lost: the new run continues from the last commit of this run.",
    )


def _refuse_other_sink(table: Table, mine: Checkpoint) -> None:
    for snapshot in checkpoints.ancestry(table):
        other = checkpoints.writer_of(snapshot)
        if other == mine.sink:
            return
        if other is not None:
            raise FencedError(
                "SQ5102",
                f"another sink has committed to {_table_text(table)}, which must contain only rows of this sink",
                detail=f"The id of that sink is {other}.",
                hint="Stop or drop that sink, or give it a different table. Then start this sink again.",
            )


def _table_text(table: Table) -> str:
    name = f'table "{qualified_name(*table.name())}"'
    return f"{branch_text(table)} of {name}" if isinstance(table, BranchTable) else name


def _field_ids(table: Table) -> dict[str, int]:
    return {field.name: field.field_id for field in table.schema().fields}
