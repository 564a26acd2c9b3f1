"""A mode's compactions → commits between two batches; whatever keeps one from it, the sink goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

from pyiceberg.table import Table

from sinkql.connector_api.stream import Compacted, StaleFilesError
from sinkql.connectors.iceberg.commit import checkpoint as markers
from sinkql.connectors.iceberg.commit.committer import commit_proposal, retries_exhausted
from sinkql.connectors.iceberg.commit.proposal import CompactionCommit
from sinkql.connectors.iceberg.compact.compaction import Attempt, Compaction, Scope, Steps, remove
from sinkql.connectors.iceberg.table.table import Expected
from sinkql.connectors.iceberg.table.target import TargetTable
from sinkql.connectors.iceberg.write.mode import WriteMode
from sinkql.errors import CrowdedError, FencedError, SinkqlError
from sinkql.storage import failpoint

_REST, _LONGEST_REST = 4, 256
"""Commits to wait after a compaction that failed, twice as many each time."""
_CONFLICTS = 4
"""A table that others change all the time is compacted later."""
_LONGEST = 240.0
"""Seconds until a compaction comes to its end: the keys to the file that it writes hold longer than that."""


class CompactionSchedule:
    """The compactions of one claim of a table, one after the other."""

    def __init__(
        self, target: TargetTable, mode: WriteMode, expected: Expected, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._target, self._mode, self._expected = target, mode, expected
        self._clock = clock
        self._steps: Steps | None = None
        self._whole = False
        self._scope: Scope | None = None
        self._table: Table | None = None
        self._id = ""
        self._waiting = 0
        self._rest = _REST
        self._unknown_at: int | None = None
        self.finished = False
        self.files = 0
        """How many files there were when all of them were wanted compacted, the last time."""

    def busy(self) -> str | None:
        """Return the id of the compaction that is being made."""
        return self._id if self._steps is not None else None

    def unknown(self, table: Table) -> bool:
        """Tell whether a commit that failed may still arrive, since nothing has come after the table it was made for.

        Until then nothing that it wrote may be removed.
        """
        return self._unknown_at is not None and self._unknown_at == table.metadata.current_snapshot_id

    def compact_next(
        self, table: Table, kept: markers.StoredCheckpoint, *, go_on: Callable[[bool], bool], whole: bool = False
    ) -> tuple[Table, markers.StoredCheckpoint, list[Compacted]]:
        """Do what is due while there is time; return the table and its marker after it, and what came to an end.

        With `whole`, do all that makes the table better as it is at the first such call, and then `finished` is true.

        Raises SinkqlError where the sink is fenced, or the catalog does not answer. What else may keep a batch from its
        commit too is the next batch's to tell.
        """
        done: list[Compacted] = []
        self.finished = False
        beside = self._steps is not None and not whole
        if self._waiting and not whole:
            self._waiting -= 1
            return table, kept, done
        while go_on(self._steps is not None):
            committing = False
            self._table = table
            try:
                if beside:  # what has been begun may take long, and small files pile up meanwhile
                    beside = False
                    id_, small = self._beside(kept)
                    if small is not None:
                        committing = True
                        table, kept = self._commit(id_, small, table, kept)
                        done.append(_told(small))
                    continue
                found = self._step(kept, whole=whole)
                self.files = len(self._scope or ()) or self.files
                if found is None and whole and not self._whole:
                    continue  # what had been begun took only what is worth it
                if found is None and whole:
                    self._scope, self.finished = None, True
                    if (problem := self._mode.skipped_files()) is not None:
                        done.append(Compacted(problem=problem))
                if not found:
                    break
                if isinstance(found, Compaction):
                    committing = True
                    table, kept = self._commit(self._id, found, table, kept)
                    self._rest = _REST
                    done.append(_told(found))
            except Exception as error:
                self._give_up(error)
                if committing and not isinstance(error, StaleFilesError):
                    self._unknown_at = table.metadata.current_snapshot_id
                if committing and _ends_sink(error):
                    raise
                # A file may be gone, or unreadable, or a disk full: no reason to stop a sink that can write its rows.
                done.append(Compacted(problem=str(error) or type(error).__name__))
                break
        return table, kept, done

    def _step(self, kept: markers.StoredCheckpoint, *, whole: bool) -> Compaction | bool | None:
        """Take one step; return what is to be committed, or else whether there is more to do before the next batch."""
        if self._steps is None:
            self._id, self._whole = uuid4().hex, whole
            end = self._clock() + _LONGEST
            if whole and self._scope is None:
                self._scope = Scope()
            scope = self._scope if whole else None
            self._steps = self._mode.compact(Attempt(self._id, self._now, lambda: self._clock() > end, scope), kept)
        try:
            return next(self._steps)
        except StopIteration as ended:
            self._steps = None
            done: Compaction | None = ended.value
            return done

    def _beside(self, kept: markers.StoredCheckpoint) -> tuple[str, Compaction | None]:
        """Compact small files while another compaction is under way; return what is to be committed, and its id."""
        id_ = uuid4().hex
        steps = self._mode.compact(Attempt(id_, self._now, lambda: True, beside=True), kept)
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                done: Compaction | None = ended.value
                break
        if done is not None:
            failpoint.point("compaction-beside")
        return id_, done

    def _now(self) -> Table:
        assert self._table is not None, "not run"
        return self._table

    def _commit(
        self, id_: str, done: Compaction, table: Table, kept: markers.StoredCheckpoint
    ) -> tuple[Table, markers.StoredCheckpoint]:
        marker = replace(kept.marker, index=done.index or kept.marker.index)
        proposal = CompactionCommit(id_, done.change, done.deletes, marker, kept.timestamp, self._expected)
        failpoint.point("compaction")
        try:
            after = commit_proposal(self._target, table, proposal, most_conflicts=_CONFLICTS)
        except (StaleFilesError, CrowdedError) as error:
            if retries_exhausted(error):
                remove(table, done.change.add)
            raise
        failpoint.point("compacted")
        found = markers.compacted(after, marker.sink, id_)
        now = found or markers.StoredCheckpoint(marker, kept.timestamp, snapshot=0, sequence=0)
        self._mode.compacted(done, now.snapshot)
        return after, now

    def _give_up(self, error: Exception) -> None:
        if self._steps is not None:
            self._steps.close()
        self._steps = None
        self._mode.on_commit_failed(error)
        self._waiting, self._rest = self._rest, min(2 * self._rest, _LONGEST_REST)


def _ends_sink(error: Exception) -> bool:
    """Tell whether a compaction's commit failed so that no batch would get through either, or that is not known."""
    if isinstance(error, CrowdedError):
        return False  # a compaction gives up to others far earlier than a batch
    return isinstance(error, FencedError) or (isinstance(error, SinkqlError) and error.retryable)


def _told(done: Compaction) -> Compacted:
    before, after = done.before, done.after
    return Compacted(before.files, after.files, before.bytes, after.bytes)
