"""Measure many sinks of one source: the time until all of them run, and their cost without new input.

    python -m bench.idle [--source files|kafka|postgres|tables] [--sinks 100] [--seconds 30] [--interval 10s]
    python -m bench.idle --source tables --changing 20 [--stuck 1]

Prints the seconds from the start of the process until all sinks run, and until each has its first commit. Then prints
the CPU milliseconds a second of the whole process tree, its memory as proportional set sizes without new input, and the
load of the machine.

With `--source tables`, each sink has a different Postgres table. `--changing` then changes ten rows of some tables
every interval, measures again, and prints how long changes wait for a commit. `--stuck` adds sinks whose catalog is
locked during that measurement. The server's CPU does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from bench.common import HOME, ROOT, running
from bench.figure import report
from bench.meter import tree_cpu, tree_memory

if TYPE_CHECKING:
    from support.postgres import Postgres


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", choices=sorted(_SOURCES), default="files")
    parser.add_argument("--sinks", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--interval", default="10s")
    parser.add_argument("--changing", type=int, default=0, help="number of tables in which rows change")
    parser.add_argument("--stuck", type=int, default=0, help="how many of the sinks cannot commit")
    arguments = parser.parse_args()
    if arguments.changing and arguments.source != "tables":
        parser.error("--changing is for --source tables")
    home = HOME / "idle"
    shutil.rmtree(home, ignore_errors=True)
    (home / "in").mkdir(parents=True)
    sys.path.insert(0, str(ROOT / "tests"))
    with _SOURCES[arguments.source](home, arguments.sinks) as source:
        (home / "pipeline.sql").write_text(_script(source, arguments))
        _measure(home, source, arguments)


def _measure(home: Path, source: _Source, arguments: argparse.Namespace) -> None:
    with running(home) as (pid, events):
        follow(events, arguments.sinks)
        time.sleep(20)  # until the work that follows a start is done
        idle = _cost(pid, lambda: time.sleep(arguments.seconds))
        print(f"idle: {idle:.0f} CPU-ms a second, {tree_memory(pid):.0f} MB; load {os.getloadavg()[0]:.1f}", flush=True)
        if arguments.changing:
            commits = _Commits(events)
            commits.start()
            interval = float(arguments.interval.removesuffix("s"))
            rounds = max(2, round(arguments.seconds / interval))
            with _locked(home / "stuck") if arguments.stuck else nullcontext():
                changed = arguments.changing
                source.change(arguments.sinks if arguments.stuck else changed, interval, 1)
                source.change(changed, interval, 1)  # so that the first changes of their kind do not count
                began, count = time.monotonic(), len(commits.told)
                busy = _cost(pid, lambda: source.change(changed, interval, rounds))
                count = len(commits.told) - count
                time.sleep(interval)
                waits = sorted(commits.after(sink, at) - at for sink, at in source.changes if at > began)
            print(
                f"{changed} of {arguments.sinks} tables change each {interval:.0f} s: {busy:.0f} CPU-ms a second, "
                f"{tree_memory(pid):.0f} MB; {count} commits, {(busy - idle) * rounds * interval / count:.0f} CPU-ms "
                f"each; changes waited {waits[len(waits) // 2]:.1f} s for a commit, {waits[-1]:.1f} s at most"
            )
        report(f"idle {arguments.source}", idle)
        report(f"idle {arguments.source} memory", tree_memory(pid))


def _cost(pid: int, work: Callable[[], None]) -> float:
    """Return the CPU milliseconds a second while `work` runs."""
    before, began = tree_cpu(pid), time.monotonic()
    work()
    return (tree_cpu(pid) - before) * 1000 / (time.monotonic() - began)


class _Commits(threading.Thread):
    """A thread that records the sink and the time of each commit event."""

    def __init__(self, output: IO[str]) -> None:
        super().__init__(daemon=True)
        self.told: list[tuple[str, float]] = []
        self._output = output

    def run(self) -> None:
        for event in _events(self._output):
            if event["event"] == "committed":
                self.told.append((event["sink"].rpartition(".")[2], time.monotonic()))

    def after(self, sink: str, at: float) -> float:
        """Return when a sink first committed after a time, or the present time if it has not."""
        return next((told for name, told in self.told if name == sink and told > at), time.monotonic())


@contextmanager
def _locked(warehouse: Path) -> Iterator[None]:
    """Lock the database file of a warehouse's catalog."""
    (file,) = warehouse.rglob("*.db")
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        connection.close()


def follow(output: IO[str], sinks: int) -> tuple[float, float]:
    """Read events until each sink has committed; print and return the seconds until all ran and committed."""
    began, run, running, committed = time.monotonic(), 0.0, set[str](), set[str]()
    for event in _events(output):
        match event["event"]:
            case "started":
                running.add(event["sink"])
                if len(running) == sinks:
                    run = time.monotonic() - began
                    print(f"{sinks} sinks run {run:.1f} s after the start", flush=True)
            case "committed":
                committed.add(event["sink"])
                if len(committed) == sinks:
                    all_committed = time.monotonic() - began
                    print(f"each has a commit {all_committed:.1f} s after the start", flush=True)
                    return run, all_committed
    raise RuntimeError("the pipeline ended")


