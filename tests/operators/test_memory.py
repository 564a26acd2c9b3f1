"""An operator's memory grows neither with the rows of a batch nor with its state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from operators.pipeline import overwriting
from sinkql import physical
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import Arrangements, InputEvents
from sinkql.runtime.state.operator import stateful
from sinkql.runtime.state.operator.protocol import StatefulTask, task_of
from sinkql.runtime.state.report import collect
from sinkql.state_store.directory import StateDirectory
from support.arrow_memory import most_of

ROWS = 4096


def _batches(task: StatefulTask, count: int, note: str) -> Iterator[pa.RecordBatch]:
    for number in range(count):
        ids = np.arange(number * ROWS, (number + 1) * ROWS, dtype=np.int32)
        hashes = (ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)
        columns = {
            "$h1": hashes, "$h2": hashes, "$k0": ids, "$k1": [f"{note} {id_} {'and some more ' * 7}" for id_ in ids],
            "$diff": np.ones(ROWS, np.int64), "$seq": ids.astype(np.int64),
        }  # fmt: skip
        schema = task.operator.preparation.delivered()
        yield pa.record_batch([pa.array(columns[each.name], each.type) for each in schema], schema=schema)


def test_many_rows_take_no_more_than_a_quarter_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "sinkql.storage.spill.MOST",
        "sinkql.storage.spill.PART",
        "sinkql.runtime.state.arrangement._MERGED_AT_ONCE",
    ):
        monkeypatch.setattr(name, 1 << 16)
    normalize = physical.Normalize(overwriting("e", "k", k="integer", t="text"), "rows", ("k",))
    found = {}
    for count in (2, 8):
        manifest, folder = state.empty(bucketing="test", buckets=1), tmp_path / str(count)
        most = []
        for batch in range(3):  # the last batch merges runs
            held = Arrangements(StateDirectory(folder), manifest, 1, f"c{batch}")
            task = task_of(stateful(normalize), held, InputEvents())
            told, words = 0, list[object]()

            def work(
                task: StatefulTask = task, count: int = count, note: str = f"note {batch}", words: list[object] = words
            ) -> None:
                nonlocal told
                told = sum(len(changes) for changes in task(0, "t1", _batches(task, count, note), words.append))

            most.append(most_of(work))
            assert told == ROWS * count * (1 if batch == 0 else 2)
            manifest = state.next_manifest(manifest, collect(words, {"rows": 1}).runs)
        assert max(run["merges"] for run in manifest["arrangements"]["rows"]["0"]) > 0
        found[count] = max(most)
    assert found[8] < 1.5 * found[2]
