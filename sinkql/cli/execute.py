"""Run a script's statements, and its sinks with live progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from sinkql import physical
from sinkql.cli.output import Output
from sinkql.errors import SinkqlError
from sinkql.planner.name import short_name
from sinkql.script.redaction import mask
from sinkql.session import Session

if TYPE_CHECKING:
    from sinkql.runtime.batch.events import Event


def execute(session: Session, output: Output, text: str, path: str) -> list[str]:
    """Run a script's statements, print what they answer, and return the full names of its sinks and views."""
    names: list[str] = []
    session.telling = output.note
    shown: str | None = None
    for result in session.stream(text, path):
        if shown is None and result.notices:
            shown = mask(text, session.catalog.registry.vocabulary).text
        for notice in result.notices:
            output.notice(notice, path=path, text=shown)
        if result.stream is not None:
            output.lines(result.columns, result.stream, result.types)
        elif result.columns:
            output.table(result.columns, result.rows)
        elif output.format == "text" and not result.skipped:
            output.note(result.tag)
        if result.tag in ("CREATE SINK", "CREATE MATERIALIZED VIEW"):
            names += result.names[:1]
    return [name for name in names if session.catalog.plans.entry(name) is not None]


def jobs_among(session: Session, output: Output, names: Sequence[str]) -> list[str]:
    """Return the sinks and the views with a log of a script; say of views that none of them computes when they are."""
    jobs = session.jobs_among(names)
    if unread := [short_name(name) for name in session.unread_among(names)]:
        view, are, them, their = ("view", "is", "it", "its") if len(unread) == 1 else ("views", "are", "them", "their")
        output.note(
            f"Materialized {view} {', '.join(unread)} {are} computed when a sink or a query reads {them}. "
            f"Create {them} WITH (COMMIT INTERVAL = '10s') to have {their} rows kept up to date."
        )
    return jobs


def run_sinks(session: Session, output: Output, sinks: Sequence[str], *, once: bool, takeover: bool) -> int:
    """Run sinks, and views with a log, until they end or are stopped, and return the exit code."""
    return run_jobs(session, output, session.jobs(sinks), once=once, takeover=takeover)


def run_jobs(
    session: Session,
    output: Output,
    jobs: Sequence[physical.Job],
    *,
    once: bool,
    takeover: bool,
    listener: Callable[[Event], None] | None = None,
) -> int:
    """Run jobs until they end or are stopped, and return the exit code; `listener` gets what is shown as well."""
    from sinkql.cli.progress import LiveProgress  # rich loads only where sinks run

    by_name = {job.sink: job for job in jobs}

    def reading(sink: str) -> list[str]:
        return session.reading(by_name[sink]) if sink in by_name else _reading(session, sink)

    with LiveProgress(output, reading) as progress:

        def told(event: Event) -> None:
            progress(event)
            if listener is not None:
                listener(event)

        return session.run(jobs, once=once, takeover=takeover, progress=told)


def run_up(session: Session, output: Output, names: Sequence[str] | None, *, once: bool, takeover: bool) -> int:
    """Run sinks, also those that come later, until stopped, and return the exit code."""
    from sinkql.cli.progress import LiveProgress  # as above

    if names is None and not session.jobs():
        output.note(
            f"There are no sinks in {session.catalog.database.address} yet; those that are created will run here."
        )
    with LiveProgress(output, lambda sink: _reading(session, sink), goes_on=True) as progress:
        return session.up(names, once=once, takeover=takeover, progress=progress)


def _reading(session: Session, sink: str) -> list[str]:
    """Return how to read what the catalog's sink of this name wrote."""
    with suppress(SinkqlError):  # it may be dropped by now
        return session.reading(session.jobs([sink])[0])
    return []
