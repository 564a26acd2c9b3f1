"""Run the compactions of a table, and commit each between two batches. A failed compaction does not stop the sink."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pyiceberg.table import Table

from sinkql.connector_api.stream import Compacted, StaleFilesError
from sinkql.connectors.iceberg.commit import checkpoint as checkpoints
from sinkql.connectors.iceberg.commit.committer import commit_proposal, retries_exhausted
from sinkql.connectors.iceberg.commit.proposal import CompactionCommit
from sinkql.connectors.iceberg.compact.compaction import Attempt, Compaction, Scope, Steps, delete_files
from sinkql.connectors.iceberg.table.table import Expected
from sinkql.connectors.iceberg.table.target import TargetTable
from sinkql.connectors.iceberg.write.mode import Compactor
from sinkql.errors import CrowdedError, FencedError, SinkqlError
from sinkql.machine import clock
from sinkql.machine.randomness import new_id
from sinkql.storage import failpoint

_PAUSE, _LONGEST_PAUSE = 4, 256
"""Calls to skip after a failed compaction; the number doubles with each failure."""
_CONFLICTS = 4
"""If other processes change the table more often than this, a later compaction tries again."""
_LONGEST = 240.0
"""Seconds after which a compaction ends: the keys under which its file is open are valid for longer."""


class CompactionSchedule:
    """The compactions of one claim of a table, in sequence.

    `finished` is whether the last call with `whole` finished, and `files` the number of files when it began.
    """

    def __init__(
        self,
        target: TargetTable,
        compactor: Compactor,
        expected: Expected,
        *,
        clock: Callable[[], float] = clock.monotonic,
    ) -> None:
        self._target, self._compactor, self._expected = target, compactor, expected
        self._clock = clock
        self._steps: Steps | None = None
        self._is_whole = False
        self._scope: Scope | None = None
        self._table: Table | None = None
        self._id = ""
        self._skips = 0
        self._pause = _PAUSE
        self._unknown_at: int | None = None
        self.finished = False
        self.files = 0

    def running_id(self) -> str | None:
        """Return the id of the unfinished compaction, if any."""
        return self._id if self._steps is not None else None

    def has_unknown_commit(self, table: Table) -> bool:
        """Return whether a failed commit may still reach the table, so that none of its files may be deleted.

        It cannot once the table has a later commit.
        """
        return self._unknown_at is not None and self._unknown_at == table.metadata.current_snapshot_id

    def compact_next(
        self, table: Table, stored: checkpoints.StoredCheckpoint, *, go_on: Callable[[bool], bool], whole: bool = False
    ) -> tuple[Table, checkpoints.StoredCheckpoint, list[Compacted]]:
        """Compact while `go_on` allows it; return the table, its checkpoint, and the compactions that ended.

        With `whole`, compact all files that the table had at the first call with `whole`. Raises SinkqlError if the
        sink is fenced or the catalog does not answer. Other errors that would also stop a batch are left to the next
        batch.
        """
        compactions: list[Compacted] = []
        self.finished = False
        beside = self._steps is not None and not whole
        if self._skips and not whole:
            self._skips -= 1
            return table, stored, compactions
        while go_on(self._steps is not None):
            committing = False
            self._table = table
            try:
                if beside:  # the unfinished compaction may take long while small files accumulate
                    beside = False
                    id_, small = self._compact_beside(stored)
                    if small is not None:
                        committing = True
                        table, stored = self._commit(id_, small, table, stored)
                        compactions.append(_summary(small))
                    continue
                outcome = self._step(stored, whole=whole)
                self.files = len(self._scope or ()) or self.files
                if outcome is None and whole and not self._is_whole:
                    continue  # the compaction had begun without `whole` and did not include all files
                if outcome is None and whole:
                    self._scope, self.finished = None, True
                    if (problem := self._compactor.skipped_files()) is not None:
                        compactions.append(Compacted(problem=problem))
                if not outcome:
                    break
                if isinstance(outcome, Compaction):
                    committing = True
                    table, stored = self._commit(self._id, outcome, table, stored)
                    self._pause = _PAUSE
                    compactions.append(_summary(outcome))
            except Exception as error:
                self._give_up(error)
                if committing and not isinstance(error, StaleFilesError):
                    self._unknown_at = table.metadata.current_snapshot_id
                if committing and _must_stop_sink(error):
                    raise
                # A missing or unreadable file or a full disk does not stop a sink that can write its rows.
                compactions.append(Compacted(problem=str(error) or type(error).__name__))
                break
        return table, stored, compactions

    def _step(self, stored: checkpoints.StoredCheckpoint, *, whole: bool) -> Compaction | bool | None:
        """Run one step.

        Return the compaction if it is ready to commit. Otherwise return whether more steps can run before the next
        batch; None if no files are due.
        """
        if self._steps is None:
            self._id, self._is_whole = new_id(), whole
            end = self._clock() + _LONGEST
            if whole and self._scope is None:
                self._scope = Scope()
            attempt = Attempt(self._id, self._present, lambda: self._clock() > end, self._scope if whole else None)
            self._steps = self._compactor.compact(attempt, stored)
        try:
            return next(self._steps)
        except StopIteration as ended:
            self._steps = None
            compaction: Compaction | None = ended.value
            return compaction

    def _compact_beside(self, stored: checkpoints.StoredCheckpoint) -> tuple[str, Compaction | None]:
        """Compact small files beside an unfinished compaction; return its id, and the compaction if files are due."""
        id_ = new_id()
        steps = self._compactor.compact(Attempt(id_, self._present, lambda: True, beside=True), stored)
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                compaction: Compaction | None = ended.value
                break
        if compaction is not None:
            failpoint.point("compaction-beside")
        return id_, compaction

    def _present(self) -> Table:
        assert self._table is not None, "no compaction runs"
        return self._table

    def _commit(
        self, id_: str, compaction: Compaction, table: Table, stored: checkpoints.StoredCheckpoint
    ) -> tuple[Table, checkpoints.StoredCheckpoint]:
        checkpoint = replace(stored.checkpoint, index=compaction.index or stored.checkpoint.index)
        proposal = CompactionCommit(
            id_, compaction.change, compaction.deletes, checkpoint, stored.timestamp, self._expected
        )
        failpoint.point("compaction")
        try:
            after = commit_proposal(self._target, table, proposal, most_conflicts=_CONFLICTS)
        except (StaleFilesError, CrowdedError) as error:
            if retries_exhausted(error):
                delete_files(table, compaction.change.add)
            raise
        failpoint.point("compacted")
        written = checkpoints.compacted(after, checkpoint.sink, id_)
        now = written or checkpoints.StoredCheckpoint(checkpoint, stored.timestamp, snapshot=0, sequence=0)
        self._compactor.on_compacted(compaction, now.snapshot)
        return after, now

    def _give_up(self, error: Exception) -> None:
        if self._steps is not None:
            self._steps.close()
        self._steps = None
        self._compactor.on_commit_failed(error)
        self._skips, self._pause = self._pause, min(2 * self._pause, _LONGEST_PAUSE)


def _must_stop_sink(error: Exception) -> bool:
    """Return whether a compaction's commit failed so that a batch would fail too, or with an unknown outcome."""
    if isinstance(error, CrowdedError):
        return False  # a compaction tolerates far fewer conflicts than a batch
    return isinstance(error, FencedError) or (isinstance(error, SinkqlError) and error.retryable)


def _summary(compaction: Compaction) -> Compacted:
    before, after = compaction.before, compaction.after
    return Compacted(before.files, after.files, before.bytes, after.bytes)
