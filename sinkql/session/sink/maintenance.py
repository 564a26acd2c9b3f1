"""Run OPTIMIZE SINK and ALTER SINK … PUBLISH.

The process that runs the sink compacts the table. If the sink does not run, this process compacts it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self

from sinkql import physical
from sinkql.catalog.coordination.control import Control
from sinkql.connector_api.stream import ClaimRequest, Compacted
from sinkql.errors import LeaseHeldError, LeaseLostError, Notice, SinkqlError
from sinkql.lowering.job import lower
from sinkql.machine import clock
from sinkql.machine.randomness import new_uuid
from sinkql.planner.name import short_name
from sinkql.session.result import Result, Workspace
from sinkql.statement.operation import CompactSink, PublishBranch

WAIT_SECONDS = 120.0
_POLL_SECONDS = 0.2
_CHECK_SECONDS = 1.0
_NOTHING = Compacted(files_before=-1)
_COLUMNS = ("files_before", "files_after", "bytes_before", "bytes_after")


def optimize(operation: CompactSink, workspace: Workspace, *, wait_seconds: float | None = None) -> Result:
    """Compact a sink's table, and return its files and bytes before and after.

    Raise SQ5213 if the process that runs the sink does not begin, and SQ3553 if files cannot be compacted.
    """
    catalog, statement, name = workspace.catalog, operation.statement, operation.name
    job = lower(name, catalog.plans)
    result: Compacted | None = None
    while result is None:
        if not catalog.control.commits(job.sink_id) and catalog.control.desired(job.sink_id) != "dropped":
            result = _NOTHING
        elif catalog.control.is_held(job.sink_id):
            result = _request(job, workspace, WAIT_SECONDS if wait_seconds is None else wait_seconds)
        else:
            result = _optimize_here(job, workspace)
    if result == _NOTHING:
        notice = Notice(
            "SQ2339",
            f'sink "{short_name(name)}" has not committed yet, so its table has nothing to compact',
            statement.span,
        )
        return Result("OPTIMIZE SINK", (notice,), names=(name,), skipped=True)
    if result.problem is not None:
        raise SinkqlError(
            "SQ3553",
            f'the table of sink "{short_name(name)}" could not be compacted',
            statement.span,
            detail=result.problem,
            hint="Correct the cause in the detail, then run OPTIMIZE SINK again. No data is lost.",
        )
    return Result(
        "OPTIMIZE SINK", columns=_COLUMNS, rows=(tuple(getattr(result, column) for column in _COLUMNS),), names=(name,)
    )


def _request(job: physical.Job, workspace: Workspace, wait_seconds: float) -> Compacted | None:
    """Ask the process that runs the sink to compact. Return None if the process ends first."""
    control, reported = workspace.catalog.control, (0, 0)
    number = control.ask(job.sink_id)
    until = clock.monotonic() + wait_seconds
    while True:
        has_begun, result = control.outcome(job.sink_id, number)
        if result is not None:
            return result
        if not control.is_held(job.sink_id):
            return None
        if not has_begun and clock.monotonic() > until:
            raise SinkqlError(
                "SQ5213",
                f'the process that runs sink "{short_name(job.sink)}" has not begun to compact its table',
                hint="It begins after its batch. To see when, run SELECT * FROM mz_internal.mz_sink_maintenance;",
            )
        if has_begun:
            reported = _report(control.so_far(job.sink_id), reported, workspace)
        clock.sleep(_POLL_SECONDS)


def _report(progress: tuple[int, int], reported: tuple[int, int], workspace: Workspace) -> tuple[int, int]:
    """Report the progress if it has changed."""
    if progress != reported:
        workspace.report_progress(f"compacted {progress[0]:,} of at most {progress[1]:,} files")
    return progress


def _optimize_here(job: physical.Job, workspace: Workspace) -> Compacted | None:
    """Compact in this process under the sink's lease. Return None if another process has the lease."""
    from sinkql.runtime.sink.requests import (  # loads pyiceberg, which only a compaction needs
        AT_ONCE,
        OptimizeProgress,
    )

    control, owner = workspace.catalog.control, f"optimize-{new_uuid()}"
    try:
        epoch = control.acquire(job.sink_id, owner=owner, takeover=False)
    except LeaseHeldError:
        return None
    number = control.optimize_request(job.sink_id)
    with _Lease(control, job.sink_id, owner) as lease:
        writer = workspace.catalog.registry.writer(job.write, workspace.context(job))
        writer.open()
        if writer.load_checkpoint() is None:
            return _NOTHING
        maintenance = writer.maintenance
        if maintenance is None:
            return _NOTHING
        writer.claim(ClaimRequest({}, epoch, renew=lambda: control.renew(job.sink_id, owner=owner)))
        progress, reported = OptimizeProgress(), (0, 0)
        while not progress.finished:
            if lease.lost is not None:
                raise lease.lost
            if lease.dropped:
                return None
            writer.refresh()
            may_continue = _may_continue(lease, clock.monotonic() + AT_ONCE)
            compactions, finished = maintenance.optimize(may_continue)
            for compaction in compactions:
                control.compacted(job.sink_id, compaction)
            progress.add(compactions, finished)
            if not progress.finished:
                files = progress.total().files_before, maintenance.files_to_optimize()
                reported = _report(files, reported, workspace)
        result = progress.total()
        if number is not None:
            control.optimized(job.sink_id, number, result)
        return result


