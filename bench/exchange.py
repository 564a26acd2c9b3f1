"""Compare the exchange of rows as Arrow blobs with Spark SQL's shuffle, in the same jobs over the same files.

    python -m bench.exchange [--rows 1500000] [--few 250000] [--runs 3] [--cores 2] [--only upsert aggregate join]

upsert: Parquet rows of ten columns over 0.9 million keys into an upsert table, in commits of 500,000.
aggregate: count and two maxima of the same rows by that key, into an upsert table.
join: the rows with 0.1 million users, appended; the sides are exchanged by the user.

The two ways alternate. Prints the CPU nanoseconds of a row of the whole process tree, the median of the runs. The cost
of a run with `--few` rows is subtracted. Checks that DuckDB reads the same count and sums from both tables.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.common import HOME, median, read_back, run_sinkql, show
from bench.figure import report
from bench.meter import Cost

_FILE = 250_000
_KEYS = 900_000
_USERS = 100_000
_START = """
CREATE CLUSTER bench (SIZE = 'local[{cores}]', EXECUTION = SPARK);
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s (id bigint NOT NULL, user_id bigint, qty integer, price double precision, discount double precision,
  sku text, country text, note text, ts timestamptz, active boolean{key}) FROM FILES (PATH = '{path}') FORMAT PARQUET;
"""
_SINK = """
CREATE SINK k IN CLUSTER bench FROM {relation} INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  {mode} WITH (COMMIT INTERVAL = '1s', MAX ROWS PER COMMIT = 500000);
"""
_VIEWS = {
    "upsert": "",
    "aggregate": "CREATE MATERIALIZED VIEW v AS SELECT id, count(*) AS n, max(qty) AS q, max(user_id) AS u FROM s "
    "GROUP BY id;\n",
    "join": "CREATE SOURCE users (uid bigint NOT NULL, name text) FROM FILES (PATH = '{users}') FORMAT PARQUET;\n"
    "CREATE MATERIALIZED VIEW v AS SELECT id, user_id, qty, name FROM s JOIN users ON uid = user_id;\n",
}
_SUMS = {"upsert": ("id", "qty", "user_id"), "aggregate": ("n", "q", "u"), "join": ("id", "qty", "user_id")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_500_000)
    parser.add_argument("--few", type=int, default=250_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--only", nargs="*", choices=tuple(_VIEWS), default=tuple(_VIEWS))
    arguments = parser.parse_args()
    home = HOME / "exchange"
    shutil.rmtree(home, ignore_errors=True)
    for rows in (arguments.few, arguments.rows):
        _write(home / str(rows), rows)
    (home / "users").mkdir()
    users = {"uid": pa.array(range(_USERS)), "name": pa.array([f"user {number}" for number in range(_USERS)])}
    pq.write_table(pa.table(users), home / "users" / "users.parquet")
    for kind in arguments.only:
        _compare(kind, home, arguments)


def _compare(kind: str, home: Path, arguments: argparse.Namespace) -> None:
    found: dict[str, list[tuple[float, ...]]] = {"blobs": [], "rows": []}
    more = arguments.rows - arguments.few
    for run in range(arguments.runs):
        tables = []
        for way, figures in found.items():
            few, _ = _run(kind, way, home, arguments.few, arguments.cores)
            many, table = _run(kind, way, home, arguments.rows, arguments.cores)
            tables.append(table)
            figures.append(((many.cpu_s - few.cpu_s) / more * 1e9, many.cpu_s, many.wall_s, many.peak_mb))
            print(f"{kind}, run {run + 1}, {way}: {figures[-1][0]:,.0f} ns a row, {many.cpu_s:.1f} CPU-s", flush=True)
        assert tables[0] == tables[1], tables
    medians = {way: [median(each) for each in zip(*figures, strict=True)] for way, figures in found.items()}
    table = [
        (way, f"{ns:,.0f}", f"{cpu:.1f}", f"{wall:.1f}", f"{peak:,.0f}")
        for way, (ns, cpu, wall, peak) in medians.items()
    ]
    show([(kind, "ns a row", "CPU-s", "wall s", "peak MB"), *table])
    print(f"{kind}: blobs take {medians['blobs'][0] / medians['rows'][0]:.2f} of the CPU of rows", flush=True)
    report(f"exchange {kind}", *(figures[0] for figures in medians.values()))


def _run(kind: str, way: str, home: Path, rows: int, cores: int) -> tuple[Cost, Any]:
    work = home / "work"
    key = ", PRIMARY KEY (id) NOT ENFORCED" if kind == "upsert" else ""
    text = _START.format(cores=cores, key=key, path=home / str(rows)) + _VIEWS[kind].format(users=home / "users")
    mode = "ENVELOPE NONE" if kind == "join" else "KEY (id) MODE UPSERT"
    text += _SINK.format(relation="s" if kind == "upsert" else "v", mode=mode)
    cost = run_sinkql(text, work, blobs=way == "blobs")
    table = read_back(work / "lake" / "n" / "t", _SUMS[kind])
    shutil.rmtree(work)
    return cost, table


def _write(folder: Path, rows: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for first, number in zip(range(0, rows, _FILE), itertools.count()):
        count, random = min(_FILE, rows - first), np.random.default_rng(number)
        columns = {
            "id": pa.array(random.integers(0, _KEYS, count)),
            "user_id": pa.array(random.integers(0, _USERS, count)),
            "qty": pa.array(random.integers(0, 100, count), pa.int32()),
            "price": pa.array(random.random(count)),
            "discount": pa.array(random.random(count)),
            "sku": pa.array([f"SKU-{sku:05}" for sku in random.integers(0, 99_999, count)]),
            "country": pa.array(["DE"] * count),
            "note": pa.array([f"n{row} v1" for row in range(count)]),
            "ts": pa.array(random.integers(0, 1 << 50, count), pa.timestamp("us", "UTC")),
            "active": pa.array(random.random(count) > 0.5),
        }
        pq.write_table(pa.table(columns), folder / f"{number:04}.parquet", row_group_size=1 << 16)


if __name__ == "__main__":
    main()
