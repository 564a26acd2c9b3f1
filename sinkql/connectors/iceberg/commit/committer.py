"""One proposal to commit, through lost replies, conflicts and an absent catalog, to a known outcome."""

from __future__ import annotations

from typing import Protocol

from pyiceberg.exceptions import BadRequestError, CommitFailedException, NoSuchTableError
from pyiceberg.table import Table

from sinkql.connector_api.stream import StaleFilesError
from sinkql.connectors.iceberg.commit.snapshot import Prepared
from sinkql.connectors.iceberg.storage.failure import refused
from sinkql.connectors.iceberg.table.failure import explain
from sinkql.connectors.iceberg.table.target import TargetTable
from sinkql.errors import CrowdedError, SinkqlError
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
