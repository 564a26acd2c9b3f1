"""Maintain a sink's table and files between its batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from sinkql.connector_api.stream import Compacted, JobOffsets
from sinkql.errors import FencedError, SinkqlError
from sinkql.machine import clock
from sinkql.runtime.batch.attempt import BatchComputation
from sinkql.runtime.batch.metrics import CommitReport
from sinkql.runtime.batch.pacing import MaintenanceBudget
from sinkql.runtime.batch.replay import DeadLetterReplay
from sinkql.runtime.batch.resume import SinkTable
from sinkql.runtime.batch.source_files import SourceFiles
from sinkql.storage import failpoint

_SWEEP_EVERY = 20
"""Batches between two sweeps."""
_REFRESH_EVERY = 6 * 3600.0
_SKEW_SECONDS = 60.0
"""The greatest difference between the clocks of hosts that share a state directory."""


@dataclass(slots=True)
class TableMaintenance:
    """Compacts a sink's table within a budget, and deletes what no checkpoint needs. `start` comes first.

    `interval` returns the present time between two commits.
    """

    computation: BatchComputation
    source_files: SourceFiles
    dead_letters: DeadLetterReplay
    report: CommitReport
    budget: MaintenanceBudget
    interval: Callable[[], timedelta]
    _batches: int = field(default=0, init=False)
    _refresh_at: float = field(default=0.0, init=False)

    @property
    def _table(self) -> SinkTable:
        return self.computation.table

    def start(self, targets: JobOffsets | None) -> None:
        """Begin after the claim, with a sweep of the source files."""
        # counted from the epoch, so that a sink that runs for one batch each time sweeps now and then
        self._batches = self._table.checkpoint.epoch
        self.sweep_source_files(targets)

    def optimize(self, go_on: Callable[[], bool]) -> tuple[Sequence[Compacted], bool]:
        """Compact the whole table; return the compactions, and whether all are done.

        `go_on` is called before each step. Raises what a batch raises before it writes, for example SQ5101 (fenced).
        """
        self._table.refresh()
        maintenance = self._table.writer.maintenance
        if maintenance is None:
            return (), True
        compactions, finished = maintenance.optimize(go_on, interval=self.interval())
        self.report.report_compactions(compactions)
        return compactions, finished

    def files_to_optimize(self) -> int:
        """Return the number of files when `optimize` began, an upper bound of its work; 0 before that."""
        maintenance = self._table.writer.maintenance
        return maintenance.files_to_optimize() if maintenance is not None else 0

    def maintain(self, before_state: str | None, targets: JobOffsets | None) -> None:
        """Maintain the table after a batch, within the budget; `before_state` names the state before the batch."""
        with self.budget.record() as go_on:
            maintenance = self._table.writer.maintenance
            interval = self.interval()
            compactions = maintenance.maintain(go_on, interval=interval) if maintenance is not None else ()
            self.dead_letters.maintain(go_on, interval=interval)
        self.report.report_compactions(compactions)
        self.refresh_files()
        self._batches += 1
        if self._batches % _SWEEP_EVERY == 0:
            with suppress(SinkqlError):  # the store does not answer now: the next sweep will do
                states = self.computation.indexes.states()
                self.computation.state.sweep(self._table.checkpoint, before_state, states)
            self.sweep_source_files(targets)
        failpoint.point("maintained")

    def refresh_files(self) -> None:
        """Every few hours, make the table keep the sink's files that its checkpoint needs; errors are ignored.

        Call it while no batch runs.
        """
        if clock.monotonic() < self._refresh_at:
            return
        self._refresh_at = clock.monotonic() + _REFRESH_EVERY
        try:
            self._table.refresh()
        except FencedError:
            return  # a newer epoch has the table and its files
        except (SinkqlError, OSError):
            pass  # a file of the table may be missing already
        with suppress(OSError):
            self.computation.state.directory.touch()
        with suppress(SinkqlError, OSError):
            self.source_files.refresh(self._table.checkpoint.end)

    def sweep_source_files(self, targets: JobOffsets | None) -> None:
        """Delete the source files that no checkpoint needs.

        The checkpoint names the last two offsets, a batch with committed dead letters its end, and a run with `--once`
        its targets. The files of a newer owner of the sink are younger than this one's last commit.
        """
        checkpoint = self._table.checkpoint
        needed = (checkpoint.start, checkpoint.end, self.dead_letters.pending_end() or {}, targets or {})
        self.source_files.sweep(needed, before=self._table.owned_at - _SKEW_SECONDS)

    def release(self) -> None:
        """Allow the sources to delete committed input."""
        for source, reader in self.computation.readers.items():
            reader.after_commit(self._table.checkpoint.end[source])
        failpoint.point("released")
