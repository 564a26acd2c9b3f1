"""The quickstart example → committed rows on the terminal."""

from __future__ import annotations

import os
import shutil
import tempfile
from importlib.resources import files
from pathlib import Path

from sinkql.cli.output import Output
from sinkql.cli.running import execute, run_sinks
from sinkql.planner.name import short_name
from sinkql.session import Session

_SHOWN = 10


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
    before = Path.cwd()
    os.chdir(folder)
    try:
        session = Session(None)
        try:
            text = Path("pipeline.sql").read_text()
            output.note(text)
            names = execute(session, output, text, "pipeline.sql")
            sinks = [name for name in names if session.kind(name) == "sink"]
            code = run_sinks(session, output, sinks, once=True, takeover=False)
            for sink in sinks:
                result = session.preview(sink, limit=_SHOWN)
                output.note(f"\nFirst rows of the table that sink {short_name(sink)} writes:")
                output.table(result.columns, result.rows)
            return code
        finally:
            session.close()
    finally:
        os.chdir(before)


def example() -> Path:
    """Return the folder of the quickstart example: in the installed package, or beside it in a checkout."""
    packaged = Path(str(files("sinkql") / "quickstart"))
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "examples" / "quickstart"
