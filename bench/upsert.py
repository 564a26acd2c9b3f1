"""Compare upserts into a large Iceberg table in SinkQL and with foreachBatch and MERGE INTO (merge-on-read).

    python -m bench.upsert [--base 5000000] [--changes 50000] [--batches 5] [--runs 3] [--cores 2]

Both read the same files. The base rows are loaded first and do not count. Prints changes per CPU-second of the whole
process tree, the median of the runs. A run of one batch of 25,000 changes is subtracted and printed
separately. Checks that DuckDB reads the same count and sums from both tables.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import numpy as np

from bench.common import HOME, median, read_back, run_sinkql, run_spark, script, show
from bench.data import ROW_COLUMNS, write_base, write_changes, write_rows
from bench.meter import Cost

_NAMES = ("sinkql", "merge into")
_WARM_UP = 25_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=int, default=5_000_000)
    parser.add_argument("--changes", type=int, default=50_000)
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    arguments = parser.parse_args()
    home = HOME / "upsert"
    shutil.rmtree(home, ignore_errors=True)
    write_base(home / "base", arguments.base, 4)
    for batch in range(arguments.batches):
        write_changes(home / "changes", batch, arguments.changes, arguments.base)
    write_rows(home / "warm" / "warm.json", np.arange(_WARM_UP), 9_000_000)
    costs: dict[str, list[tuple[Cost, Cost]]] = {name: [] for name in _NAMES}
    total = arguments.changes * arguments.batches
    for run in range(arguments.runs):
        for name in _NAMES:
            costs[name].append(_run(name, home, home / f"{name.replace(' ', '-')}-{run}", arguments.cores))
        tables = [home / f"sinkql-{run}/lake/n/t", home / f"merge-into-{run}/lake/n/t"]
        ours, theirs = (read_back(table, ("id", "qty", "seq")) for table in tables)
        print(f"run {run + 1}: parity {'ok' if ours == theirs else f'FAILED: {ours} and {theirs}'}", flush=True)
        for name in _NAMES:
            shutil.rmtree(home / f"{name.replace(' ', '-')}-{run}")
    rates = {
        name: median([(total - _WARM_UP) / (main.cpu_s - warm.cpu_s) for warm, main in costs[name]]) for name in _NAMES
    }
    show(
        [
            ("upsert", "changes/CPU-s", "start-up CPU-s", "peak MB"),
            *(
                (
                    name,
                    f"{rates[name]:,.0f}",
                    f"{median([warm.cpu_s for warm, _ in costs[name]]):.1f}",
                    f"{median([main.peak_mb for _, main in costs[name]]):,.0f}",
                )
                for name in _NAMES
            ),
        ]
    )
    print(f"sinkql is {rates['sinkql'] / rates['merge into']:.2f} times as fast")


def _run(name: str, home: Path, work: Path, cores: int) -> tuple[Cost, Cost]:
    """Load the base, then return the cost of a start and that of all batches."""
    if name == "sinkql":
        source = work / "in"
        shutil.copytree(home / "base", source)
        text = script(ROW_COLUMNS, source, "KEY (id) NOT ENFORCED MODE UPSERT", cores=cores, files=1)
        run_sinkql(text, work)
        shutil.copytree(home / "warm", source, dirs_exist_ok=True)
        warm = run_sinkql(text, work)
        shutil.copytree(home / "changes", source, dirs_exist_ok=True)
        return warm, run_sinkql(text, work)
    run_spark("merge", home / "base", work, limit=4, cores=cores)
    source = work / "in"
    shutil.copytree(home / "warm", source)
    warm = run_spark("merge", source, work, limit=1, cores=cores)
    shutil.copytree(home / "changes", source, dirs_exist_ok=True)
    return warm, run_spark("merge", source, work, limit=1, cores=cores)


if __name__ == "__main__":
    main()
