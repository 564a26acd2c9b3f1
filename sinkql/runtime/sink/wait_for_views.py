"""Wait, in a run with `--once`, until the materialized views that a sink reads have all present input."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from sinkql import physical
from sinkql.connector_api.stream import Offsets
from sinkql.errors import SinkqlError
from sinkql.machine import clock
from sinkql.planner.name import short_name
from sinkql.runtime.batch.clock import with_clock
from sinkql.runtime.batch.timeline import Timeline
from sinkql.runtime.sink.host import SinkHost

_LOOK_SECONDS = 0.05
_ABSENT_SECONDS = 30.0
"""After that, a view that no process runs is read in its present state."""
_BEGUN_SECONDS = 5.0
"""By then, a view that another process starts no longer has the status of its former end."""


def wait_for_views(job: physical.Job, host: SinkHost, stops: Callable[[], bool]) -> None:
    """Wait until the views that a job reads, run by this process or another, have all present input, or `stops`.

    Raises SQ3455 if the job of a view has failed.
    """
    for view in [read.options["view_id"] for read in job.reads() if read.connector == physical.VIEW]:
        runs_here = any(work.job.sink_id == view and work.job.cluster == job.cluster for work in host.workload.now())
        has_caught_up: Callable[[], bool] | None = None
        while not stops() and view not in host.ended.ids:
            if not runs_here or view in host.ended.elsewhere:
                has_caught_up = has_caught_up or _catch_up_check(view, host)
                if has_caught_up():
                    break
            clock.wait(host.stopping, _LOOK_SECONDS)
        if view in host.ended.errors:
            raise _failed_view_error(view, host, host.ended.errors[view])
    _await_tick(job, host, stops)


def _await_tick(job: physical.Job, host: SinkHost, stops: Callable[[], bool]) -> None:
    """Wait until the view logs that a job reads at the same tick share one."""
    if not job.timeline:
        return
    context = host.contexts(job)
    readers = with_clock(job, {read.source: host.registry.reader(read, context) for read in job.reads()})
    timeline, began = Timeline.from_job(job, readers, context.folder, context.ticks), clock.monotonic()
    if not timeline.is_joint:
        return
    begin = {name: readers[name].initial(at_end=False) for name in job.timeline}
    while not stops() and not timeline.meets(begin) and clock.monotonic() < began + _ABSENT_SECONDS:
        clock.wait(host.stopping, _LOOK_SECONDS)


def _catch_up_check(view: str, host: SinkHost) -> Callable[[], bool]:
    """Return the predicate whether a view that another process runs has all present input."""
    work = host.workload.assignment(view)
    if work is None:
        return lambda: True
    job, context = work.job, host.contexts(work.job)
    readers = with_clock(job, {read.source: host.registry.reader(read, context) for read in job.reads()})
    writer, began = host.registry.writer(job.write, context), clock.monotonic()
    targets: dict[str, Offsets] = {}

    def has_caught_up() -> bool:
        with suppress(SinkqlError):  # a source that does not answer is asked again
            checkpoint = writer.load_checkpoint()
            if checkpoint is not None and checkpoint.plan == job.plan:
                end = checkpoint.end
                for name, reader in readers.items():
                    if name not in targets:
                        targets[name] = reader.target(end[name])
                if all(reader.target_reached(end[name], targets[name]) for name, reader in readers.items()):
                    return True
        if host.control.is_held(view):
            return False
        waited = clock.monotonic() - began
        if waited > _BEGUN_SECONDS and (error := host.control.failure(view)) is not None:
            raise _failed_view_error(view, host, error)
        return waited > _ABSENT_SECONDS

    return has_caught_up


def _failed_view_error(view: str, host: SinkHost, error: str) -> SinkqlError:
    """Return the error of a sink whose view has failed with `error`."""
    work = host.workload.assignment(view)
    name = short_name(work.job.sink) if work is not None else view
    return SinkqlError(
        "SQ3455",
        f'materialized view "{name}", which the sink reads, has failed',
        detail=error,
        hint="Correct the error of the view, then run both again.",
    )
