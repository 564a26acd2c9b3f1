"""Compare appending JSON lines to Iceberg in SinkQL and in Spark's own Iceberg sink, from the same files.

    python -m bench.append [--rows 4000000] [--runs 3] [--cores 2]

Prints rows per CPU-second of the whole process tree, the median of the runs: the slope between a quarter of the rows
and all of them, so that neither side pays for its start, which is printed separately. Checks that DuckDB reads the same
count and sums from both tables.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from bench.common import HOME, median, read_back, run_sinkql, run_spark, script, show
from bench.data import EVENT_COLUMNS, write_events
from bench.figure import report
from bench.meter import Cost

_FILES_A_COMMIT = 2
_SMALLER = 4  # both sizes are large, so that the JVM's compilation is subtracted too


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    arguments = parser.parse_args()
    home = HOME / "append"
    shutil.rmtree(home, ignore_errors=True)
    few = arguments.rows // _SMALLER
    more = arguments.rows - few
    write_events(home / "large", arguments.rows, 8)
    write_events(home / "small", few, 2)
    results: dict[str, list[tuple[Cost, Cost]]] = {"sinkql": [], "spark iceberg sink": []}
    for run in range(arguments.runs):
        for name, costs in results.items():
            work = home / f"{name.replace(' ', '-')}-{run}"
            costs.append((_run(name, home / "small", work / "s", arguments.cores),
                          _run(name, home / "large", work / "l", arguments.cores)))  # fmt: skip
            shutil.rmtree(work / "s")
        tables = [home / f"sinkql-{run}/l/lake/n/t", home / f"spark-iceberg-sink-{run}/l/lake/n/t"]
        ours, theirs = (read_back(table, ("id", "user_id", "qty")) for table in tables)
        print(f"run {run + 1}: parity {'ok' if ours == theirs else f'FAILED: {ours} and {theirs}'}", flush=True)
    rates = {
        name: median([more / (large.cpu_s - small.cpu_s) for small, large in costs]) for name, costs in results.items()
    }
    show(
        [
            ("append", "rows/CPU-s", "start-up CPU-s", "peak MB"),
            *(
                (
                    name,
                    f"{rates[name]:,.0f}",
                    f"{median([small.cpu_s for small, _ in costs]) - few / rates[name]:.1f}",
                    f"{median([large.peak_mb for _, large in costs]):,.0f}",
                )
                for name, costs in results.items()
            ),
        ]
    )
    print(f"sinkql is {rates['sinkql'] / rates['spark iceberg sink']:.2f} times as fast")
    report("append", *rates.values())


def _run(name: str, source: Path, work: Path, cores: int) -> Cost:
    if name == "sinkql":
        text = script(EVENT_COLUMNS, source, "ENVELOPE NONE", cores=cores, files=_FILES_A_COMMIT)
        return run_sinkql(text, work)
    return run_spark("append", source, work, limit=_FILES_A_COMMIT, cores=cores)


if __name__ == "__main__":
    main()
