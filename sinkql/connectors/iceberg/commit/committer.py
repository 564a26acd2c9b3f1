"""One proposal to commit, through lost replies, conflicts and an absent catalog, to a known outcome.

A table as it was and as it is → whether a sink may go on writing to it, and what others did meanwhile.
"""

from __future__ import annotations

from typing import Protocol

from pyiceberg.exceptions import BadRequestError, CommitFailedException, NoSuchTableError
from pyiceberg.manifest import ManifestContent
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from sinkql.connector_api.stream import Checkpoint, StaleFilesError
from sinkql.connectors.iceberg.commit import checkpoint as markers
from sinkql.connectors.iceberg.commit.snapshot import Prepared
from sinkql.connectors.iceberg.file.manifest import manifests_of
from sinkql.connectors.iceberg.storage import refused
from sinkql.connectors.iceberg.table.branch import BranchTable, called
from sinkql.connectors.iceberg.table.failure import explain
from sinkql.connectors.iceberg.table.table import Expected, check
from sinkql.connectors.iceberg.table.target import TargetTable
from sinkql.errors import CrowdedError, DroppedTableError, FencedError, SinkqlError
from sinkql.keywords import qualified_name
from sinkql.storage import failpoint

_CONFLICTS = 50
_REFUSALS = 4


class Proposal(Protocol):
    """What is to be committed, whatever the table looks like by the time it gets there."""

    def prepare(self, table: Table) -> Prepared:
        """Write the snapshot's manifests on top of this load of the table; raises SinkqlError where it must not be."""

    def landed(self, table: Table) -> bool:
        """Tell whether the table has this attempt's commit."""

    def check(self, base: Table, now: Table) -> None:
        """Raise where it may not be tried on `now`, having been made for `base`: for the first attempt they are one."""

    def stands(self, table: Table) -> None:
        """Raise SQ5101 where it is in the table, and another run has claimed that since."""


def commit_proposal(
    target: TargetTable, table: Table, proposal: Proposal, *, most_conflicts: int = _CONFLICTS
) -> Table:
    """Commit the attempt exactly once, and return the table after it.

    After every exception, whatever its kind, the outcome is unknown: a reply may be lost, and a request that was
    applied and sent again answers with a conflict. So the table is loaded and searched for this attempt. If it is not
    there, the attempt is tried again at once on the fresh load: either that commits, and the first request, should it
    come late, no longer finds the parent that it requires, or it fails and the next load shows the first.
    Nothing that an attempt wrote is deleted here.

    Each attempt, the first one too, is held against the table that it is made on: that may be a load in which an
    earlier proposal was found, below the claim of another run. What is found so itself is the last that this run does.
    """
    proposal.check(table, table)
    landed = False
    try:
        found = _land(target, table, proposal, most_conflicts=most_conflicts)
        landed = True
    finally:
        target.tags.done(landed=landed)
    proposal.stands(found)
    return found


def _land(target: TargetTable, table: Table, proposal: Proposal, *, most_conflicts: int) -> Table:
    failures = conflicts = 0
    parents = set()
    while True:
        parents.add(table.metadata.current_snapshot_id)
        outcome = _try(target, table, proposal)
        now = outcome if isinstance(outcome, Table) else _load(target)
        if isinstance(outcome, Table) or proposal.landed(now):
            target.tidy(table, now)
            target.check_branch(table, now)
            return now
        error = outcome
        proposal.check(table, now)
        if isinstance(error, CommitFailedException) or _late(error, table, now):
            conflicts += 1
            if conflicts >= most_conflicts:
                over = now.metadata.current_snapshot_id not in parents
                raise _crowded(target, error, over=over) from error
        else:
            failures += 1
            limit = _REFUSALS if isinstance(error, BadRequestError) or refused(error) else target.patience.tries
            if failures >= limit and isinstance(error, FileNotFoundError):
                raise target.lost_file(error) from error
            if failures >= limit:
                raise explain(error, target.connection) from error
            target.patience.wait(failures)
        table = now


def retries_exhausted(error: StaleFilesError | CrowdedError) -> bool:
    """Tell whether no attempt can arrive any more, so that the files of all of them may go."""
    return isinstance(error, StaleFilesError) or error.over


def _try(target: TargetTable, table: Table, proposal: Proposal) -> Table | Exception:
    """Post the attempt once and return the table after it, or what went wrong; raises what stops it for good."""
    try:
        prepared = proposal.prepare(table)
        target.settle(prepared.files)
    except (SinkqlError, StaleFilesError):
        raise
    except Exception as error:
        return error  # the parent's files may be gone with the table: the load will tell
    failpoint.point("commit-request")
    tag = (prepared.tag,) if prepared.tag is not None and target.tags.now else ()
    try:
        after = target.post(table, prepared.requirements, (*prepared.updates, *tag))
        failpoint.point("commit-reply")
    except Exception as error:
        if tag:
            target.tags.failed(error)
        return error
    return after


def _late(error: Exception, table: Table, now: Table) -> bool:
    """Tell whether an attempt was refused for the number of its snapshot, or for its row ids.

    A commit to another branch takes both, and moves nothing that the attempt requires.
    """
    moved = table.metadata.next_sequence_number() != now.metadata.next_sequence_number()
    return moved and isinstance(error, BadRequestError | ValueError)


