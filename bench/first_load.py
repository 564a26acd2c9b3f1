"""Compare the first load of views with Flink SQL: TPC-H's q3 and q5, with Flink's state in memory.

    python -m bench.first_load [--only q3 q5] [--orders 400000 1600000] [--runs 3] [--cores 2] [--mini-batch]

Each run computes a query over all rows of its tables, JSON lines in files, into an upsert table, without the query's
ORDER BY and LIMIT. Orders have four lines each. The cost of a run is that of the larger number of orders less that of
the smaller, by CPU of the process tree and by elapsed time: neither side pays for its start. Flink commits every ten
seconds, and SinkQL reads all files in its first commit. With `--mini-batch`, Flink gathers rows for a second before it
computes.

Prints the seconds of a million orders, the medians of the runs, which take turns. DuckDB must read the same count and
sum from both tables.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.common import HOME, median, read_back, run_sinkql, show
from bench.figure import report
from bench.meter import Cost
from bench.peer import run_flink_files
from bench.tpch import TABLES, Orders, query

_FILES = 4
_SINKQL = """CREATE CLUSTER bench (SIZE = 'local[{cores}]');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
{sources}CREATE MATERIALIZED VIEW v AS {query};
CREATE SINK k IN CLUSTER bench FROM v INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  KEY ({key}) MODE UPSERT WITH (COMMIT INTERVAL = '10s');
"""
_SOURCE = "CREATE SOURCE {name} ({columns}) FROM FILES (PATH = '{path}') FORMAT JSON;\n"
_FLINK_SOURCE = (
    "CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'json');\n"
)
_FLINK = """CREATE TABLE ice.n.t ({columns}, PRIMARY KEY ({key}) NOT ENFORCED)
  WITH ('format-version' = '2', 'write.upsert.enabled' = 'true');
INSERT INTO ice.n.t {query};
"""
_FLINK_TYPES = {" text": " STRING", " integer": " INT", " numeric(15,2)": " DECIMAL(15,2)"}
_MINI_BATCH = (
    "table.exec.mini-batch.enabled=true", "table.exec.mini-batch.allow-latency=1s",
    "table.exec.mini-batch.size=50000",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Query:
    """A query's tables, its key, and the columns of Flink's table; some columns are read back and compared."""

    tables: tuple[str, ...]
    key: str
    columns: str
    compared: tuple[str, ...]


_QUERIES = {
    "q3": _Query(
        ("customer", "orders", "lineitem"),
        "l_orderkey, o_orderdate, o_shippriority",
        "l_orderkey BIGINT, revenue DECIMAL(38,4), o_orderdate DATE, o_shippriority INT",
        ("l_orderkey", "revenue"),
    ),
    "q5": _Query(
        ("customer", "orders", "lineitem", "supplier", "nation", "region"),
        "n_name",
        "n_name STRING, revenue DECIMAL(38,4)",
        ("revenue",),
    ),
}
_Side = Callable[[Path, Path], Cost]
"""Load a folder of tables into the table `lake/n/t` below a folder."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=tuple(_QUERIES), default=tuple(_QUERIES))
    parser.add_argument("--orders", nargs=2, type=int, default=(400_000, 1_600_000))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--mini-batch", action="store_true")
    arguments = parser.parse_args()
    home = HOME / "first_load"
    shutil.rmtree(home, ignore_errors=True)
    for orders in arguments.orders:
        _write(home / str(orders), orders)
    for name in arguments.only:
        _measure(name, home, arguments)


def _measure(name: str, home: Path, arguments: argparse.Namespace) -> None:
    sides: dict[str, _Side] = {
        "sinkql": lambda source, work: run_sinkql(_sinkql(name, source, arguments.cores), work),
        "flink": lambda source, work: run_flink_files(
            _flink(name, source),
            work,
            arguments.cores,
            memory="6g",
            state="hashmap",
            more=_MINI_BATCH if arguments.mini_batch else (),
        ),
    }
    few, many = arguments.orders
    costs: dict[str, list[tuple[Cost, Cost]]] = {side: [] for side in sides}
    seen: dict[int, Any] = {}
    for run, (side, load) in itertools.product(range(arguments.runs), sides.items()):
        found = []
        for orders in (few, many):
            work = home / side
            found.append(load(home / str(orders), work))
            rows = read_back(work / "lake/n/t", _QUERIES[name].compared)
            assert seen.setdefault(orders, rows) == rows, f"the tables have {seen[orders]} and {rows}"
            shutil.rmtree(work)
        costs[side].append((found[0], found[1]))
        cpu_s, wall_s = _slopes(costs[side][-1:], many - few)
        peak = f"{found[1].peak_mb:,.0f} MB"
        print(f"{name}, run {run + 1}, {side}: {cpu_s:.2f} CPU-s, {wall_s:.2f} s, {peak}", flush=True)
    table = [(f"first load of {name}, a million orders", "CPU-s", "s", "fixed CPU-s", "peak MB")]
    both = {side: _slopes(pairs, many - few) for side, pairs in costs.items()}
    for side, (cpu_s, wall_s) in both.items():
        fixed = median([small.cpu_s for small, _ in costs[side]]) - cpu_s * few / 1e6
        peak_mb = median([large.peak_mb for _, large in costs[side]])
        table.append((side, f"{cpu_s:.2f}", f"{wall_s:.2f}", f"{fixed:.1f}", f"{peak_mb:,.0f}"))
    show(table)
    for word, place in ("", 0), (" wall", 1):
        report(f"{name}{word}", both["sinkql"][place], both["flink"][place])


def _slopes(pairs: Sequence[tuple[Cost, Cost]], orders: int) -> tuple[float, float]:
    """Return the CPU and the elapsed seconds of a million orders, the medians of the runs."""
    scale = 1e6 / orders
    return (
        median([(large.cpu_s - small.cpu_s) * scale for small, large in pairs]),
        median([(large.wall_s - small.wall_s) * scale for small, large in pairs]),
    )


def _write(folder: Path, orders: int) -> None:
    for table, lines in Orders(orders).base().items():
        (folder / table).mkdir(parents=True)
        size = -(-len(lines) // _FILES)
        for number in range(0, len(lines), size):
            (folder / table / f"part-{number // size}.json").write_text("".join(lines[number : number + size]))


def _text(name: str) -> str:
    return query(name).split("\nORDER BY")[0]


def _sinkql(name: str, source: Path, cores: int) -> str:
    asked = _QUERIES[name]
    sources = "".join(_SOURCE.format(name=each, columns=TABLES[each], path=source / each) for each in asked.tables)
    return _SINKQL.format(cores=cores, sources=sources, query=_text(name), key=asked.key)


def _flink(name: str, source: Path) -> str:
    asked, sql = _QUERIES[name], ""
    for each in asked.tables:
        columns = TABLES[each]
        for ours, theirs in _FLINK_TYPES.items():
            columns = columns.replace(ours, theirs)
        sql += _FLINK_SOURCE.format(name=each, columns=columns, path=source / each)
    return sql + _FLINK.format(columns=asked.columns, key=asked.key, query=_text(name))


if __name__ == "__main__":
    main()
