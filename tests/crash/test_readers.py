"""After hundreds of commits of updates and deletes to an upsert table, all readers agree and no file is orphaned.

The sink compacts and expires as usual, within its maintenance budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from crash import verify
from sinkql import compile as compile_sql
from sinkql.connector_api.registry import discover
from sinkql.connector_api.stream import Limit, Offsets, ReadCounts, Reader, Split
from sinkql.connectors.iceberg.commit.checkpoint import ancestry
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.local.engine import LocalEngine
from support.readers import Rows, duckdb_folder, other_rows, polars_rows, pyiceberg_rows, sorted_rows, spark_rows
from support.running import MemoryControl, contexts

pytestmark = [pytest.mark.soak, pytest.mark.spark]

COMMITS = 600
_KEYS, _CHANGES = 5_000, 250
_LOOK_EVERY = 150
_COLUMNS = ("k", "v", "part")
_SCRIPT = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///{folder}/lake.db',
  WAREHOUSE = '{folder}/lake');
CREATE TABLE events (k bigint NOT NULL, v bigint, part text, PRIMARY KEY (k));
CREATE SINK s FROM events INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  KEY (k) MODE UPSERT {parts} WITH (COMMIT INTERVAL = '1s', RETAIN SNAPSHOTS = 10, FORMAT VERSION = {version});
"""


@dataclass
class Churn(Reader):
    """A source that first emits all keys, then random changes: 95 of 100 update a row, 5 delete or reinsert one."""

    model: dict[int, tuple[int, str]] = field(default_factory=dict)

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
        some = np.random.default_rng(batch).choice(_KEYS, _CHANGES, replace=False)
        keys = [int(key) for key in (some if batch else range(_KEYS))]
        gone = [(key, *self.model.pop(key)) for key in keys if key in self.model]
        come = keys[_CHANGES // 20 :] if batch else keys
        self.model |= {key: (key * 7919 + batch, f"part {(key + batch) % 2}") for key in come}
        read_counts.rows += len(gone) + len(come)
        for rows, diff in ((gone, -1), ([(key, *self.model[key]) for key in come], 1)):
            columns = list(zip(*rows, strict=True)) or [()] * len(_COLUMNS)
            types = (pa.int64(), pa.int64(), pa.string())
            arrays = [pa.array(values, type_) for values, type_ in zip(columns, types, strict=True)]
            yield pa.record_batch([*arrays, pa.array([diff] * len(rows), pa.int64())], names=[*_COLUMNS, "$diff"])

    def rows(self) -> Rows:
        """Return the source's current rows."""
        return sorted_rows([(key, *row) for key, row in self.model.items()])


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("parts", ["", "PARTITION BY (part)"], ids=["whole", "parts"])
def test_all_readers_find_the_same_after_hundreds_of_commits(
    tmp_path: Path, spark: SparkSession, parts: str, version: int
) -> None:
    job = compile_sql(_SCRIPT.format(folder=tmp_path, parts=parts, version=version)).jobs[0]
    context, registry, churn, control = contexts(tmp_path, job), discover(), Churn(), MemoryControl()
    (source,) = (read.source for read in job.reads())
    writer = registry.writer(job.write, context)
    loop = BatchLoop(job, {source: churn}, writer, LocalEngine(2), context.folder, control)
    loop.start(epoch=1)
    for number in range(1, COMMITS + 1):
        start = loop.checkpoint.end
        loop.commit_batch(start, {source: churn.latest(start[source], Limit(1))})
        if number % _LOOK_EVERY == 0:
            _check(tmp_path, churn.rows(), spark)
    assert len(control.compactions) > 5
    assert not [each.problem for each in control.compactions if each.problem]
    assert len(list(ancestry(verify.load(tmp_path)))) < COMMITS // 10
    while not loop.maintenance.optimize(lambda: True)[1]:
        pass
    _check(tmp_path, churn.rows(), spark)
    verify.check_files(tmp_path)


def _check(folder: Path, expected: Rows, spark: SparkSession) -> None:
    table = verify.load(folder)
    assert duckdb_folder(table.location(), ", ".join(_COLUMNS)) == expected
    assert pyiceberg_rows(table, _COLUMNS) == expected
    assert polars_rows(table, _COLUMNS) == expected
    assert spark_rows(spark, table) == expected
    others = other_rows(table)
    assert others == dict.fromkeys(others, expected)
