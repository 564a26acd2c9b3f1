"""How long `import sinkql` takes, and `sinkql compile` of 300 statements, in processes of their own.

    python -m bench.compile [--runs 5]

Prints wall seconds, median of the runs, beside those of an empty Python.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.common import median


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "pipeline.sql"
        script.write_text(three_hundred_statements())
        target = str(Path(folder) / "job.json")
        empty = _seconds([sys.executable, "-c", "pass"], runs)
        imported = _seconds([sys.executable, "-c", "import sinkql"], runs)
        compiled = _seconds([sys.executable, "-m", "sinkql", "compile", str(script), "-o", target], runs)
    print(f"empty Python:                {empty:.3f} s")
    print(f"import sinkql:               {imported - empty:.3f} s")
    print(f"compile of 300 statements:   {compiled:.3f} s, start of Python included")


def three_hundred_statements() -> str:
    """Return a script of a connection, 99 sources, 100 views and 100 sinks."""
    statements = ["CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');"]
    statements.extend(
        f"CREATE SOURCE s{i} (id bigint, k text, amount numeric(12, 2), at timestamp) "
        f"FROM FILES (PATH = 'in{i}') FORMAT JSON;"
        for i in range(99)
    )
    for i in range(100):
        statements.append(
            f"CREATE MATERIALIZED VIEW v{i} AS SELECT k, date_trunc('day', at) AS day, count(*) AS n, "
            f"sum(amount) AS total, max(coalesce(id, 0) + {i}) AS top FROM s{i % 99} "
            "WHERE k <> 'none' AND amount > 0 GROUP BY k, date_trunc('day', at) HAVING count(*) > 1;"
        )
        statements.append(
            f"CREATE SINK k{i} FROM v{i} INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't{i}') "
            "KEY (k, day) MODE UPSERT WITH (COMMIT INTERVAL = '10s');"
        )
    return "\n".join(statements)


def _seconds(command: list[str], runs: int) -> float:
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - began)
    return median(times)


if __name__ == "__main__":
    main()
