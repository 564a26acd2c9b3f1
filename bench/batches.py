"""Measure the CPU of a view's batch in Spark, over all processes: TPC-H's q3 and q8, five sinks, a hot key, a restart.

    python -m bench.batches [--only q3 q8 sinks hot restart] [--runs 3] [--cores 2] [--orders 150000]

Each measurement runs a few batches and then many. The cost of a batch is the difference in CPU, divided by the
difference in batches. The base rows are loaded in a separate run.

* q3, q8: 250 orders and 750 lines a batch, over `--orders` orders and four times as many lines.
* sinks: a view that aggregates joined rows, 100,000 a batch, read by one sink and by five. Each sink commits once a
  run, after all batches of the view. A sink that commits with each batch costs more.
* hot: 100,000 rows a batch, nine in ten of them with one key, joined with a relation of 1,000 rows, with and without
  REPLICATE. Also prints the seconds of a batch and the state of the fullest bucket.
* restart: a start with a state of five million rows, and a start with an empty state.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench.common import HOME, median, run_sinkql, show
from bench.meter import Cost
from bench.tpch import TABLES, Orders, query

_START = """
CREATE CLUSTER bench (SIZE = 'local[{cores}]');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
"""
_SOURCE = "CREATE SOURCE {name} ({columns}) FROM FILES (PATH = '{name}', MAX FILES PER COMMIT = 1) FORMAT JSON;\n"
_SINK = """CREATE SINK {name} IN CLUSTER bench FROM {of} INTO ICEBERG CATALOG CONNECTION lake
  (NAMESPACE = 'n', TABLE = '{name}') {how} WITH (COMMIT INTERVAL = '1s');
"""
_FEW, _MANY = 3, 15
_ASKED = {"q3": 0.6, "q8": 1.3}
Parts = Mapping[str, list[str]]
"""The lines of a file, by source."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--orders", type=int, default=150_000)
    every = ("q3", "q8", "sinks", "hot", "restart")
    parser.add_argument("--only", nargs="*", choices=every, default=every)
    given = parser.parse_args()
    home = HOME / "batches"
    shutil.rmtree(home, ignore_errors=True)
    for name in given.only:
        _CASES[name](home / name, given)


@dataclass(slots=True)
class Pipeline:
    """A pipeline over folders of JSON lines, one for each source. Each batch reads one file of each folder."""

    folder: Path
    sql: str
    made: int = 0
    costs: list[tuple[Cost, Cost]] = field(default_factory=list)

    def come(self, batches: Iterator[Parts], count: int) -> Cost:
        """Write the files of `count` batches, run the pipeline on them, and return the cost of the run."""
        for parts in itertools.islice(batches, count):
            self.made += 1
            for source, lines in parts.items():
                (self.folder / source).mkdir(parents=True, exist_ok=True)
                (self.folder / source / f"part-{self.made:05}.json").write_text("".join(lines))
        return run_sinkql(self.sql, self.folder)

    def measure(self, batches: Iterator[Parts]) -> None:
        """Run a few batches, then many, and store both costs."""
        self.costs.append((self.come(batches, _FEW), self.come(batches, _MANY)))

    @property
    def cpu_s(self) -> float:
        """Return the CPU seconds of a batch."""
        return median([(many.cpu_s - few.cpu_s) / (_MANY - _FEW) for few, many in self.costs])

    @property
    def wall_s(self) -> float:
        """Return the wall seconds of a batch."""
        return median([(many.wall_s - few.wall_s) / (_MANY - _FEW) for few, many in self.costs])

    @property
    def peak_mb(self) -> float:
        """Return the peak memory."""
        return median([many.peak_mb for _, many in self.costs])

    def fullest(self) -> float:
        """Return the size of the fullest bucket's state, in MB."""
        found: dict[Path, int] = {}
        for path in self.folder.rglob("state/*/b*/*.arrow"):
            found[path.parent] = found.get(path.parent, 0) + path.stat().st_size
        return max(found.values()) / 1e6


# --- TPC-H -----------------------------------------------------------------------------------------------------------

_USED = {"q3": ("customer", "orders", "lineitem"), "q8": tuple(TABLES)}
_KEYS = {"q3": "l_orderkey", "q8": "o_year"}


def _tpch(name: str) -> Callable[[Path, argparse.Namespace], None]:
    def measure(home: Path, given: argparse.Namespace) -> None:
        sources = "".join(_SOURCE.format(name=each, columns=TABLES[each]) for each in _USED[name])
        view = f"CREATE MATERIALIZED VIEW v AS {query(name)};\n"
        sink = _SINK.format(name="t", of="v", how=f"KEY ({_KEYS[name]}) NOT ENFORCED MODE UPSERT")
        pipeline = Pipeline(home, _START.format(cores=given.cores) + sources + view + sink)
        rows = Orders(given.orders)
        kept = set(_USED[name])
        pipeline.come(iter([{key: each for key, each in rows.base().items() if key in kept}]), 1)
        batches = ({key: each for key, each in rows.some(250).items() if key in kept} for _ in itertools.count())
        for _ in range(given.runs):
            pipeline.measure(batches)
        each = ", ".join(f"{(many.cpu_s - few.cpu_s) / (_MANY - _FEW):.2f}" for few, many in pipeline.costs)
        print(
            f"{name}: 1,000 changes in a batch take {pipeline.cpu_s:.2f} CPU-s (runs: {each}); "
            f"goal: at most {_ASKED[name]}",
            flush=True,
        )

    return measure


# --- sinks of one view -----------------------------------------------------------------------------------------------