def _load(target: TargetTable) -> Table:
    try:
        return target.load()
    except NoSuchTableError as error:
        raise target.gone() from error


def _crowded(target: TargetTable, error: Exception, *, over: bool) -> CrowdedError:
    return CrowdedError(
        "SQ5203",
        f'table "{target.namespace}.{target.table}" changes faster than a commit can follow',
        detail=str(error),
        hint="The sink tries again by itself. If it does not get through, slow the other writers down.",
        over=over,
    )


_ENTRIES = "entries-processed"
"""What Iceberg says of a rewrite of manifests, and of nothing else."""


def check_still_ours(
    table: Table, mine: Checkpoint, expected: Expected, schema: Schema | None = None
) -> markers.StoredCheckpoint:
    """Return the marker if `held` and `fits` pass; raises what they do, and SQ3502."""
    held(table, mine)
    fits(table, mine, expected, schema)
    kept = markers.find(table, mine.sink)
    assert kept is not None
    return kept


def held(table: Table, mine: Checkpoint) -> markers.Standing:
    """Return who has the table if that is still this claim; raises SQ5101 (fenced), SQ3501."""
    found = markers.standing(table, mine.sink)
    if found is None or found.epoch < mine.epoch:
        raise markers.rolled_back(table, mine.sink)
    if found.claim != mine.claim:
        raise fenced(table, f"Epoch {found.epoch} has claimed the table; this is epoch {mine.epoch}.")
    return found


def fits(table: Table, mine: Checkpoint, expected: Expected, schema: Schema | None = None) -> None:
    """Raise where the sink cannot write to the table as it is now: SQ5102 (fenced), SQ3504 and others of its shape.

    `schema` is the one that the table is about to get, if it gets another.
    """
    if expected.upsert:
        _refuse_other_sink(table, mine)
    check(table, expected, schema)


def same_table(base: Table, now: Table) -> None:
    """Raise SQ3503 where the table was dropped and created again between two loads."""
    if base.metadata.table_uuid != now.metadata.table_uuid:
        raise recreated(now)


def recreated(table: Table) -> SinkqlError:
    """Return the error for a table that is not the one that the sink has written to."""
    return DroppedTableError(
        "SQ3503",
        f'table "{qualified_name(*table.name())}" was dropped and created again since the sink wrote to it',
        hint="Drop the sink and create it again, into a new table.",
    )


def check_usable(base: Table, now: Table, *, upsert: bool) -> None:
    """Raise RedoBatchError where files made for `base` are of no use on `now`."""
    before, after = base.metadata, now.metadata
    if before.default_spec_id != after.default_spec_id or _ids(base) != _ids(now):
        raise StaleFilesError("the table's schema was replaced by one with other field ids")
    if not upsert:
        return
    strangers = snapshots_since(now, before.current_snapshot_id)
    if strangers is None or any(changes_rows(snapshot) for snapshot in strangers):
        raise StaleFilesError("another writer changed the table's rows")


def snapshots_since(table: Table, snapshot_id: int | None) -> list[Snapshot] | None:
    """Return main's snapshots after that one, newest first; None if it is no longer on its ancestry."""
    found: list[Snapshot] = []
    for snapshot in markers.ancestry(table):
        if snapshot.snapshot_id == snapshot_id:
            return found
        found.append(snapshot)
    return None


def changes_rows(snapshot: Snapshot) -> bool:
    """Tell whether a snapshot added or removed files: claims do not, and rewrites of manifests."""
    summary = snapshot.summary
    if summary is None:
        return True
    counts = ("added-data-files", "added-delete-files", "deleted-data-files", "removed-delete-files")
    if any(summary.get(name) not in (None, "0") for name in counts):
        return True
    if summary.operation == Operation.REPLACE and summary.get(_ENTRIES) is not None:
        return False
    return markers.writer_of(snapshot) is None


def delete_manifests(table: Table) -> frozenset[str]:
    """Return which manifests of delete files a table has; with another one, any row may be gone."""
    manifests = manifests_of(table, table.current_snapshot())
    return frozenset(each.manifest_path for each in manifests if each.content == ManifestContent.DELETES)


def fenced(table: Table, detail: str) -> FencedError:
    """Return the error for a sink whose table another run of it has taken."""
    return FencedError(
        "SQ5101",
        f'another run has taken over table "{qualified_name(*table.name())}"',
        detail=detail,
        hint="Nothing is lost: the other run continues from the last commit of this one.",
    )


def _refuse_other_sink(table: Table, mine: Checkpoint) -> None:
    for snapshot in markers.ancestry(table):
        other = markers.writer_of(snapshot)
        if other == mine.sink:
            return
        if other is not None:
            raise FencedError(
                "SQ5102",
                f"another sink has committed to {_where(table)}, which is to have this sink's rows alone",
                detail=f"The other sink has the id {other}.",
                hint="Stop or drop the other sink, or give it another table; then start this one again.",
            )


def _where(table: Table) -> str:
    name = f'table "{qualified_name(*table.name())}"'
    return f"{called(table)} of {name}" if isinstance(table, BranchTable) else name


def _ids(table: Table) -> dict[str, int]:
    return {field.name: field.field_id for field in table.schema().fields}
