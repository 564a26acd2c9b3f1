"""Measure `import sinkql`, the parser, and `sinkql compile`, each in a new process.

    python -m bench.compile [--runs 5]

Prints wall and CPU seconds, medians of the runs. An empty Python is subtracted from the import and the first statement,
and the first statement from the parser.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.common import median
from bench.meter import ENVIRONMENT

_PARSE = "import pathlib, sys; from sinkql.parser import parse; parse(pathlib.Path(sys.argv[1]).read_text())"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        target = str(Path(folder) / "job.json")
        scripts = {}
        for views in (100, 200):
            scripts[views] = Path(folder) / f"{views}.sql"
            scripts[views].write_text(pipeline(sources={100: 99, 200: 599}[views], views=views))
        empty = seconds([sys.executable, "-c", "pass"], runs)
        imported = seconds([sys.executable, "-c", "import sinkql"], runs)
        tables = seconds([sys.executable, "-c", "from sinkql.parser import parse; parse('SELECT 1')"], runs)
        parsed = seconds([sys.executable, "-c", _PARSE, str(scripts[200])], runs)
        compiled = {
            views: seconds([sys.executable, "-m", "sinkql", "compile", str(script), "-o", target], runs)
            for views, script in scripts.items()
        }
    _show("empty Python", empty)
    _show("import sinkql", imported, empty)
    _show("first statement", tables, empty)
    _show("parser alone, 1,000 statements", parsed, tables)
    _show("compile of 300 statements, 100 views", compiled[100])
    _show("compile of 1,000 statements, 200 views", compiled[200])


def pipeline(*, sources: int, views: int) -> str:
    """Return a script of a connection, sources, views over them, and a sink of each view."""
    statements = ["CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');"]
    statements.extend(
        f"CREATE SOURCE s{i} (id bigint, k text, amount numeric(12, 2), at timestamp) "
        f"FROM FILES (PATH = 'in{i}') FORMAT JSON;"
        for i in range(sources)
    )
    for i in range(views):
        statements.append(
            f"CREATE MATERIALIZED VIEW v{i} AS SELECT k, date_trunc('day', at) AS day, count(*) AS n, "
            f"sum(amount) AS total, max(coalesce(id, 0) + {i}) AS top FROM s{i % sources} "
            "WHERE k <> 'none' AND amount > 0 GROUP BY k, date_trunc('day', at) HAVING count(*) > 1;"
        )
        statements.append(
            f"CREATE SINK k{i} FROM v{i} INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't{i}') "
            "KEY (k, day) MODE UPSERT WITH (COMMIT INTERVAL = '10s');"
        )
    return "\n".join(statements)


def seconds(command: list[str], runs: int, folder: Path | None = None) -> tuple[float, float]:
    """Return the median wall and CPU seconds of a command, run in a folder."""
    wall, cpu = [], []
    for _ in range(runs):
        began, used = time.perf_counter(), _children()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT, cwd=folder)
        wall.append(time.perf_counter() - began)
        cpu.append(_children() - used)
    return median(wall), median(cpu)


def _children() -> float:
    used = os.times()
    return used.children_user + used.children_system


def _show(what: str, measured: tuple[float, float], off: tuple[float, float] = (0, 0)) -> None:
    print(f"{what + ':':40} {measured[0] - off[0]:7.3f} s wall {measured[1] - off[1]:7.3f} s CPU")


if __name__ == "__main__":
    main()
