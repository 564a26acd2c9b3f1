"""OPTIMIZE SINK → its table compacted at once: by the process that runs the sink, or here where none does.

ALTER SINK … PUBLISH → what is on the sink's branch is what everybody reads, whether or not the sink runs.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from typing import Self

from sinkql import ast, physical
from sinkql.catalog.coordination.control import Control
from sinkql.connector_api.stream import Compacted
from sinkql.errors import LeaseHeldError, LeaseLostError, Notice, SinkqlError
from sinkql.lowering.job import lower
from sinkql.planner.edit.alter import find_published
from sinkql.planner.name import find, short_name
from sinkql.session.result import Result, Workspace

WAIT_SECONDS = 120.0
_POLL_SECONDS = 0.2
_LOOK_SECONDS = 1.0
_NOTHING = Compacted(files_before=-1)
_COLUMNS = ("files_before", "files_after", "bytes_before", "bytes_after")


def optimize(statement: ast.OptimizeSink, workspace: Workspace, *, wait_seconds: float | None = None) -> Result:
    """Compact a sink's table, and return how many files and bytes became how many.

    Raises SQ5213 where the process that runs the sink does not begin, SQ3553 where files cannot be compacted.
    """
    catalog = workspace.catalog
    name = find(catalog.plans, statement.name, "SINK").name
    job = lower(name, catalog.plans)
    done: Compacted | None = None
    while done is None:
        if not catalog.control.commits(job.sink_id) and catalog.control.desired(job.sink_id) != "dropped":
            done = _NOTHING
        elif catalog.control.held(job.sink_id):
            done = _ask(job, workspace, WAIT_SECONDS if wait_seconds is None else wait_seconds)
        else:
            done = _do(job, workspace)
    if done == _NOTHING:
        notice = Notice(
            "SQ2339", f'sink "{short_name(name)}" has not committed yet: there is nothing to compact', statement.span
        )
        return Result("OPTIMIZE SINK", (notice,), names=(name,), skipped=True)
    if done.problem is not None:
        raise SinkqlError(
            "SQ3553",
            f'the table of sink "{short_name(name)}" could not be compacted',
            statement.span,
            detail=done.problem,
            hint="Nothing is lost. Mend what the detail says, and run OPTIMIZE SINK again.",
        )
    return Result(
        "OPTIMIZE SINK", columns=_COLUMNS, rows=(tuple(getattr(done, each) for each in _COLUMNS),), names=(name,)
    )


def _ask(job: physical.Job, workspace: Workspace, wait_seconds: float) -> Compacted | None:
    """Let the process that runs the sink do it; None where it has ended before it was done."""
    control, told = workspace.catalog.control, (0, 0)
    number = control.ask(job.sink_id)
    until = time.monotonic() + wait_seconds
    while True:
        begun, done = control.outcome(job.sink_id, number)
        if done is not None:
            return done
        if not control.held(job.sink_id):
            return None
        if not begun and time.monotonic() > until:
            raise SinkqlError(
                "SQ5213",
                f'the process that runs sink "{short_name(job.sink)}" has not begun to compact its table',
                hint="It does once its batch is done. SELECT * FROM mz_internal.mz_sink_maintenance; tells when.",
            )
        if begun:
            told = _tell(control.so_far(job.sink_id), told, workspace)
        time.sleep(_POLL_SECONDS)


def _tell(now: tuple[int, int], told: tuple[int, int], workspace: Workspace) -> tuple[int, int]:
    """Say how far it is, unless that was told."""
    if now != told:
        workspace.tell(f"compacted {now[0]:,} of at most {now[1]:,} files")
    return now


def _do(job: physical.Job, workspace: Workspace) -> Compacted | None:
    """Take the sink's lease and its table, and do it here; None where another process was faster."""
    from sinkql.runtime.sink.requests import (  # pyiceberg and others, only where something runs
        AT_ONCE,
        OptimizeProgress,
    )

    control, owner = workspace.catalog.control, f"optimize-{uuid.uuid4()}"
    try:
        epoch = control.acquire(job.sink_id, owner=owner, takeover=False)
    except LeaseHeldError:
        return None
    number = control.asked(job.sink_id)
    with _Lease(control, job.sink_id, owner) as lease:
        writer = workspace.catalog.registry.writer(job.write, workspace.context(job))
        writer.open()
        if writer.load_checkpoint() is None:
            return _NOTHING
        writer.claim({}, epoch=epoch, renew=lambda: control.renew(job.sink_id, owner=owner))
        work, told = OptimizeProgress(), (0, 0)
        while not work.finished:
            if lease.lost is not None:
                raise lease.lost
            if lease.dropped:
                return None
            writer.refresh()
            found, finished = writer.optimize(_for_now(lease, time.monotonic() + AT_ONCE))
            for each in found:
                control.compacted(job.sink_id, each)
            work.add(found, finished)
            if not work.finished:
                told = _tell((work.total().files_before, writer.files_to_optimize()), told, workspace)
        done = work.total()
        if number is not None:
            control.optimized(job.sink_id, number, done)
        return done


def _for_now(lease: _Lease, end: float) -> Callable[[], bool]:
    return lambda: lease.stays() and time.monotonic() < end


class _Lease:
    """A sink's lease, renewed by a thread whatever takes long, until the end of the block.

    `lost` is set once another process has it, `dropped` once the sink is to be dropped.
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

    def stays(self) -> bool:
        """Tell whether to go on."""
        return self.lost is None and not self.dropped

    def _renew(self) -> None:
        seconds = self._control.lease_seconds / 3
        renewed_at = time.monotonic()
        while not self._ended.wait(min(seconds, _LOOK_SECONDS)):
            try:
                self.dropped = self._control.desired(self._sink_id) == "dropped"
                if time.monotonic() - renewed_at >= seconds:
                    self._control.renew(self._sink_id, owner=self._owner)
                    renewed_at = time.monotonic()
            except LeaseLostError as error:
                self.lost = error
                return
            except SinkqlError:
                continue  # a catalog that is locked now may not be at the next turn, before the lease has run out


def publish(statement: ast.Alter, workspace: Workspace) -> Result:
    """Move main of the sink's table to the head of the sink's branch, in a commit that the sink need not know of.

    Raises SQ2347 for a sink without a branch, SQ3522 before its first commit, SQ3523 where main has left the branch.
    """
    catalog = workspace.catalog
    sink, notices = find_published(statement, catalog.reader())
    if sink is None:
        return Result("ALTER SINK", notices, skipped=True)
    job = lower(sink.name, catalog.plans)
    publishing = catalog.registry.sinks[job.write.connector].publish
    assert publishing is not None, "a sink of this kind has no branch"
    assert sink.destination is not None
    try:
        done = publishing(job.write, workspace.context(job))
    except SinkqlError as error:
        error.span = error.span or statement.name.span
        raise
    place = f'main of table "{done.table}" {"is now" if done.moved else "was already"}'
    message = f'{place} where branch "{sink.destination.branch}" is, at snapshot {done.snapshot}'
    return Result(
        "ALTER SINK", (Notice("SQ2348", message, statement.span),), names=(sink.name,), skipped=not done.moved
    )
