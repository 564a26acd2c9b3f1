"""The writer of an upsert sink: its index follows the table after any foreign change at any time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sinkql.connector_api.stream import StaleFilesError
from sinkql.connectors.iceberg.key_index.index import Index
from sinkql.connectors.iceberg.key_index.key_hash import key_columns
from sinkql.connectors.iceberg.table.target import TargetTable
from sinkql.errors import SinkqlError
from support.lake import Lake, Sink


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


@pytest.fixture
def sink(lake: Lake) -> Sink:
    sink = Sink(lake, "orders", upsert=True)
    sink.start()
    return sink


def _append(lake: Lake, ids: Sequence[int]) -> None:
    """Append rows as another program would."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    lake.table("orders").append(pa.table({"id": list(ids), "name": ["foreign"] * len(ids)}, schema=schema))


def _index(sink: Sink) -> Index:
    checkpoint = sink.writer.load_checkpoint()
    assert checkpoint is not None
    assert checkpoint.index is not None
    found = Index.load(sink.context.folder / "index", checkpoint.index, key_columns(sink.lake.table("orders"), ("id",)))
    assert found is not None
    return found


def _rows(lake: Lake) -> dict[int, str | None]:
    rows = lake.rows("orders")
    assert len(rows) == len(dict(rows))
    return dict(rows)


def test_foreign_append_right_after_a_commit_is_not_missed(
    lake: Lake, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    post = TargetTable.post

    def crowded(self: TargetTable, *arguments: Any) -> None:
        post(self, *arguments)
        _append(lake, [3])

    with monkeypatch.context() as patch:
        patch.setattr(TargetTable, "post", crowded)
        sink.put((1, "a"), (2, "a"))
    sink.put((3, "b"))
    assert _rows(lake) == {1: "a", 2: "a", 3: "b"}


def test_foreign_append_before_a_claim_is_not_missed(lake: Lake, sink: Sink) -> None:
    sink.put((1, "a"), (2, "a"))
    _append(lake, [3])
    again = Sink(lake, "orders", upsert=True)
    again.start(epoch=2)
    again.put((1, "b"), (3, "b"))
    assert _rows(lake) == {1: "b", 2: "a", 3: "b"}


def test_foreign_append_during_a_batch_redoes_it(lake: Lake, sink: Sink) -> None:
    sink.put((1, "a"))
    attempt = sink.attempt([(1, "b"), (3, "b")])
    _append(lake, [3, 4])
    with pytest.raises(StaleFilesError):
        sink.finish(attempt)
    sink.put((1, "b"), (3, "b"))
    assert _rows(lake) == {1: "b", 3: "b", 4: "foreign"}


def test_foreign_delete_during_a_batch_brings_nothing_back(lake: Lake, sink: Sink) -> None:
    sink.put((1, "a"), (2, "a"), (4, "a"))
    attempt = sink.attempt([(1, "b")])
    lake.table("orders").delete("id = 2")
    with pytest.raises(StaleFilesError):
        sink.finish(attempt)
    sink.put((1, "b"))
    assert _rows(lake) == {1: "b", 4: "a"}


def test_foreign_duplicate_stalls_the_sink(lake: Lake, sink: Sink) -> None:
    sink.put((1, "a"))
    _append(lake, [1])
    with pytest.raises(SinkqlError, match=r"two rows with the key \(id = 1\)"):
        sink.put((2, "b"))


def test_numbers_of_files_begin_again_before_they_run_out(
    lake: Lake, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sinkql.connectors.iceberg.write.table_index.LAST_ID", 14)
    numbers = []
    for batch in range(24):
        sink.put((batch % 4, f"{batch}"), (batch % 5 + 4, f"{batch}"))
        numbers.append(_index(sink).next_file_id)
    assert max(numbers) <= 14 + 2
    assert _rows(lake) == {0: "20", 1: "21", 2: "22", 3: "23", 4: "20", 5: "21", 6: "22", 7: "23", 8: "19"}


def test_start_without_the_state_folder_continues(lake: Lake, sink: Sink, tmp_path: Path) -> None:
    sink.put((1, "a"), (2, "a"))
    sink.put((2, "b"))
    again = Sink(lake, "orders", upsert=True, folder=tmp_path / "elsewhere")
    again.start(epoch=2)
    again.put((1, "c"), (3, "c"))
    assert _rows(lake) == {1: "c", 2: "b", 3: "c"}
