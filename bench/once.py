"""Measure `sinkql exec --once` of one row, from the start of Python to its end: appended, grouped, and upserted.

    python -m bench.once [--runs 3] [--against TREE]

Prints the median CPU and wall seconds of the whole process tree. `--against` alternates with another checkout of
SinkQL, and prints the ratio. The archive of Spark's classes is created before.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from bench.common import HOME, ROOT, median, run_sinkql, show
from bench.meter import Cost

_CREATED = (
    "CREATE CLUSTER bench (SIZE = 'local[2]');\n"
    "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');\n"
    "CREATE SOURCE s (id bigint NOT NULL, name text) FROM FILES (PATH = 'in') FORMAT JSON;\n"
    "CREATE MATERIALIZED VIEW v AS SELECT name, count(*) AS n FROM s GROUP BY name;\n"
)
_SINKS = {
    "append": "s INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't') ENVELOPE NONE",
    "view": "v INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't') KEY (name) MODE UPSERT",
    "upsert": "s INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't') KEY (id) NOT ENFORCED MODE UPSERT",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--sinks", nargs="*", choices=list(_SINKS), default=["append"])
    arguments = parser.parse_args()
    subprocess.run([sys.executable, "-m", "sinkql.runtime.spark.class_archive_run"], check=True, cwd=ROOT)
    trees = [ROOT, *([arguments.against] if arguments.against is not None else [])]
    rows = [["", *("CPU s" for _ in trees), *("wall s" for _ in trees), "ratio of CPU"]]
    for name in arguments.sinks:
        costs: list[list[Cost]] = [[] for _ in trees]
        for _ in range(arguments.runs):
            for tree, found in zip(trees, costs, strict=True):
                found.append(_cost(name, tree))
        cpu = [median([each.cpu_s for each in found]) for found in costs]
        wall = [median([each.wall_s for each in found]) for found in costs]
        rows.append([name, *(f"{each:.1f}" for each in (*cpu, *wall)), f"{cpu[0] / cpu[-1]:.2f}"])
    show(rows)


def _cost(name: str, tree: Path) -> Cost:
    work = HOME / "once"
    shutil.rmtree(work, ignore_errors=True)
    (work / "in").mkdir(parents=True)
    (work / "in" / "a.json").write_text('{"id": 1, "name": "a"}\n')
    sink = f"CREATE SINK k IN CLUSTER bench FROM {_SINKS[name]} WITH (COMMIT INTERVAL = '1s');\n"
    return run_sinkql(_CREATED + sink, work, tree=tree)


if __name__ == "__main__":
    main()
