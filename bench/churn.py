"""Measure reading a table that an upsert sink keeps changing, against a fresh copy, and the cost of maintenance.

    python -m bench.churn [--commits 600] [--keys 1000000] [--rows 400] [--every 50] [--columns 8] [--share PERCENT]
                          [--newest PERCENT] [--interval 1] [--version 3]

Runs the batches in this process, without Spark, so that only the sink is measured. The first commit writes all keys.
Each later commit changes `rows` of them, anywhere in the table or among the newest `--newest` percent of the keys. Of
100 changed keys, 5 are deleted and 95 get a new value, which inserts a deleted key again. Rows have 2, 8 or 16 columns:
about 16, 120 and 250 bytes.

After every `--every` commits, prints the CPU of a full scan of all columns and of a point look-up in DuckDB, and their
ratio to a copy that PyIceberg writes into a new table. It also prints the share of maintenance in the CPU, and the
numbers of data files, delete files, deleted positions and manifests. At the end, prints the median and the largest
ratios, and the same figures after OPTIMIZE SINK.

Commits follow each other without a pause, but the maintenance budget counts `interval` seconds for each. `--share` sets
MAINTENANCE SHARE, and `--version` the format version of the table.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.catalog import load_catalog

from bench.commits import _metered, _table
from bench.common import HOME, ROOT
from bench.growth import _connection, _stepper, open_loop
from sinkql import physical
from sinkql.connector_api.stream import Limit, Offsets, ReadCounts, Reader, Split
from sinkql.runtime.batch.engine import Batch, Outcome
from sinkql.runtime.batch.loop import BatchLoop

_SCRIPT = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///{folder}/lake.db',
  WAREHOUSE = '{folder}/lake');
CREATE TABLE events ({columns}, PRIMARY KEY (k));
CREATE SINK s FROM events INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't') KEY (k) MODE UPSERT
  WITH (COMMIT INTERVAL = '1s', FORMAT VERSION = {version});
"""
_COLUMNS = {
    "k": "bigint NOT NULL",
    "v": "bigint",
    "customer": "bigint",
    "amount": "double precision",
    "status": "text",
    "country": "text",
    "email": "text",
    "note": "text",
    "product": "bigint",
    "quantity": "integer",
    "price": "double precision",
    "discount": "double precision",
    "city": "text",
    "street": "text",
    "phone": "text",
    "agent": "text",
}
_READS = 7
Values = npt.NDArray[np.int64]


