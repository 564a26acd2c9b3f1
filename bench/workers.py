"""Measure the start of Spark's Python workers: the imports of their parent process, which forks them.

    python -m bench.workers [--runs 5] [--against TREE]

Prints the median CPU seconds, with the path that a local Spark sets. `--against` alternates with another checkout of
SinkQL, and prints the ratio.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pyspark

from bench.common import ROOT, median, show
from sinkql.connector_api.registry import discover

_ARCHIVES = Path(pyspark.__file__).parent / "python" / "lib"
_IMPORT = """
import sys, time
start = time.process_time()
sys.argv = ["daemon", "pyspark.worker"]
import sinkql.runtime.spark.daemon
print(time.process_time() - start)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--against", type=Path)
    arguments = parser.parse_args()
    trees = [ROOT, *([arguments.against] if arguments.against is not None else [])]
    seconds: list[list[float]] = [[] for _ in trees]
    for _ in range(arguments.runs):
        for tree, measured in zip(trees, seconds, strict=True):
            measured.append(_import_seconds(tree))
    medians = [median(measured) for measured in seconds]
    rows = [("checkout", "CPU s", "ratio")]
    rows += [(str(tree), f"{cpu:.2f}", f"{medians[0] / cpu:.2f}") for tree, cpu in zip(trees, medians, strict=True)]
    show(rows)


def _import_seconds(tree: Path) -> float:
    archives = sorted(_ARCHIVES.glob("*.zip"), reverse=True)  # before other modules, as in Spark
    path = os.pathsep.join([*map(str, archives), str(tree)])
    environment = {**os.environ, "PYTHONPATH": path, "SINKQL_TASKS": ",".join(discover().tasks)}
    command = [sys.executable, "-c", _IMPORT]
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=tree).stdout)


if __name__ == "__main__":
    main()
