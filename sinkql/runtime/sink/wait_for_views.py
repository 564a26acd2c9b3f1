"""A sink that runs once → a wait for the views that it reads, until they have all that there is now."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from sinkql import physical
from sinkql.connector_api.stream import Offsets
from sinkql.errors import SinkqlError
from sinkql.planner.name import short_name
from sinkql.runtime.batch.clock import with_clock
from sinkql.runtime.batch.timeline import Timeline
from sinkql.runtime.sink.host import SinkHost

_LOOK_SECONDS = 0.05
_ABSENT_SECONDS = 30.0
"""After so long a view that nobody runs is read as it is."""


_BEGUN_SECONDS = 5.0
"""By then a view that another process is to run has left the status that it ended with before."""


def wait_for_views(job: physical.Job, host: SinkHost, stops: Callable[[], bool]) -> None:
    """Wait until the views that a job reads, which run here or elsewhere, have got what there is now; or it stops.

    Raises SQ3455 where the job of one has failed.
    """
    for view in [read.options["view_id"] for read in job.reads() if read.connector == physical.VIEW]:
        here = any(work.job.sink_id == view and work.job.cluster == job.cluster for work in host.roster.now())
        ahead: Callable[[], bool] | None = None
        while not stops() and view not in host.ended.ids:
            if not here or view in host.ended.elsewhere:
                ahead = ahead or _ahead(view, host)
                if ahead():
                    break
            host.stopping.wait(_LOOK_SECONDS)
        if view in host.ended.errors:
            raise _failed(view, host, host.ended.errors[view])
    _await_tick(job, host, stops)


def _await_tick(job: physical.Job, host: SinkHost, stops: Callable[[], bool]) -> None:
    """Wait until the logs that a job reads at the same tick have one in common."""
    if not job.timeline:
        return
    context = host.contexts(job)
    readers = with_clock(job, {each.source: host.registry.reader(each, context) for each in job.reads()})
    timeline, began = Timeline.of(job, readers, context.folder, context.ticks), time.monotonic()
    if not timeline.joint:
        return
    begin = {name: readers[name].initial(at_end=False) for name in job.timeline}
    while not stops() and not timeline.meets(begin) and time.monotonic() < began + _ABSENT_SECONDS:
        host.stopping.wait(_LOOK_SECONDS)


def _ahead(view: str, host: SinkHost) -> Callable[[], bool]:
    """Return what tells whether a view that another process runs has got what there is now."""
    work = host.roster.work(view)
    if work is None:
        return lambda: True
    job, context = work.job, host.contexts(work.job)
    readers = with_clock(job, {each.source: host.registry.reader(each, context) for each in job.reads()})
    writer, began = host.registry.writer(job.write, context), time.monotonic()
    targets: dict[str, Offsets] = {}

    def ahead() -> bool:
        with suppress(SinkqlError):  # a source that does not answer now is asked again
            found = writer.load_checkpoint()
            if found is not None and found.plan == job.plan:
                for name, reader in readers.items():
                    if name not in targets:
                        targets[name] = reader.target(found.end[name])
                if all(reader.target_reached(found.end[name], targets[name]) for name, reader in readers.items()):
                    return True
        if host.control.held(view):
            return False
        waited = time.monotonic() - began
        if waited > _BEGUN_SECONDS and (error := host.control.failure(view)) is not None:
            raise _failed(view, host, error)
        return waited > _ABSENT_SECONDS

    return ahead


def _failed(view: str, host: SinkHost, error: str) -> SinkqlError:
    """Return the error of a sink whose view has failed, given the view's own."""
    work = host.roster.work(view)
    name = short_name(work.job.sink) if work is not None else view
    return SinkqlError(
        "SQ3455",
        f'materialized view "{name}", which the sink reads, has failed',
        detail=error,
        hint="Correct what the error of the view says, and run both again.",
    )
