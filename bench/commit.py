"""What a commit of ten rows costs, once a second, in a pipeline that has been running for a while.

Appended, upserted, and appended from a view of sixteen columns that come from each other.

    python -m bench.commit [--commits 30] [--runs 3] [--cores 2] [--against TREE]

Prints CPU milliseconds of the whole process tree a commit, median of the runs, after ten commits to warm up.
`--against` runs another checkout of SinkQL in turns with this one, and prints the ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from bench.common import HOME, ROOT, median
from bench.meter import ENVIRONMENT, tree_cpu

_WARM_UP = 10
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
    arguments = parser.parse_args()
    trees = [ROOT, *([arguments.against] if arguments.against is not None else [])]
    for pipeline in arguments.pipelines:
        costs: list[list[float]] = [[] for _ in trees]
        for _ in range(arguments.runs):
            for tree, found in zip(trees, costs, strict=True):
                found.append(_run(*_PIPELINES[pipeline], arguments.commits, arguments.cores, tree))
        each = "; ".join(", ".join(f"{cost:.0f}" for cost in found) for found in costs)
        against = f", {median(costs[0]) / median(costs[1]):.2f} of the other's" if len(trees) > 1 else ""
        print(f"{pipeline}: {median(costs[0]):.0f} CPU-ms a commit of 10 rows ({each}){against}")


def _run(name: str, mode: str, commits: int, cores: int, tree: Path) -> float:
    home = HOME / "commit"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    (home / "pipeline.sql").write_text(
        f"CREATE CLUSTER bench (SIZE = 'local[{cores}]');\n"
        "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');\n"
        "CREATE SOURCE s FROM LOAD GENERATOR COUNTER (ROWS PER SECOND 10);\n"
        "CREATE VIEW t AS SELECT counter, counter::text || 'x' AS x FROM s;\n"
        f"CREATE MATERIALIZED VIEW v AS SELECT {_COLUMNS} FROM t WHERE x >= '0';\n"
        f"CREATE SINK k IN CLUSTER bench FROM {name} INTO ICEBERG CATALOG CONNECTION lake\n"
        f"  (NAMESPACE = 'n', TABLE = 't') {mode} WITH (COMMIT INTERVAL = '1s');\n"
    )
    command = [sys.executable, "-m", "sinkql", "--output", "json", "exec", "pipeline.sql"]
    environment = {**ENVIRONMENT, "PYTHONPATH": str(tree), "SINKQL_ARCHIVE": "off"}
    process = subprocess.Popen(
        command, cwd=home, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    seen, began = 0, 0.0
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("{") and json.loads(line).get("event") == "committed":
                seen += 1
                if seen == _WARM_UP:
                    began = tree_cpu(process.pid)
                if seen == _WARM_UP + commits:
                    return (tree_cpu(process.pid) - began) * 1000 / commits
        raise RuntimeError(f"the pipeline ended with {process.wait()}")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


if __name__ == "__main__":
    main()
