"""Compare the CPU of an aggregate in this process with expressions over Arrow columns, and with rows one by one.

The job counts rows and sums a bigint, which is cast to numeric, for many groups, below a filter. Rows come from memory
and go nowhere. Both ways run in turn; the least of each counts. `--groups` sets the number of groups.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.figure import report
from sinkql import physical
from sinkql.connector_api.stream import Limit, Offsets, ReadCounts, Reader, Split
from sinkql.program import compile_text
from sinkql.runtime.batch.engine import Batch
from sinkql.runtime.batch.state import Discard
from sinkql.runtime.local.engine import LocalEngine
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import Arrangements
from sinkql.state_store.directory import StateDirectory

_SCRIPT = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:////nowhere', WAREHOUSE = '/nowhere');
CREATE SOURCE s (k bigint, n bigint) FROM FILES (PATH = '/nowhere') FORMAT JSON;
CREATE MATERIALIZED VIEW v AS
  SELECT k, count(*) AS rows, sum(n) AS total, max(n) AS most FROM s WHERE n >= 0 GROUP BY k;
CREATE SINK w FROM v INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  KEY (k) NOT ENFORCED MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""
_BATCH_ROWS = 1 << 15


@dataclass(frozen=True)
class Memory(Reader):
    """A reader of rows in memory."""

    rows: pa.Table

    def initial(self, *, at_end: bool) -> Offsets:
        return {}

    def target(self, start: Offsets) -> Offsets:
        return {}

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        return {}

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        return [{}]

    def read(self, split: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        read_counts.rows += len(self.rows)
        yield from self.rows.to_batches(max_chunksize=_BATCH_ROWS)


def main() -> None:
    """Measure both ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--groups", type=int, default=500_000)
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    job = compile_text(_SCRIPT, facts={}).jobs[0]
    numbers = np.arange(given.rows)
    rows = pa.table({"k": pa.array(numbers % given.groups), "n": pa.array(numbers * 7)})
    ways: dict[str, Callable[[], AbstractContextManager[Any]]] = {"columns": nullcontext, "one by one": _one_by_one}
    least = dict.fromkeys(ways, float("inf"))
    for _ in range(given.times):
        for name, way in ways.items():
            with way():
                least[name] = min(least[name], _measured(job, rows))
    for name, seconds in least.items():
        print(f"{name:12} {seconds / given.rows * 1e9:8.0f} ns a row, {seconds:6.2f} CPU-s")
    print(f"ratio        {least['one by one'] / least['columns']:8.1f}")
    report("in_process", *(seconds / given.rows * 1e9 for seconds in least.values()))


def _one_by_one() -> AbstractContextManager[Any]:
    return patch("sinkql.runtime.local.map.arrow_form", lambda expression: None)


def _measured(job: physical.Job, rows: pa.Table) -> float:
    """Return the CPU seconds of one batch."""
    engine = LocalEngine(2)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        empty = state.empty(bucketing=engine.bucketing, buckets=engine.buckets)
        task = Discard(uuid.uuid4().hex, engine.buckets, job.write.key)
        arrangements = Arrangements(StateDirectory(folder), empty, 1, task.commit)
        (read,) = job.reads()
        batch = Batch(task, {read.source: [{}]}, {read.source: Memory(rows)}, arrangements)
        start = time.process_time()
        outcome = engine.execute(job, batch)
        seconds = time.process_time() - start
    assert sum(result.rows for result in outcome.results) == len(pc.unique(rows.column("k")))
    return seconds


if __name__ == "__main__":
    main()
