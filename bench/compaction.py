"""Compare OPTIMIZE SINK of an upsert sink's table with Spark's `rewrite_data_files` of the same files.

    python -m bench.compaction [--keys 1000000] [--rows 20000] [--commits 20] [--columns 8] [--cores 2]

The table has one commit with all keys and more commits that change some of them, as in `bench.churn`, without
compaction. Spark rewrites the table first, and the sink's metadata never names the files that Spark writes. Before
that, Spark rewrites a table of as many columns and few rows, so that its start and class loading do not count. Prints
the live rows written into new files per CPU-second. Both tables must read the same.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from bench.churn import columns_of, open_churn
from bench.commits import _table
from bench.common import HOME, ROOT, iceberg_jar, read_back, show
from bench.growth import _stepper
from bench.meter import measure
from sinkql.runtime.batch.loop import BatchLoop

_FEW = 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--commits", type=int, default=20)
    parser.add_argument("--columns", type=int, choices=[2, 8, 16], default=8)
    parser.add_argument("--cores", type=int, default=2)
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    home = HOME / "compaction"
    shutil.rmtree(home, ignore_errors=True)
    columns = arguments.columns
    _made(home / "few", _FEW, _FEW // 10, 2, columns)
    loop = _made(home / "many", arguments.keys, arguments.rows, arguments.commits, columns)
    metadata = home / "many" / "lake" / "n" / "t" / "metadata"
    hint = (metadata / "version-hint.text").read_text()
    theirs = _spark(home, arguments.cores)
    spark_rows = _rows(home / "many", columns)
    (metadata / "version-hint.text").write_text(hint)
    began = time.process_time()
    loop.maintenance.optimize(lambda: True)
    ours = time.process_time() - began
    rows = _rows(home / "many", columns)
    print(f"parity {'ok' if rows == spark_rows else f'FAILED: {rows} and {spark_rows}'}")
    spent = {"sinkql": ours, "rewrite_data_files": theirs}
    table = [(name, f"{cpu:.2f}", f"{rows[0] / cpu:,.0f}") for name, cpu in spent.items()]
    show([("compaction", "CPU-s", "rows/CPU-s"), *table])
    print(f"sinkql is {theirs / ours:.1f} times as fast")


def _made(folder: Path, keys: int, rows: int, commits: int, columns: int) -> BatchLoop:
    (folder / "in").mkdir(parents=True)
    loop = open_churn(folder, rows, keys, columns)
    loop.maintenance.budget.share = 0
    loop.start(epoch=1)
    step = _stepper(loop)
    for _ in range(1 + commits):
        step()
    metadata = folder / "lake" / "n" / "t" / "metadata"
    current = Path(_table(folder).metadata_location.removeprefix("file://"))
    shutil.copy(current, metadata / "v1.metadata.json")  # the name that Spark's Hadoop catalog expects
    return loop


def _spark(home: Path, cores: int) -> float:
    """Return the CPU seconds of Spark's compaction."""
    for name in ("few", "many"):
        (home / name / "lake" / "n" / "t" / "metadata" / "version-hint.text").write_text("1")
    arguments = [str(home / "few" / "lake"), str(home / "many" / "lake"), str(iceberg_jar()), str(cores)]
    command = [sys.executable, "-m", "bench.spark_compaction", *arguments]
    measure(command, folder=home, environment={"PYTHONPATH": str(ROOT)})
    return float((home / "log").read_text().rpartition("CPU seconds: ")[2].split()[0])


def _rows(folder: Path, columns: int) -> tuple[Any, ...]:
    numbers = [name for name, type_ in columns_of(columns).items() if "bigint" in type_]
    return read_back(folder / "lake" / "n" / "t", numbers)


if __name__ == "__main__":
    main()
