"""Reading a table that an upsert sink keeps changing, against a fresh copy of its rows, and what maintenance takes.

    python -m bench.churn [--commits 600] [--keys 200000] [--rows 2000] [--every 50] [--share PERCENT]

Without Spark, as `bench.growth`. The first commit brings all keys, each other one changes `rows` of them at random.
Every so many commits: CPU of a full scan and of a point look-up in DuckDB, of the table and of a copy that PyIceberg
writes into a new table, how many files there are, and the share of maintenance in the CPU of the commits. Commits
follow each other at once, so that MAINTENANCE SHARE is what bounds compaction; `--share` sets another one.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyiceberg.catalog import load_catalog

from bench.commits import _metered, _table
from bench.common import HOME, ROOT
from bench.growth import Numbers, _connection, _open, _stepper
from sinkql.extension.stream import Split, Tally

_READS = 7
_QUERIES = {"scan": "SELECT count(*), sum(k), sum(v) FROM {}", "look-up": "SELECT v FROM {} WHERE k = 4711"}


@dataclass(frozen=True)
class Churn(Numbers):
    """Give all keys in the first batch, then `rows` of them at random."""

    def read(self, split: Split, tally: Tally) -> Iterator[pa.RecordBatch]:
        batch = split["batch"]
        assert self.keys is not None
        some = np.random.default_rng(batch).choice(self.keys, self.rows, replace=False)
        keys = np.arange(self.keys) if batch == 0 else some
        tally.rows += len(keys)
        yield pa.record_batch([pa.array(keys), pa.array(keys * 7919 % 1_000_003 + batch)], names=["k", "v"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=600)
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--every", type=int, default=50)
    parser.add_argument("--share", type=float)
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    folder = HOME / "churn"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "in").mkdir(parents=True)
    loop = _open(folder, "upsert", Churn(arguments.rows, arguments.keys))
    if arguments.share is not None:
        loop.allowance.share = arguments.share / 100
    spent = _metered(loop)
    loop.start(epoch=1)
    step = _stepper(loop)
    step()
    loaded, cpu = spent[0], 0.0
    for number in range(1, arguments.commits + 1):
        began = time.process_time()
        step()
        cpu += time.process_time() - began
        if number % arguments.every == 0:
            share = (spent[0] - loaded) / cpu
            print(
                f"{number}: {cpu / number * 1000:.0f} ms a commit, maintenance {share:.2f}; {_look(folder)}", flush=True
            )
    loop.optimize(lambda: True)
    print(f"after OPTIMIZE SINK: {_look(folder)}")


def _look(folder: Path) -> str:
    table = _table(folder)
    head = table.current_snapshot()
    assert head is not None
    summary = head.summary
    assert summary is not None
    here, copy = f"iceberg_scan('{folder}/lake/n/t')", f"iceberg_scan('{_copy(folder)}')"
    said = []
    for what, query in {
        "scan": "SELECT count(*), sum(k), sum(v) FROM {}",
        "look-up": "SELECT v FROM {} WHERE k = 4711",
    }.items():
        ms, fresh = _cpu_ms(query.format(here)), _cpu_ms(query.format(copy))
        said.append(f"{what} {ms:.0f} ms, {ms / fresh:.2f} times a fresh copy")
    files = f"{summary['total-data-files']} files, {summary['total-delete-files']} of deletes"
    return "; ".join([*said, files])


def _copy(folder: Path) -> Path:
    home = folder / "copy"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    catalog = load_catalog("copy", type="sql", uri=f"sqlite:///{home}/lake.db", warehouse=f"file://{home}/lake")
    catalog.create_namespace("n")
    rows = _table(folder).scan().to_arrow()
    catalog.create_table("n.t", rows.schema).append(rows)
    return Path(catalog.load_table("n.t").metadata_location.removeprefix("file://"))


def _cpu_ms(sql: str) -> float:
    found = []
    for _ in range(_READS):
        connection = _connection()
        began = time.process_time()
        connection.execute(sql).fetchall()
        found.append(time.process_time() - began)
    return statistics.median(found) * 1000


if __name__ == "__main__":
    main()
