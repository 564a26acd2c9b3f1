"""The memory of an upsert batch does not grow with its rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.types import LongType, StringType

from sinkql.connector_api.stream import WriteResult
from sinkql.connectors.iceberg.write.upsert_task import UpsertTask
from support.arrow_memory import most_of
from upsert.keyed_sink import Sink, create_table, pyiceberg_rows

ROWS = 4096


def _batches(count: int) -> Iterator[pa.RecordBatch]:
    """Yield batches of keys; every second key appears again in the next batch."""
    for number in range(count):
        ids = np.arange(ROWS) * 7919 % ROWS + number * ROWS // 2
        notes = pa.array([f"{id_} in {number}, {'and some more of it ' * 5}" for id_ in ids])
        places = np.arange(number * ROWS, (number + 1) * ROWS)
        yield pa.record_batch([pa.array(ids), notes, pa.array(places)], names=["id", "note", "$seq"])


def test_a_batch_of_many_rows_takes_no_more_than_one_of_a_quarter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "sinkql.storage.spill.MOST",
        "sinkql.storage.spill.PART",
        "sinkql.connectors.iceberg.file.partitioned_writer.MOST",
    ):
        monkeypatch.setattr(name, 1 << 16)
    found = {}
    for count in (2, 8):
        folder = tmp_path / str(count)
        folder.mkdir()
        sink = Sink(create_table(folder, {"id": LongType(), "note": StringType()}), ("id",), folder / "index")
        sink.buckets = 1
        task = sink.task()
        results: list[WriteResult] = []

        def work(task: UpsertTask = task, results: list[WriteResult] = results, count: int = count) -> None:
            results.append(task(0, "t1", _batches(count)))

        found[count] = most_of(work)
        sink.commit(task, results)
        rows = dict(pyiceberg_rows(sink.table))
        assert len(rows) == ROWS // 2 * (count + 1)
        last = {id_: min(id_ // (ROWS // 2), count - 1) for id_ in rows}
        assert all(note.startswith(f"{id_} in {last[id_]},") for id_, note in rows.items())
    assert found[8] < 1.5 * found[2]
