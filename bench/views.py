"""Compare views with other systems: an aggregate with Spark's, and a join with Flink's, both with state in RocksDB.

    python -m bench.views [--groups 1000000] [--rows 3000000] [--base 5000000] [--changes 1000000] [--commit 10000]
      [--runs 3] [--cores 2] [--only aggregate join]

aggregate: count and sum of rows of JSON files by a key of `--groups` values, in commits of 500,000, into an upsert
table. Compared with Spark's streaming aggregation with state in RocksDB: once with its changes discarded, and once with
its changes written to an Iceberg table by foreachBatch and MERGE INTO.

join: payments in commits of `--commit`, joined with `--base` existing orders into an append table; both sides are
stored. Compared with Flink SQL's regular join with state in RocksDB, which commits every ten seconds.

Prints rows per CPU-second of the whole process tree, the median of the runs. Of the aggregate it is the slope between
a third of the rows and all of them; of the join, the cost of a run with few payments is subtracted. SinkQL's join
starts no Spark in either run, since its commits are small. DuckDB must read the same count and sums from all tables.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from bench.common import HOME, median, read_back, run_sinkql, run_spark, show
from bench.figure import report
from bench.meter import Cost
from bench.peer import run_flink_files

_PART = 500_000
_FEW = 1_000
_SMALLER = 3  # both sizes are large, so that the JVM's compilation is subtracted too
_START = """
CREATE CLUSTER bench (SIZE = 'local[{cores}]');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
"""
_AGGREGATE = (
    _START
    + """
