"""The quickstart example → committed rows on the terminal."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from datetime import datetime, timedelta
from importlib.resources import files
from pathlib import Path

from sinkql.cli.execute import execute, run_jobs
from sinkql.cli.output import Output
from sinkql.planner.name import short_name
from sinkql.runtime.batch.events import Event, SinkCommitted
from sinkql.session import Session

_SHOWN = 10
_EVENTS = 40_000
"""Of the days before those of the example: more than the first commit computes without Spark."""
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
        output.note("This ran in a temporary folder, which is gone now; sinkql demo --folder NAME keeps it.")
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
            names = execute(session, output, text, "pipeline.sql")
            sinks = [name for name in names if session.kind(name) == "sink"]
            computed = _Computed()
            code = run_jobs(session, output, session.jobs(sinks), once=True, takeover=False, listener=computed)
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
    """Write many events, the same ones each time."""
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
    """What computed the first commit of each sink."""

    def __init__(self) -> None:
        self._first: dict[str, SinkCommitted] = {}

    def __call__(self, event: Event) -> None:
        if isinstance(event, SinkCommitted):
            self._first.setdefault(short_name(event.sink), event)

    def note(self) -> str:
        """Say it in lines for the terminal."""
        said = [
            f"sink {sink}: {'Spark' if first.in_spark else 'this process, without Spark,'} computed the first commit, "
            f"of {first.read:,} events"
            for sink, first in sorted(self._first.items())
        ]
        return "\n".join(said)


def example() -> Path:
    """Return the folder of the quickstart example: in the installed package, or beside it in a checkout."""
    packaged = Path(str(files("sinkql") / "quickstart"))
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "examples" / "quickstart"
