"""Measure a commit of ten rows, once a second, in a pipeline that has been running for a while.

The pipelines append rows, upsert rows, and append a view of sixteen columns that derive from a counter.

    python -m bench.commit [--commits 30] [--runs 3] [--cores 2] [--against TREE] [--syncs]

Prints the CPU milliseconds of a commit in the whole process tree, the median of the runs, after ten commits to warm up.
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
from pathlib import Path

from bench.common import HOME, ROOT, median
from bench.meter import ENVIRONMENT, tree_cpu

_WARM_UP = 10
_WITHOUT = "import os, runpy; os.fsync = lambda handle: None; runpy.run_module('sinkql', run_name='__main__')"
"""SinkQL that never syncs its own files; SQLite still syncs the databases of catalogs."""
_PIPELINES = {
    "append": ("s", "ENVELOPE NONE"),
    "upsert": ("s", "KEY (counter) MODE UPSERT"),
    "append a view of 16 columns": ("v", "ENVELOPE NONE"),
}
_COLUMNS = ", ".join(["counter", *(f"x || (counter * {each} % 1000) AS c{each}" for each in range(1, 16))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=30)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--pipelines", nargs="*", choices=list(_PIPELINES), default=list(_PIPELINES))
    parser.add_argument("--syncs", action="store_true")
    arguments = parser.parse_args()
    if arguments.syncs:
        for pipeline in arguments.pipelines:
            _compare_syncs(pipeline, arguments.commits, arguments.runs, arguments.cores)
        return
    trees = [ROOT, *([arguments.against] if arguments.against is not None else [])]
    for pipeline in arguments.pipelines:
        costs: list[list[float]] = [[] for _ in trees]
        for _ in range(arguments.runs):
            for tree, found in zip(trees, costs, strict=True):
                found.append(_run(*_PIPELINES[pipeline], arguments.commits, arguments.cores, tree))
        each = "; ".join(", ".join(f"{cost:.0f}" for cost in found) for found in costs)
        against = f", {median(costs[0]) / median(costs[1]):.2f} times the compared checkout" if len(trees) > 1 else ""
        print(f"{pipeline}: {median(costs[0]):.0f} CPU-ms a commit of 10 rows ({each}){against}")


def _compare_syncs(pipeline: str, commits: int, runs: int, cores: int) -> None:
    found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for _ in range(runs):
        for synced in found:
            options = [] if synced else ["-c", _WITHOUT]
            found[synced].append(_cost(*_PIPELINES[pipeline], commits, cores, ROOT, options=options, at_once=True))
    (cpu, wall), (plain_cpu, plain_wall) = (
        [median([run[part] for run in costs]) for part in range(2)] for costs in found.values()
    )
    print(
        f"{pipeline}: a commit of 10 rows takes {cpu:.0f} CPU-ms and {wall:.0f} ms, without fsync {plain_cpu:.0f} and "
        f"{plain_wall:.0f}: {cpu / plain_cpu:.2f} and {wall / plain_wall:.2f} times"
    )


def _run(name: str, mode: str, commits: int, cores: int, tree: Path) -> float:
    return _cost(name, mode, commits, cores, tree)[0]


def _cost(
    name: str,
    mode: str,
    commits: int,
    cores: int,
    tree: Path,
    *,
    options: Sequence[str] = (),
    at_once: bool = False,
) -> tuple[float, float]:
    """Return the CPU milliseconds of a commit, and the median wall milliseconds of the faster half of commits.

    Commits run once a second, or one after another if `at_once`.
    """
    home = HOME / "commit"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    rows = "UP TO 1000000" if at_once else "ROWS PER SECOND 10"
    (home / "pipeline.sql").write_text(
        f"CREATE CLUSTER bench (SIZE = 'local[{cores}]');\n"
        "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');\n"
        f"CREATE SOURCE s FROM LOAD GENERATOR COUNTER ({rows});\n"
        "CREATE VIEW t AS SELECT counter, counter::text || 'x' AS x FROM s;\n"
        f"CREATE MATERIALIZED VIEW v AS SELECT {_COLUMNS} FROM t WHERE x >= '0';\n"
        f"CREATE SINK k IN CLUSTER bench FROM {name} INTO ICEBERG CATALOG CONNECTION lake\n"
        f"  (NAMESPACE = 'n', TABLE = 't') {mode} WITH (COMMIT INTERVAL = '1s', MAX ROWS PER COMMIT = 10);\n"
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
                    return cpu, statistics.median(took[: (len(took) + 1) // 2]) * 1000
        raise RuntimeError(f"the pipeline ended with {process.wait()}")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


if __name__ == "__main__":
    main()
