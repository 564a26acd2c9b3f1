"""Run a script's statements and its sinks with live progress, and run the quickstart example."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from importlib.resources import files
from pathlib import Path

from sinkql import physical
from sinkql.cli.output import Output
from sinkql.errors import SinkqlError
from sinkql.planner.name import short_name
from sinkql.runtime.batch.events import Event, SinkCommitted
from sinkql.script.redaction import mask
from sinkql.session import Session


def execute(session: Session, output: Output, text: str, path: str) -> list[str]:
    """Run a script's statements, print their results, and return the full names of its sinks and views."""
    names: list[str] = []
    session.progress_listener = output.note
    shown: str | None = None
    for result in session.stream(text, path):
        if shown is None and result.notices:
            shown = mask(text, session.catalog.registry.keywords).text
        for notice in result.notices:
            output.notice(notice, path=path, text=shown)
        if result.stream is not None:
            output.lines(result.columns, result.stream, result.types)
        elif result.columns:
            output.table(result.columns, result.rows)
        elif output.format == "text" and not result.skipped:
            output.note(result.tag)
        if result.tag in ("CREATE SINK", "CREATE SINKS", "CREATE MATERIALIZED VIEW"):
            names += result.names
    return [name for name in names if session.catalog.plans.entry(name) is not None]


def jobs_among(session: Session, output: Output, names: Sequence[str]) -> list[str]:
    """Return a script's sinks, and its views with a separate job; print a note about its other views."""
    jobs = session.jobs_among(names)
    if unread := [short_name(name) for name in session.unread_among(names)]:
        view, are, them, their = ("view", "is", "it", "its") if len(unread) == 1 else ("views", "are", "them", "their")
        output.note(
            f"Materialized {view} {', '.join(unread)} {are} computed when a sink or a query reads {them}. "
            f"Create {them} WITH (COMMIT INTERVAL = '10s') to have {their} rows kept up to date."
        )
    return jobs


def run_sinks(session: Session, output: Output, sinks: Sequence[str], *, once: bool, takeover: bool) -> int:
    """Run sinks, and views with a separate job, until they end or are stopped, and return the exit code."""
    return run_jobs(session, output, session.jobs(sinks), once=once, takeover=takeover)


def run_jobs(
    session: Session,
    output: Output,
    jobs: Sequence[physical.Job],
    *,
    once: bool,
    takeover: bool,
    listener: Callable[[Event], None] | None = None,
    in_spark: bool = False,
) -> int:
    """Run jobs until they end or are stopped, and return the exit code; `listener` receives all events as well.

    If `in_spark`, all batches are Spark's, as with EXECUTION = SPARK.
    """
    from sinkql.cli.progress import LiveProgress  # loads rich

    by_name = {job.sink: job for job in jobs}

    def reading(sink: str) -> list[str]:
        return session.reading(by_name[sink]) if sink in by_name else _reading(session, sink)

    with LiveProgress(output, reading) as progress:

        def report(event: Event) -> None:
            progress(event)
            if listener is not None:
                listener(event)

        return session.run(jobs, once=once, takeover=takeover, progress=report, in_spark=in_spark)


def run_up(session: Session, output: Output, names: Sequence[str] | None, *, once: bool, takeover: bool) -> int:
    """Run sinks, including sinks created later, until stopped, and return the exit code."""
    from sinkql.cli.progress import LiveProgress  # as above

    if names is None and not session.jobs():
        output.note(
            f"There are no sinks in {session.catalog.database.address} yet; sinks that you create will run here."
        )
    with LiveProgress(output, lambda sink: _reading(session, sink), goes_on=True) as progress:
        return session.up(names, once=once, takeover=takeover, progress=progress)


def _reading(session: Session, sink: str) -> list[str]:
    """Return lines that show how to read the table of the catalog's sink of this name."""
    with suppress(SinkqlError):  # the sink may be dropped by now
        return session.reading(session.jobs([sink])[0])
    return []


_SHOWN = 10
_IN_SPARK = (
    "\nThe demo loads these events with EXECUTION = SPARK, so that you see Spark at work. By default, this process "
    "would compute so few events.\n"
)
_EVENTS = 40_000
"""Events before the days of the example: more than the first commit computes without Spark."""
_BEGIN = datetime(2026, 2, 26)
_SECONDS = 6
_USERS = 5
_ACTIONS = ("view", "view", "view", "search", "click", "buy")


def run_demo(output: Output, folder: Path | None) -> int:
    """Copy the example into a folder, run it there once, and print rows of its tables."""
    if folder is not None:
        return _run(output, folder)
    with tempfile.TemporaryDirectory(prefix="sinkql-demo-") as temporary:
        code = _run(output, Path(temporary))
        output.note("This ran in a temporary folder, which is deleted now; sinkql demo --folder NAME keeps it.")
        return code


def _run(output: Output, folder: Path) -> int:
    shutil.copytree(example(), folder, dirs_exist_ok=True)
    _write_history(folder / "events" / "00.json")
    before = Path.cwd()
    os.chdir(folder)
    try:
        session = Session(None)
        try:
            text = Path("pipeline.sql").read_text()
            output.note(text)
            output.note(_IN_SPARK)
            names = execute(session, output, text, "pipeline.sql")
            sinks = [name for name in names if session.kind(name) == "sink"]
            computed = _Computed()
            jobs = session.jobs(sinks)
            code = run_jobs(session, output, jobs, once=True, takeover=False, listener=computed, in_spark=True)
            output.note(computed.note())
            for sink in sinks:
                result = session.preview(sink, limit=_SHOWN)
                output.note(f"\nFirst rows of the table that sink {short_name(sink)} writes:")
                output.table(result.columns, result.rows)
            return code
        finally:
            session.close()
    finally:
        os.chdir(before)


def _write_history(path: Path) -> None:
    """Write many events, the same at each call."""
    with path.open("w") as file:
        for number in range(_EVENTS):
            at = _BEGIN + timedelta(seconds=number * _SECONDS)
            user = number * 7 % 11 % _USERS + 1
            event = {
                "user_id": user,
                "session_id": f"s{user}-{at:%d%H}{'ab'[number // 13 % 2]}",
                "action": _ACTIONS[number * 5 % 17 % len(_ACTIONS)],
                "event_timestamp": f"{at}",
            }
            file.write(f"{json.dumps(event)}\n")


class _Computed:
    """Records whether Spark or this process computed the first commit of each sink."""

    def __init__(self) -> None:
        self._first: dict[str, SinkCommitted] = {}

    def __call__(self, event: Event) -> None:
        if isinstance(event, SinkCommitted):
            self._first.setdefault(short_name(event.sink), event)

    def note(self) -> str:
        """Return a line for each sink."""
        lines = [
            f"sink {sink}: {'Spark' if first.in_spark else 'this process, without Spark,'} computed the first commit, "
            f"of {first.read:,} events"
            for sink, first in sorted(self._first.items())
        ]
        return "\n".join(lines)


def example() -> Path:
    """Return the folder of the quickstart example: in the installed package, or beside it in a checkout."""
    packaged = Path(str(files("sinkql") / "quickstart"))
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "examples" / "quickstart"
