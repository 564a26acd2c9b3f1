"""Measure statements over many sinks in one catalog, and sinks without new input.

A script creates a source and sinks of it, each with a separate table. `--part statements` prints the CPU seconds of
`sinkql` processes, minus the CPU of `sinkql --version`. `apply` creates all items, and a second one finds them
unchanged. `plan` compares a script in which one item differs. `status` and SHOW SINKS list all sinks. With a catalog in
Postgres, only the client's CPU counts. `--part idle` runs all sinks, and prints the CPU per second, memory, threads and
open files of all processes without new input.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from bench.common import HOME, ROOT, running, show
from bench.compile import seconds
from bench.idle import follow
from bench.large.process import files_of, memory_of, threads_of
from bench.meter import tree_cpu

_COMMANDS = {
    "apply, all new": ["apply", "--yes", "pipeline.sql"],
    "apply, nothing new": ["apply", "--yes", "pipeline.sql"],
    "plan, one differs": ["plan", "other.sql"],
    "status": ["status"],
    "SHOW SINKS": ["shell", "-c", "SHOW SINKS"],
}
_SETTLE_SECONDS = 20.0


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the sub-command."""
    parser.add_argument("--part", choices=["statements", "idle"], default="statements")
    parser.add_argument("--sinks", default="100,1000", help="numbers of sinks, separated by commas")
    parser.add_argument("--catalog", choices=["file", "server"], default="file", help="server: in Postgres")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--interval", default="10s")


def run(arguments: argparse.Namespace) -> None:
    """Measure with each number of sinks."""
    sys.path.insert(0, str(ROOT / "tests"))
    found = {}
    for sinks in map(int, arguments.sinks.split(",")):
        home = HOME / f"sinks-{sinks}"
        shutil.rmtree(home, ignore_errors=True)
        (home / "in").mkdir(parents=True)
        (home / "in" / "a.json").write_text('{"id": 1, "name": "a"}\n')
        (home / "pipeline.sql").write_text(script(sinks, arguments.interval))
        with _catalog(arguments.catalog, home) as options:
            part = _statements if arguments.part == "statements" else _idle
            found[sinks] = part(home, sinks, options, arguments)
    names = next(iter(found.values())).keys()
    show(
        [
            ("", *(f"{sinks:,} sinks" for sinks in found)),
            *((name, *(each[name] for each in found.values())) for name in names),
        ]
    )


def script(sinks: int, interval: str) -> str:
    """Return a script of `sinks` sinks of one source."""
    made = (
        f"CREATE SINK k{number} IN CLUSTER bench FROM s INTO ICEBERG CATALOG CONNECTION lake "
        f"(NAMESPACE = 'n', TABLE = 't{number}') ENVELOPE NONE WITH (COMMIT INTERVAL = '{interval}');\n"
        for number in range(sinks)
    )
    return (
        "CREATE CLUSTER bench (SIZE = 'local[2]');\n"
        "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');\n"
        "CREATE SOURCE s (id bigint NOT NULL, name text) FROM FILES (PATH = 'in') FORMAT JSON;\n"
    ) + "".join(made)


@contextmanager
def _catalog(kind: str, home: Path) -> Iterator[list[str]]:
    """Yield the options that name a catalog."""
    if kind == "file":
        yield []
        return
    from support.catalog import server_url
    from support.postgres import postgres

    with postgres() as server:
        yield ["--catalog", str(server_url(server, home / ".sinkql"))]


def _statements(home: Path, sinks: int, options: list[str], arguments: argparse.Namespace) -> dict[str, str]:
    text = (home / "pipeline.sql").read_text()
    (home / "other.sql").write_text(text.replace(f"'{arguments.interval}');\n", "'1h');\n", 1))
    _, empty = seconds([sys.executable, "-m", "sinkql", "--version"], 3)
    return {
        name: f"{seconds([sys.executable, '-m', 'sinkql', *options, *command], 1, home)[1] - empty:.2f} s"
        for name, command in _COMMANDS.items()
    }


def _idle(home: Path, sinks: int, options: list[str], arguments: argparse.Namespace) -> dict[str, str]:
    with running(home, options) as (pid, events):
        before = tree_cpu(pid)
        run, committed = follow(events, sinks)
        threading.Thread(target=_read, args=(events,), daemon=True).start()
        started = tree_cpu(pid) - before
        time.sleep(_SETTLE_SECONDS)  # until the work that follows a start is done
        began, cpu = time.monotonic(), tree_cpu(pid)
        time.sleep(arguments.seconds)
        spent = (tree_cpu(pid) - cpu) * 1000 / (time.monotonic() - began)
        memory = memory_of(pid)
        return {
            "s until all run": f"{run:.0f}",
            "s until each has committed": f"{committed:.0f}",
            "CPU-s until then": f"{started:.0f}",
            "CPU-ms a second, idle": f"{spent:.0f}",
            "private MB": f"{memory.private:,.0f}",
            **{f"  of {kind}": f"{mb:,.0f}" for kind, mb in sorted(memory.private_of.items())},
            "threads": f"{threads_of(pid):,}",
            "open files and sockets": f"{files_of(pid):,}",
        }


def _read(events: IO[str]) -> None:
    """Read events until the end, so that the process can write them."""
    with suppress(ValueError):  # the pipe was closed
        for _ in events:
            pass
