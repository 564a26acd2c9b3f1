"""One attempt at a commit, through lost replies, conflicts and an absent catalog, to a known outcome."""

from __future__ import annotations

from typing import Protocol

from pyiceberg.exceptions import BadRequestError, CommitFailedException, NoSuchTableError
from pyiceberg.table import Table

from sinkql import faults
from sinkql.connector.stream import RedoBatchError
from sinkql.connectors.iceberg.failure import explain
from sinkql.connectors.iceberg.snapshot import Prepared
from sinkql.connectors.iceberg.target import Target
from sinkql.errors import SinkqlError

_CONFLICTS = 50
_BAD_REQUESTS = 4


class Attempt(Protocol):
    """What a commit wants to write, whatever the table looks like by the time it gets there."""

    def prepare(self, table: Table) -> Prepared:
        """Write the snapshot's manifests on top of this load of the table; raises SinkqlError where it must not be."""

    def landed(self, table: Table) -> bool:
        """Tell whether the table has this attempt's commit."""

    def check(self, base: Table, now: Table) -> None:
        """Raise where the attempt may not be tried again on `now`, having been made for `base`."""


def land(target: Target, table: Table, attempt: Attempt) -> Table:
    """Commit the attempt exactly once, and return the table after it.

    After every exception, whatever its kind, the outcome is unknown: a reply may be lost, and a request that was
    applied and sent again answers with a conflict. So the table is loaded and searched for this attempt. If it is not
    there, the attempt is tried again at once on the fresh load: either that commits, and the first request, should it
    come late, no longer finds the parent that it requires, or it fails and the next load shows the first.
    Nothing that an attempt wrote is deleted here.
    """
    failures = conflicts = 0
    while True:
        outcome = _try(target, table, attempt)
        now = outcome if isinstance(outcome, Table) else _load(target)
        if isinstance(outcome, Table) or attempt.landed(now):
            target.tidy(table, now)
            return now
        error = outcome
        attempt.check(table, now)
        if isinstance(error, CommitFailedException):
            conflicts += 1
            if conflicts >= _CONFLICTS:
                raise _crowded(target, error) from error
        else:
            failures += 1
            limit = _BAD_REQUESTS if isinstance(error, BadRequestError) else target.patience.tries
            if failures >= limit:
                raise explain(error, target.connection) from error
            target.patience.wait(failures)
        table = now


def _try(target: Target, table: Table, attempt: Attempt) -> Table | Exception:
    """Post the attempt once and return the table after it, or what went wrong; raises what stops it for good."""
    try:
        prepared = attempt.prepare(table)
    except (SinkqlError, RedoBatchError):
        raise
    except Exception as error:
        return error  # the parent's files may be gone with the table: the load will tell
    faults.point("commit-request")
    try:
        after = target.post(table, prepared.requirements, prepared.updates)
        faults.point("commit-reply")
    except Exception as error:
        return error
    return after


def _load(target: Target) -> Table:
    try:
        return target.load()
    except NoSuchTableError as error:
        raise target.gone() from error


def _crowded(target: Target, error: Exception) -> SinkqlError:
    return SinkqlError(
        "SQ5203",
        f'table "{target.namespace}.{target.table}" changes faster than a commit can follow',
        detail=str(error),
        hint="Slow the table's other writers down; the sink goes on where it was.",
    )
