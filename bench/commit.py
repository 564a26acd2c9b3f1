"""Measure a commit of ten rows, once a second, in a pipeline that has been running for a while.

The pipelines append rows, upsert rows, count rows by group, join rows with a thousand others, and append a view of
sixteen columns that derive from a counter.

    python -m bench.commit [--commits 30] [--runs 3] [--interval 1s] [--cores 2] [--against TREE] [--syncs]

Prints the CPU milliseconds of a commit in the whole process tree, and the tree's memory as proportional set sizes: the
medians of the runs, after ten commits to warm up. With another `--interval`, ten rows arrive in each interval.
`--against` alternates with another checkout of SinkQL, and prints the ratio. `--syncs` prints the cost of syncing files
to the disk before a commit names them. It alternates runs with and without fsync, in which commits of ten rows follow
each other without a pause, and prints the CPU and the wall time of the faster half of the commits.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.common import HOME, ROOT, median
from bench.figure import report
from bench.meter import ENVIRONMENT, tree_cpu, tree_memory

_WARM_UP = 10
_WITHOUT = "import os, runpy; os.fsync = lambda handle: None; runpy.run_module('sinkql', run_name='__main__')"
"""SinkQL that never syncs its own files; SQLite still syncs the databases of catalogs."""
_PIPELINES = {
    "append": ("s", "ENVELOPE NONE"),
    "upsert": ("s", "KEY (counter) MODE UPSERT"),
    "aggregate": ("a", "KEY (g) MODE UPSERT"),
    "join": ("j", "ENVELOPE NONE"),
    "append a view of 16 columns": ("v", "ENVELOPE NONE"),
}
_VIEWS = """
CREATE SOURCE d FROM LOAD GENERATOR COUNTER (ROWS PER SECOND 100000, UP TO 1000);
CREATE VIEW grouped AS SELECT counter % 1000 AS g, counter FROM s;
CREATE MATERIALIZED VIEW a AS SELECT g, count(*) AS n, max(counter) AS m FROM grouped GROUP BY g;
CREATE MATERIALIZED VIEW j AS SELECT s.counter, d.counter AS other FROM grouped AS s JOIN d ON s.g = d.counter - 1;
"""
_COLUMNS = ", ".join(["counter", *(f"x || (counter * {each} % 1000) AS c{each}" for each in range(1, 16))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=30)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--interval", default="1s")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--pipelines", nargs="*", choices=list(_PIPELINES), default=list(_PIPELINES))
    parser.add_argument("--syncs", action="store_true")
    arguments = parser.parse_args()
    if arguments.syncs:
        for pipeline in arguments.pipelines:
            _compare_syncs(pipeline, arguments)
        return
    trees = [ROOT, *([arguments.against] if arguments.against is not None else [])]
    for pipeline in arguments.pipelines:
        costs: list[list[_Commit]] = [[] for _ in trees]
        for _ in range(arguments.runs):
            for tree, found in zip(trees, costs, strict=True):
                found.append(_cost(pipeline, arguments, tree))
        cpu = [[commit.cpu_ms for commit in found] for found in costs]
        each = "; ".join(", ".join(f"{cost:.1f}" for cost in found) for found in cpu)
        against = f", {median(cpu[0]) / median(cpu[1]):.2f} times the compared checkout" if len(trees) > 1 else ""
        memory, apart = (median([getattr(commit, name) for commit in costs[0]]) for name in ("memory_mb", "apart_ms"))
        print(
            f"{pipeline}: {median(cpu[0]):.1f} CPU-ms a commit of 10 rows ({each}){against}; {memory:.0f} MB; commits "
            f"{apart:.0f} ms apart; load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        report(f"commit {pipeline}", median(cpu[0]))
        report(f"commit {pipeline} memory", memory)


@dataclass(frozen=True, slots=True)
class _Commit:
    """The mean cost of a commit, its median wall time, the median time between two, and the memory of the tree."""

    cpu_ms: float
    wall_ms: float
    apart_ms: float
    memory_mb: float


def _compare_syncs(pipeline: str, arguments: argparse.Namespace) -> None:
    found: dict[bool, list[_Commit]] = {True: [], False: []}
    for _ in range(arguments.runs):
        for synced in found:
            options = [] if synced else ["-c", _WITHOUT]
            found[synced].append(_cost(pipeline, arguments, ROOT, options=options, at_once=True))
    (cpu, wall), (plain_cpu, plain_wall) = (
        (median([run.cpu_ms for run in runs]), median([run.wall_ms for run in runs])) for runs in found.values()
    )
    print(
        f"{pipeline}: a commit of 10 rows takes {cpu:.0f} CPU-ms and {wall:.0f} ms, without fsync {plain_cpu:.0f} and "
        f"{plain_wall:.0f}: {cpu / plain_cpu:.2f} and {wall / plain_wall:.2f} times"
    )


def _cost(
    pipeline: str,
    arguments: argparse.Namespace,
    tree: Path,
    *,
    options: Sequence[str] = (),
    at_once: bool = False,
) -> _Commit:
    """Return the cost of a commit; its wall time is that of the faster half of commits.

    Commits run once in an interval, or one after another if `at_once`.
    """
    (name, mode), commits, interval = _PIPELINES[pipeline], arguments.commits, arguments.interval
    rate = round(10 / (float(interval.removesuffix("ms")) / 1000 if "ms" in interval else float(interval[:-1])))
    home = HOME / "commit"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    rows = "ROWS PER SECOND 1000000, UP TO 1000000" if at_once else f"ROWS PER SECOND {rate}"
    most = "" if name == "j" else ", MAX ROWS PER COMMIT = 10"  # a join first reads a thousand rows
    (home / "pipeline.sql").write_text(
        f"CREATE CLUSTER bench (SIZE = 'local[{arguments.cores}]');\n"
        "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');\n"
        f"CREATE SOURCE s FROM LOAD GENERATOR COUNTER ({rows});\n"
        "CREATE VIEW t AS SELECT counter, counter::text || 'x' AS x FROM s;\n"
        f"CREATE MATERIALIZED VIEW v AS SELECT {_COLUMNS} FROM t WHERE x >= '0';\n"
        f"{_VIEWS}"
        f"CREATE SINK k IN CLUSTER bench FROM {name} INTO ICEBERG CATALOG CONNECTION lake\n"
        f"  (NAMESPACE = 'n', TABLE = 't') {mode} WITH (COMMIT INTERVAL = '{interval}'{most});\n"
    )
    command = [sys.executable, *(options or ("-m", "sinkql")), "--output", "json", "exec", "pipeline.sql"]
    environment = {**ENVIRONMENT, "PYTHONPATH": str(tree), "SINKQL_ARCHIVE": "off"}
    process = subprocess.Popen(
        command, cwd=home, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    began, times = 0.0, list[float]()
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("{") and json.loads(line).get("event") == "committed":
                times.append(time.monotonic())
                if len(times) == _WARM_UP:
                    began = tree_cpu(process.pid)
                if len(times) == _WARM_UP + commits:
                    cpu = (tree_cpu(process.pid) - began) * 1000 / commits
                    took = sorted(after - before for before, after in itertools.pairwise(times[_WARM_UP - 1 :]))
                    wall, apart = (statistics.median(part) for part in (took[: (len(took) + 1) // 2], took))
                    return _Commit(cpu, wall * 1000, apart * 1000, tree_memory(process.pid))
        raise RuntimeError(f"the pipeline ended with {process.wait()}")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


if __name__ == "__main__":
    main()