_JOINED = (
    _SOURCE.format(name="customers", columns="id bigint NOT NULL, country bigint, PRIMARY KEY (id) NOT ENFORCED")
    + _SOURCE.format(name="payments", columns="customer bigint NOT NULL, amount bigint")
    + """CREATE MATERIALIZED VIEW v WITH (COMMIT INTERVAL = '1s') AS
  SELECT c.country, COUNT(*) AS n, SUM(p.amount) AS total, MAX(p.amount) AS most
  FROM payments AS p JOIN customers AS c ON c.id = p.customer GROUP BY c.country;
"""
)


def _sinks(home: Path, given: argparse.Namespace) -> None:
    rows = 100_000
    random = np.random.default_rng(9)

    def batches() -> Iterator[Parts]:
        yield {"customers": [f'{{"id":{i},"country":{i % 200}}}\n' for i in range(100_000)], "payments": []}
        while True:
            customers, amounts = random.integers(0, 100_000, rows).tolist(), random.integers(1, 9_999, rows).tolist()
            pairs = zip(customers, amounts, strict=True)
            yield {"payments": [f'{{"customer":{customer},"amount":{amount}}}\n' for customer, amount in pairs]}

    found = {}
    for count in (1, 5):
        sinks = "".join(
            _SINK.format(name=f"t{number}", of="v", how="KEY (country) MODE UPSERT") for number in range(count)
        )
        pipeline = found[count] = Pipeline(home / str(count), _START.format(cores=given.cores) + _JOINED + sinks)
        coming = batches()
        pipeline.come(coming, 1)
        for _ in range(given.runs):
            pipeline.measure(coming)
        print(f"{count} sinks of a view: {pipeline.cpu_s:.2f} CPU-s a batch of {rows:,} rows", flush=True)
    times = found[5].cpu_s / found[1].cpu_s
    print(f"five sinks take {times:.2f} times the CPU of one; goal: at most 1.3", flush=True)


# --- a hot key -------------------------------------------------------------------------------------------------------


def _hot(home: Path, given: argparse.Namespace) -> None:
    rows = 100_000
    sql = (
        _SOURCE.format(name="plans", columns="id bigint NOT NULL, name text, PRIMARY KEY (id) NOT ENFORCED")
        + _SOURCE.format(name="usage", columns="id bigint NOT NULL, plan bigint, units bigint")
        + """CREATE MATERIALIZED VIEW v {options}AS
  SELECT u.id, u.units, p.name FROM usage AS u JOIN plans AS p ON p.id = u.plan;
"""
        + _SINK.format(name="t", of="v", how="ENVELOPE NONE")
    )

    def batches() -> Iterator[Parts]:
        random, first = np.random.default_rng(10), 0
        yield {"plans": [f'{{"id":{i},"name":"plan {i}"}}\n' for i in range(1_000)], "usage": []}
        while True:
            of = np.where(random.random(rows) < 0.9, 7, random.integers(0, 1_000, rows)).tolist()
            yield {"usage": [f'{{"id":{first + i},"plan":{plan},"units":{i % 97}}}\n' for i, plan in enumerate(of)]}
            first += rows

    table = [(f"batches of {rows:,} rows, nine in ten of one key", "CPU-s", "s", "peak MB", "fullest bucket, MB")]
    for name, options in (("hashed", ""), ("REPLICATE", "WITH (REPLICATE = (plans)) ")):
        start = _START.format(cores=given.cores)
        pipeline = Pipeline(home / name, start + sql.replace("{options}", options))
        coming = batches()
        pipeline.come(coming, 1)
        for _ in range(given.runs):
            pipeline.measure(coming)
        figures = (f"{pipeline.cpu_s:.2f}", f"{pipeline.wall_s:.2f}", f"{pipeline.peak_mb:,.0f}")
        table.append((name, *figures, f"{pipeline.fullest():,.0f}"))
    show(table)


# --- a restart -------------------------------------------------------------------------------------------------------


def _restart(home: Path, given: argparse.Namespace) -> None:
    rows = 5_000_000
    sql = (
        _START.format(cores=given.cores)
        + _SOURCE.format(name="orders", columns="id bigint NOT NULL, customer bigint, note text")
        + _SOURCE.format(name="payments", columns="id bigint NOT NULL, order_id bigint, amount bigint")
        + """CREATE MATERIALIZED VIEW v AS SELECT p.id, p.amount, o.customer, o.note
  FROM payments AS p JOIN orders AS o ON o.id = p.order_id;
"""
        + _SINK.format(name="t", of="v", how="ENVELOPE NONE")
    )

    def payments(number: int) -> Parts:
        return {
            "payments": [f'{{"id":{i},"order_id":{i * 37},"amount":1}}\n' for i in range(number * 99, number * 100)]
        }

    costs = {}
    for name, count in (("empty", 0), ("full", rows)):
        pipeline = Pipeline(home / name, sql)
        parts = (
            {"orders": [f'{{"id":{i},"customer":{i % 9973},"note":"order {i}"}}\n' for i in part.tolist()]}
            for part in np.array_split(np.arange(count), max(1, count // 1_250_000))
        )
        pipeline.come(itertools.chain(parts, [payments(0)]), 5)
        costs[name] = [pipeline.come(iter([payments(number)]), 1).cpu_s for number in range(1, given.runs + 1)]
    full, empty = median(costs["full"]), median(costs["empty"])
    print(f"a start and a batch of 99 rows over the state of {rows:,} rows: {full:.1f} CPU-s, over none: {empty:.1f}")
    print(f"{full - empty:.1f} CPU-s more; goal: at most 5", flush=True)


_CASES: dict[str, Callable[[Path, argparse.Namespace], None]] = {
    "q3": _tpch("q3"), "q8": _tpch("q8"), "sinks": _sinks, "hot": _hot, "restart": _restart,
}  # fmt: skip


if __name__ == "__main__":
    main()
