"""Measure the start of Spark's Python workers: the imports of their parent process, which forks them.

    python -m bench.workers [--runs 5] [--against TREE] [--job append] [--every]

Prints the least CPU seconds, with the path that a local Spark sets and the modules of one job: JSON files into an
append or upsert sink, or an aggregate. `--every` loads the modules of all connectors. Takes turns with PySpark's own
parent process, which loads none of them, and with another checkout of SinkQL if `--against` names one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pyspark

from bench.common import ROOT, show
from bench.figure import report

_ARCHIVES = Path(pyspark.__file__).parent / "python" / "lib"
_SOURCE = "CREATE SOURCE events (k bigint NOT NULL, v bigint) FROM FILES (PATH = '/in') FORMAT JSON;"
_LAKE = "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = '/lake');"
_SINK = """CREATE SINK s FROM {input} INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't') {mode}
WITH (COMMIT INTERVAL = '1s');"""
_VIEW = "CREATE MATERIALIZED VIEW per_key AS SELECT k, sum(v) AS v FROM events GROUP BY k;"
_SCRIPTS = {
    "append": f"{_LAKE} {_SOURCE} {_SINK.format(input='events', mode='MODE APPEND')}",
    "upsert": f"{_LAKE} {_SOURCE} {_SINK.format(input='events', mode='KEY (k) NOT ENFORCED MODE UPSERT')}",
    "aggregate": f"{_LAKE} {_SOURCE} {_VIEW} {_SINK.format(input='per_key', mode='KEY (k) MODE UPSERT')}",
}
_MODULES = """
import sys, sinkql
from sinkql.connector_api.registry import discover
try:
    from sinkql.runtime.spark.task_modules import task_modules
except ImportError:  # an older checkout
    print(*discover().tasks, sep=",")
else:
    print(*task_modules(sinkql.compile(sys.argv[1]).jobs if sys.argv[1] else None), sep=",")
"""
_DAEMON = "sinkql.runtime.spark.daemon"
_IMPORT = """
import sys, time
start = time.process_time()
sys.argv = ["daemon", "pyspark.worker"]
import {daemon}
print(time.process_time() - start)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--job", choices=[*_SCRIPTS], default="append")
    parser.add_argument("--every", action="store_true")
    arguments = parser.parse_args()
    script = "" if arguments.every else _SCRIPTS[arguments.job]
    sides = [(ROOT, _DAEMON), (ROOT, "pyspark.daemon")]
    sides += [(arguments.against, _DAEMON)] if arguments.against is not None else []
    seconds: list[list[float]] = [[] for _ in sides]
    for _ in range(arguments.runs):
        for (tree, daemon), measured in zip(sides, seconds, strict=True):
            measured.append(_import_seconds(tree, script, daemon))
    least = [min(measured) for measured in seconds]
    rows = [("checkout", "module", "CPU s", "ratio")]
    rows += [
        (str(tree), daemon, f"{cpu:.2f}", f"{least[0] / cpu:.2f}")
        for (tree, daemon), cpu in zip(sides, least, strict=True)
    ]
    show(rows)
    if not arguments.every:
        report(f"workers {arguments.job}", *least[:2])


def _import_seconds(tree: Path, script: str, daemon: str) -> float:
    modules = _run(_MODULES, script, tree=tree, environment={**os.environ, "PYTHONPATH": str(tree)})
    archives = sorted(_ARCHIVES.glob("*.zip"), reverse=True)  # before other modules, as in Spark
    path = os.pathsep.join([*map(str, archives), str(tree)])
    environment = {**os.environ, "PYTHONPATH": path, "SINKQL_TASKS": modules.strip()}
    return float(_run(_IMPORT.format(daemon=daemon), tree=tree, environment=environment))


def _run(script: str, *arguments: str, tree: Path, environment: dict[str, str]) -> str:
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=tree).stdout


if __name__ == "__main__":
    main()