def _events(output: IO[str]) -> Iterator[dict[str, str]]:
    for line in output:
        if line.startswith("{") and "event" in (event := json.loads(line)):
            yield event


@dataclass(frozen=True)
class _Source:
    """The source of the sinks.

    * `script` is SQL that creates `s`, or `s0`, `s1` and so on.
    * `change` changes rows of some tables, for some rounds.
    * `changes` are the sinks of the changed tables, with the times.
    """

    script: str
    change: Callable[[int, float, int], None] = lambda tables, interval, rounds: None
    changes: list[tuple[str, float]] = field(default_factory=list)


def _script(source: _Source, arguments: argparse.Namespace) -> str:
    keyed = "KEY (id) MODE UPSERT" if arguments.source in ("postgres", "tables") else "ENVELOPE NONE"
    relation = "s{0}" if arguments.source == "tables" else "s"
    made = (
        f"CREATE SINK k{{0}} IN CLUSTER bench FROM {relation}\n"
        "  INTO ICEBERG CATALOG CONNECTION {1} (NAMESPACE = 'n', TABLE = 't{0}')"
    )
    free = arguments.sinks - arguments.stuck
    return (
        "CREATE CLUSTER bench (SIZE = 'local[2]');\n"
        "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');\n"
        "CREATE CONNECTION stuck TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'stuck');\n"
    ) + "".join(
        [
            source.script,
            *(
                f"{made.format(number, 'lake' if number < free else 'stuck')} {keyed} "
                f"WITH (COMMIT INTERVAL = '{arguments.interval}');\n"
                for number in range(arguments.sinks)
            ),
        ]
    )


@contextmanager
def _files(home: Path, sinks: int) -> Iterator[_Source]:
    (home / "in" / "a.json").write_text('{"id": 1, "name": "a"}\n')
    yield _Source("CREATE SOURCE s (id bigint NOT NULL, name text) FROM FILES (PATH = 'in') FORMAT JSON;\n")


@contextmanager
def _kafka(home: Path, sinks: int) -> Iterator[_Source]:
    from support.kafka import kafka

    with kafka() as broker:
        topic, producer = broker.topic(4), broker.producer()
        producer.produce(topic, b'{"id": 1, "name": "a"}')
        producer.flush()
        yield _Source(
            f"CREATE CONNECTION k TO KAFKA (BROKER '{broker.address}', SECURITY PROTOCOL = 'PLAINTEXT');\n"
            f"CREATE SOURCE s (id bigint NOT NULL, name text) FROM KAFKA CONNECTION k (TOPIC '{topic}') FORMAT JSON;\n"
        )


@contextmanager
def _postgres(home: Path, sinks: int) -> Iterator[_Source]:
    with _server(["s"]) as (_, _, script):
        yield _Source(script)


@contextmanager
def _tables(home: Path, sinks: int) -> Iterator[_Source]:
    with _server([f"s{number}" for number in range(sinks)]) as (server, database, script):
        changes: list[tuple[str, float]] = []

        def change(tables: int, interval: float, rounds: int) -> None:
            began = time.monotonic()
            for number in range(tables * rounds):
                time.sleep(max(0.0, began + number * interval / tables - time.monotonic()))
                server.execute(
                    f"INSERT INTO s{number % tables} SELECT i, 'round {number}' FROM generate_series({number}, "
                    f"{number + 9}) AS i ON CONFLICT (id) DO UPDATE SET name = excluded.name",
                    database,
                )
                changes.append((f"k{number % tables}", time.monotonic()))
            time.sleep(max(0.0, began + rounds * interval - time.monotonic()))

        yield _Source(script, change, changes)


@contextmanager
def _server(tables: Sequence[str]) -> Iterator[tuple[Postgres, str, str]]:
    """Run a server with some tables; yield it, their database, and SQL that creates a source of them."""
    from support.postgres import postgres

    with postgres() as server:
        database = server.database()
        made = (f"CREATE TABLE {name} (id int8 PRIMARY KEY, name text); INSERT INTO {name} VALUES (1, 'a');"
                for name in tables)  # fmt: skip
        server.execute(f"{''.join(made)} CREATE PUBLICATION p FOR TABLE {', '.join(tables)};", database)
        named = ", ".join(f"public.{name}" for name in tables)
        yield (
            server,
            database,
            f"CREATE CONNECTION p TO POSTGRES (HOST '127.0.0.1', PORT {server.port}, DATABASE '{database}', "
            f"USER 'postgres');\nCREATE SOURCE pg FROM POSTGRES CONNECTION p (PUBLICATION 'p') FOR TABLES ({named});\n",
        )


_SOURCES = {"files": _files, "kafka": _kafka, "postgres": _postgres, "tables": _tables}


if __name__ == "__main__":
    main()