def _may_continue(lease: _Lease, end: float) -> Callable[[], bool]:
    return lambda: lease.is_valid() and clock.monotonic() < end


class _Lease:
    """The lease of a sink, which a thread renews until the end of the block.

    `lost` is set when another process takes the lease, and `dropped` when the sink should be dropped.
    """

    def __init__(self, control: Control, sink_id: str, owner: str) -> None:
        self._control, self._sink_id, self._owner = control, sink_id, owner
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        self.lost: LeaseLostError | None = None
        self.dropped = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._control.release(self._sink_id, owner=self._owner)

    def is_valid(self) -> bool:
        """Return whether the lease still holds and the sink is not dropped."""
        return self.lost is None and not self.dropped

    def _renew(self) -> None:
        seconds = self._control.lease_seconds / 3
        renewed_at = clock.monotonic()
        while not clock.wait(self._ended, min(seconds, _CHECK_SECONDS)):
            try:
                self.dropped = self._control.desired(self._sink_id) == "dropped"
                if clock.monotonic() - renewed_at >= seconds:
                    self._control.renew(self._sink_id, owner=self._owner)
                    renewed_at = clock.monotonic()
            except LeaseLostError as error:
                self.lost = error
                return
            except SinkqlError:
                continue  # the catalog may be locked now; retry before the lease expires


def publish(operation: PublishBranch, workspace: Workspace) -> Result:
    """Move main of the sink's table to the head of the sink's branch. The sink can run during it.

    Raise SQ3522 before its first commit, and SQ3523 if main has diverged.
    """
    catalog, statement, sink = workspace.catalog, operation.statement, operation.sink
    job = lower(sink.name, catalog.plans)
    publish_branch = catalog.registry.sinks[job.write.connector].publish
    assert publish_branch is not None, "a sink of this kind has no branch"
    assert sink.destination is not None
    try:
        outcome = publish_branch(job.write, workspace.context(job))
    except SinkqlError as error:
        error.span = error.span or statement.name.span
        raise
    subject = f'main of table "{outcome.table}" {"is now" if outcome.moved else "was already"}'
    message = f'{subject} where branch "{sink.destination.branch}" is, at snapshot {outcome.snapshot}'
    return Result(
        "ALTER SINK", (Notice("SQ2348", message, statement.span),), names=(sink.name,), skipped=not outcome.moved
    )