CREATE SOURCE rows (g bigint NOT NULL, v integer) FROM FILES (PATH = '{source}', MAX FILES PER COMMIT = 1) FORMAT JSON;
CREATE MATERIALIZED VIEW sums AS SELECT g, COUNT(*) AS n, SUM(v) AS total FROM rows GROUP BY g;
CREATE SINK k IN CLUSTER bench FROM sums INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  KEY (g) MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""
)
_JOIN = (
    _START
    + """
CREATE SOURCE orders (id bigint NOT NULL, customer bigint, note text)
  FROM FILES (PATH = '{orders}', MAX FILES PER COMMIT = 1) FORMAT JSON;
CREATE SOURCE payments (id bigint NOT NULL, order_id bigint, amount bigint)
  FROM FILES (PATH = '{payments}', MAX FILES PER COMMIT = 1) FORMAT JSON;
CREATE MATERIALIZED VIEW paid AS SELECT p.id, p.amount, o.customer, o.note
  FROM payments AS p JOIN orders AS o ON o.id = p.order_id;
CREATE SINK k IN CLUSTER bench FROM paid INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');
"""
)
_FLINK_TABLE = (
    "CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'json');\n"
)
_FLINK_JOIN = (
    "CREATE TABLE ice.n.t (id BIGINT, amount BIGINT, customer BIGINT, note STRING);\n"
    "INSERT INTO ice.n.t SELECT p.id, p.amount, o.customer, o.note FROM payments AS p JOIN orders AS o "
    "ON o.id = p.order_id;\n"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=1_000_000)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--base", type=int, default=5_000_000)
    parser.add_argument("--changes", type=int, default=1_000_000)
    parser.add_argument("--commit", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--only", nargs="*", choices=("aggregate", "join"), default=("aggregate", "join"))
    arguments = parser.parse_args()
    home = HOME / "views"
    shutil.rmtree(home, ignore_errors=True)
    if "aggregate" in arguments.only:
        _aggregate(home / "aggregate", arguments)
    if "join" in arguments.only:
        _join(home / "join", arguments)


# --- aggregate -------------------------------------------------------------------------------------------------------


def _aggregate(home: Path, arguments: argparse.Namespace) -> None:
    random = np.random.default_rng(1)
    groups, values = random.integers(0, arguments.groups, arguments.rows), random.integers(0, 1000, arguments.rows)
    rows = list(zip(groups.tolist(), values.tolist(), strict=True))
    few = len(rows) // _SMALLER
    _write(home / "rows", (f'{{"g":{g},"v":{v}}}\n' for g, v in rows), _PART)
    _write(home / "few", (f'{{"g":{g},"v":{v}}}\n' for g, v in rows[:few]), _PART)
    limit = "1"
    sides: dict[str, Callable[[Path, Path], Cost]] = {
        "sinkql": lambda source, work: run_sinkql(_AGGREGATE.format(source=source, cores=arguments.cores), work),
        "spark, state alone": lambda source, work: run_spark(
            "sums", source, work, limit=int(limit), cores=arguments.cores
        ),
        "spark, merge into": lambda source, work: run_spark(
            "merged-sums", source, work, limit=int(limit), cores=arguments.cores
        ),
    }
    costs: dict[str, list[tuple[Cost, Cost]]] = {name: [] for name in sides}
    wanted = len(set(groups.tolist())), len(rows), int(values.sum())
    for run, (name, side) in itertools.product(range(arguments.runs), sides.items()):
        work = home / name.replace(", ", "-").replace(" ", "-")
        warm = side(home / "few", work)
        shutil.rmtree(work)
        costs[name].append((warm, side(home / "rows", work)))
        if name != "spark, state alone":
            _check(read_back(work / "lake/n/t", ("n", "total")), wanted)
        shutil.rmtree(work)
        _tell(run, name, costs[name][-1], len(rows) - few)
    _show(f"aggregate, {arguments.groups:,} groups", costs, len(rows) - few)
    _compare(costs, "spark, state alone", len(rows) - few, asked=4)
    _compare(costs, "spark, merge into", len(rows) - few, asked=None)


# --- join ------------------------------------------------------------------------------------------------------------


def _join(home: Path, arguments: argparse.Namespace) -> None:
    random = np.random.default_rng(2)
    orders = (f'{{"id":{i},"customer":{i * 7 % 100_000},"note":"order {i}"}}\n' for i in range(arguments.base))
    _write(home / "orders", orders, max(_PART, arguments.base // 4))
    of = random.integers(0, arguments.base, arguments.changes).tolist()
    _write(home / "few", _payments(of[:_FEW]), _FEW)
    _write(home / "payments", _payments(of), arguments.commit)
    wanted = len(of), sum(range(len(of))), sum(i % 1000 for i in range(len(of)))
    costs: dict[str, list[tuple[Cost, Cost]]] = {"sinkql": [], "flink": []}
    for run, name in itertools.product(range(arguments.runs), costs):
        work = home / name
        side = _sinkql_join if name == "sinkql" else _flink_join
        costs[name].append(side(home, work, arguments))
        _check(read_back(work / "lake/n/t", ("id", "amount")), wanted)
        shutil.rmtree(work)
        _tell(run, name, costs[name][-1], arguments.changes - _FEW)
    title = f"join with {arguments.base:,} rows, commits of {arguments.commit:,}"
    _show(title, costs, arguments.changes - _FEW)
    _compare(costs, "flink", arguments.changes - _FEW, asked=5)


def _sinkql_join(home: Path, work: Path, arguments: argparse.Namespace) -> tuple[Cost, Cost]:
    """Load the orders; return the cost of a run with few payments and of a run with the rest."""
    shutil.rmtree(work, ignore_errors=True)
    payments = work / "payments"
    payments.mkdir(parents=True)
    script = _JOIN.format(orders=home / "orders", payments=payments, cores=arguments.cores)
    run_sinkql(script, work)
    shutil.copy(next((home / "few").iterdir()), payments / "few.json")
    warm = run_sinkql(script, work)
    for each in sorted((home / "payments").iterdir()):
        shutil.copy(each, payments)
    # `few` holds the same payments as the first file; they must not be read twice
    first = min(payments.glob("part-*"))
    first.write_text("".join(first.read_text().splitlines(keepends=True)[_FEW:]))
    return warm, run_sinkql(script, work)


def _flink_join(home: Path, work: Path, arguments: argparse.Namespace) -> tuple[Cost, Cost]:
    """Return the cost of all orders with few and with all payments, since a run cannot resume."""
    found = []
    for payments in ("few", "payments"):
        shutil.rmtree(work, ignore_errors=True)
        sql = _FLINK_TABLE.format(
            name="orders", columns="id BIGINT, customer BIGINT, note STRING", path=home / "orders"
        )
        sql += _FLINK_TABLE.format(
            name="payments", columns="id BIGINT, order_id BIGINT, amount BIGINT", path=home / payments
        )
        found.append(run_flink_files(sql + _FLINK_JOIN, work, arguments.cores))
    return found[0], found[1]


def _payments(of: Sequence[int]) -> Iterator[str]:
    return (f'{{"id":{i},"order_id":{order},"amount":{i % 1000}}}\n' for i, order in enumerate(of))


# --- both ------------------------------------------------------------------------------------------------------------


def _write(folder: Path, lines: Iterator[str], rows: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in itertools.count():
        part = list(itertools.islice(lines, rows))
        if not part:
            return
        (folder / f"part-{number:04}.json").write_text("".join(part))


def _check(found: object, wanted: object) -> None:
    assert found == wanted, f"the table has {found}, expected {wanted}"


def _tell(run: int, name: str, cost: tuple[Cost, Cost], rows: int) -> None:
    warm, all_ = cost
    print(f"run {run + 1}, {name}: {rows / (all_.cpu_s - warm.cpu_s):,.0f} rows/CPU-s", flush=True)


def _compare(costs: dict[str, list[tuple[Cost, Cost]]], other: str, rows: int, *, asked: int | None) -> None:
    mine, theirs = (_rate(costs[name], rows) for name in ("sinkql", other))
    wanted = f"; goal: at least {asked}" if asked else ""
    print(f"sinkql is {mine / theirs:.1f} times as fast as {other}{wanted}", flush=True)
    report(f"views beside {other}", mine, theirs)


def _rate(pairs: list[tuple[Cost, Cost]], rows: int) -> float:
    return median([rows / (all_.cpu_s - warm.cpu_s) for warm, all_ in pairs])


def _show(title: str, costs: dict[str, list[tuple[Cost, Cost]]], rows: int) -> None:
    table = [(title, "rows/CPU-s", "rows/s", "without them, CPU-s", "peak MB")]
    for name, pairs in costs.items():
        table.append(
            (
                name,
                f"{_rate(pairs, rows):,.0f}",
                f"{median([rows / (all_.wall_s - warm.wall_s) for warm, all_ in pairs]):,.0f}",
                f"{median([warm.cpu_s for warm, _ in pairs]):.1f}",
                f"{median([all_.peak_mb for _, all_ in pairs]):,.0f}",
            )
        )
    show(table)


if __name__ == "__main__":
    main()
