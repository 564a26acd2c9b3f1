"""Measure `sinkql exec --once` of one row, from the start of Python to its end: appended, grouped, and upserted.

    python -m bench.once [--runs 3] [--against TREE]

Prints the median CPU and wall seconds of the whole process tree, in turns with a cluster whose EXECUTION is SPARK.
`--against` takes turns with another checkout of SinkQL instead. The archive of Spark's classes is created before.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from bench.common import HOME, ROOT, median, run_sinkql, show
from bench.figure import report
from bench.meter import Cost

_CREATED = (
    "CREATE CLUSTER bench (SIZE = 'local[2]'{execution});\n"
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
    other = "with Spark" if arguments.against is None else str(arguments.against)
    sides = [(ROOT, ""), (ROOT, ", EXECUTION = SPARK") if arguments.against is None else (arguments.against, "")]
    rows = [["", "CPU s", other, "wall s", other, "ratio of CPU"]]
    for name in arguments.sinks:
        costs: list[list[Cost]] = [[], []]
        for _ in range(arguments.runs):
            for (tree, execution), found in zip(sides, costs, strict=True):
                found.append(_cost(name, tree, execution))
        cpu = [median([each.cpu_s for each in found]) for found in costs]
        wall = [median([each.wall_s for each in found]) for found in costs]
        rows.append([name, *(f"{each:.1f}" for each in (*cpu, *wall)), f"{cpu[0] / cpu[1]:.2f}"])
        if arguments.against is None:
            report(f"once {name}", *cpu)
            report(f"once {name} wall", wall[0])
    show(rows)


def _cost(name: str, tree: Path, execution: str) -> Cost:
    work = HOME / "once"
    shutil.rmtree(work, ignore_errors=True)
    (work / "in").mkdir(parents=True)
    (work / "in" / "a.json").write_text('{"id": 1, "name": "a"}\n')
    sink = f"CREATE SINK k IN CLUSTER bench FROM {_SINKS[name]} WITH (COMMIT INTERVAL = '1s');\n"
    return run_sinkql(_CREATED.format(execution=execution) + sink, work, tree=tree)


if __name__ == "__main__":
    main()
