"""Measure the CPU of read-only commands with a large catalog, and how compile time grows with a script.

    python -m bench.catalog [--items 2000] [--statements 10000] [--runs 3]

Prints CPU seconds with a catalog of two items and with a large one: the medians of the runs, minus the CPU of an empty
Python. Then prints how much longer ten times as many statements take to compile.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

from bench.compile import pipeline, seconds
from sinkql import Session

_LOOKING = {
    "status": ["status"],
    "SHOW SINKS": ["exec", "sinks.sql"],
    "SHOW OBJECTS": ["exec", "objects.sql"],
    "SHOW CREATE of a view": ["exec", "create.sql"],
    "a shell that opens": ["shell", "-c", "SHOW SINKS"],
}
_SCRIPTS = {"sinks": "SHOW SINKS;", "objects": "SHOW OBJECTS;", "create": "SHOW CREATE MATERIALIZED VIEW v7;"}

_SMALL = "CREATE SOURCE n FROM LOAD GENERATOR COUNTER; CREATE MATERIALIZED VIEW v7 AS SELECT counter FROM n;"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--statements", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    _, empty = seconds([sys.executable, "-c", "pass"], given.runs)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with contextlib.chdir(root), Session(root / ".sinkql" / "catalog.db") as session:
            session.execute("BEGIN;" + script(given.items) + "COMMIT;")
        (root / "none").mkdir()
        with Session(root / "none" / ".sinkql" / "catalog.db") as session:
            session.execute(_SMALL)
        for name, text in _SCRIPTS.items():
            (root / f"{name}.sql").write_text(text)
            (root / "none" / f"{name}.sql").write_text(text)
        for name, arguments in _LOOKING.items():
            command = [sys.executable, "-m", "sinkql", "--output", "json", *arguments]
            _, small = seconds(command, given.runs, root / "none")
            _, large = seconds(command, given.runs, root)
            print(f"{name + ':':40} {small - empty:7.3f} s CPU, with {given.items} items {large - empty:7.3f} s CPU")
        compiled = {}
        for count in (given.statements // 10, given.statements):
            (root / f"{count}.sql").write_text(script(count))
            command = [sys.executable, "-m", "sinkql", "compile", f"{count}.sql", "-o", "job.json"]
            _, used = seconds(command, given.runs, root)
            compiled[count] = used - empty
            print(f"{f'compile of {count} statements:':40} {compiled[count]:7.3f} s CPU")
        first, last = compiled.values()
        print(f"{'ratio:':40} {last / first:7.2f}")


def script(statements: int) -> str:
    """Return a script of `statements` statements: a connection, then a third each of sources, views, sinks."""
    views = (statements - 1) // 3
    return pipeline(sources=statements - 1 - 2 * views, views=views)


if __name__ == "__main__":
    main()