@dataclass
class Churn(Reader):
    """A source whose first batch has all keys, and whose later batches change `rows` random keys."""

    rows: int
    keys: int
    columns: int = 2
    newest: int = 100
    _values: Values = field(init=False)

    def __post_init__(self) -> None:
        self._values = np.full(self.keys, -1)

    def initial(self, *, at_end: bool) -> Offsets:
        return {"batch": 0}

    def target(self, start: Offsets) -> Offsets:
        raise NotImplementedError

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        return {"batch": start["batch"] + 1}

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        return [{"batch": number} for number in range(start["batch"], end["batch"])]

    def read(self, split: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        batch = split["batch"]
        some = (
            self.keys
            - 1
            - np.random.default_rng(batch).choice(self.keys * self.newest // 100, self.rows, replace=False)
        )
        keys = np.arange(self.keys) if batch == 0 else some
        old, new = self._values[keys], keys * 7919 % 1_000_003 + batch
        if batch:
            new[: self.rows // 20] = -1
        self._values[keys] = new
        read_counts.rows += len(keys)
        for values, diff in ((old, -1), (new, 1)):
            there = values >= 0
            yield self._batch(keys[there], values[there], diff)

    def _batch(self, keys: Values, values: Values, diff: int) -> pa.RecordBatch:
        numbers = keys * 2_654_435_761 + values
        made: dict[str, Callable[[], Any]] = {
            "k": lambda: keys,
            "v": lambda: values,
            "customer": lambda: values % 5_003,
            "amount": lambda: (values % 99_991) / 100,
            "status": lambda: [("new", "paid", "sent", "done")[each % 4] for each in numbers.tolist()],
            "country": lambda: [f"country {each % 40}" for each in numbers.tolist()],
            "email": lambda: [f"customer{each % 50_021}@example.org" for each in numbers.tolist()],
            "note": lambda: [f"{each:020d} {each % 9_973:x} please leave at the door" for each in numbers.tolist()],
            "product": lambda: numbers % 20_011,
            "quantity": lambda: (numbers % 12).astype(np.int32),
            "price": lambda: (numbers % 49_999) / 100,
            "discount": lambda: (values % 21) / 20,
            "city": lambda: [f"city {each % 1_201}" for each in numbers.tolist()],
            "street": lambda: [f"{each % 211} street of {each % 99_989}" for each in numbers.tolist()],
            "phone": lambda: [f"+{each % 10**11:011d}" for each in numbers.tolist()],
            "agent": lambda: [f"agent {each % 307}" for each in numbers.tolist()],
        }
        types = columns_of(self.columns).items()
        columns = {name: pa.array(made[name](), pa.string() if type_ == "text" else None) for name, type_ in types}
        return pa.record_batch({**columns, "$diff": pa.array(np.full(len(keys), diff))})


class Direct:
    """An `Engine` that passes rows to the sink's tasks in this process, and does nothing else."""

    bucketing, buckets = "bench", 2

    def execute(self, job: physical.Job, batch: Batch) -> Outcome:
        """Run the batch."""
        (source,) = batch.readers
        read_counts = ReadCounts()
        rows = pa.Table.from_batches(
            [each for split in batch.splits[source] for each in batch.readers[source].read(split, read_counts)]
        )
        bucket = rows.column("k").to_numpy() % self.buckets
        results = [
            batch.task(number, uuid.uuid4().hex, iter(rows.filter(pa.array(bucket == number)).to_batches()))
            for number in range(self.buckets)
        ]
        return Outcome(results, {source: read_counts})


@dataclass(slots=True)
class Look:
    """A measurement of the table in DuckDB: the ratios of a scan and a look-up to a fresh copy, and a text."""

    scan: float
    look_up: float
    said: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=600)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--every", type=int, default=50)
    parser.add_argument("--columns", type=int, choices=[2, 8, 16], default=8)
    parser.add_argument("--newest", type=int, default=100)
    parser.add_argument("--share", type=float)
    parser.add_argument("--version", type=int, default=2)
    parser.add_argument("--interval", type=float, default=1.0)
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    folder = HOME / "churn"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "in").mkdir(parents=True)
    columns = columns_of(arguments.columns)
    many = arguments.rows, arguments.keys, arguments.columns
    loop = open_churn(folder, *many, version=arguments.version, newest=arguments.newest)
    if arguments.share is not None:
        loop.maintenance.budget.share = arguments.share / 100
    idle = [0.0]
    loop.maintenance.budget.clock = lambda: time.monotonic() + idle[0]
    maintenance = loop.writer.maintenance
    assert maintenance is not None
    spent = _metered(maintenance, "maintain")
    loop.start(epoch=1)
    step = _stepper(loop)
    step()
    loaded, cpu, looks = spent[0], 0.0, []
    for number in range(1, arguments.commits + 1):
        idle[0] += arguments.interval
        began = time.process_time()
        step()
        cpu += time.process_time() - began
        if number % arguments.every == 0:
            looks.append(look(folder, columns))
            share = (spent[0] - loaded) / cpu
            each = cpu / number * 1000
            print(f"{number}: {each:.0f} ms a commit, maintenance {share:.2f}; {looks[-1].said}", flush=True)
    print_looks(looks)
    loop.maintenance.optimize(lambda: True)
    print(f"after OPTIMIZE SINK: {look(folder, columns).said}")


def columns_of(many: int) -> dict[str, str]:
    """Return the types of the first `many` columns."""
    return dict(islice(_COLUMNS.items(), many))


def sums_of(columns: Mapping[str, str]) -> str:
    """Return SQL that reads each value of the columns."""
    return ", ".join(f"sum({'strlen(' + name + ')' if type_ == 'text' else name})" for name, type_ in columns.items())


def open_churn(folder: Path, rows: int, keys: int, columns: int, *, version: int = 2, newest: int = 100) -> BatchLoop:
    """Return the measured sink, with its table below an empty folder."""
    declared = ", ".join(f"{name} {type_}" for name, type_ in columns_of(columns).items())
    script = _SCRIPT.format(folder=folder, columns=declared, version=version)
    return open_loop(folder, script, "upsert", Churn(rows, keys, columns, newest), Direct())


def print_looks(looks: Sequence[Look]) -> None:
    """Print the median and the largest ratios of scans and look-ups."""
    for what, found in {"scan": [each.scan for each in looks], "look-up": [each.look_up for each in looks]}.items():
        print(f"{what}: {statistics.median(found):.2f} times a fresh copy in the median, at most {max(found):.2f}")


def look(folder: Path, columns: dict[str, str]) -> Look:
    """Measure a scan and a look-up of the table n.t below a folder, and of a copy of its rows."""
    copy = _copy(folder)
    queries = {"scan": f"SELECT count(*), {sums_of(columns)} FROM {{}}", "look-up": "SELECT * FROM {} WHERE k = 4711"}
    said, ratios = [], []
    for what, query in queries.items():
        ms, fresh_ms = _cpu_ms(query, f"iceberg_scan('{folder}/lake/n/t')", f"iceberg_scan('{copy}')")
        ratios.append(ms / fresh_ms)
        said.append(f"{what} {ms:.0f} ms, {ms / fresh_ms:.2f} times a fresh copy")
    table = _table(folder)
    head = table.current_snapshot()
    assert head is not None
    assert head.summary is not None
    many = {name: head.summary[f"total-{name}"] for name in ("data-files", "delete-files", "position-deletes")}
    said.append(", ".join(f"{number} {name}" for name, number in many.items()))
    said.append(f"{len(head.manifests(table.io))} manifests")
    scan, look_up = ratios
    return Look(scan, look_up, "; ".join(said))


def _copy(folder: Path) -> Path:
    home = folder / "copy"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    catalog = load_catalog("copy", type="sql", uri=f"sqlite:///{home}/lake.db", warehouse=f"file://{home}/lake")
    catalog.create_namespace("n")
    rows = _table(folder).scan().to_arrow()
    catalog.create_table("n.t", rows.schema).append(rows)
    return Path(catalog.load_table("n.t").metadata_location.removeprefix("file://"))


def _cpu_ms(query: str, *scans: str) -> list[float]:
    """Return the median CPU milliseconds of a query over each of the scans, which take turns."""
    found: list[list[float]] = [[] for _ in scans]
    for _ in range(_READS):
        for scan, seconds in zip(scans, found, strict=True):
            seconds.append(_cpu(_connection(), query.format(scan)))
    return [statistics.median(seconds) * 1000 for seconds in found]


def _cpu(connection: duckdb.DuckDBPyConnection, sql: str) -> float:
    began = time.process_time()
    connection.execute(sql).fetchall()
    return time.process_time() - began


if __name__ == "__main__":
    main()
