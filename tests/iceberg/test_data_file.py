"""The encoding of a data file."""

from __future__ import annotations

import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sinkql.connectors.iceberg.file.data_file import ROW_GROUP_ROWS, for_tasks, repeating, write_data_file
from support.lake import Lake, Sink

COUNT = 3000
COLUMNS: dict[str, tuple[list[Any], pa.DataType, bool]] = {
    "number": (list(range(COUNT)), pa.int64(), False),
    "few": ([each % 40 for each in range(COUNT)], pa.int32(), True),
    "in a row": ([each // 3 for each in range(COUNT)], pa.int64(), True),
    "some again": ([each % (COUNT * 2 // 3) for each in range(COUNT)], pa.int64(), False),
    "text": ([f"text {each}" for each in range(COUNT)], pa.string(), False),
    "some text": ([f"text {each % 7}" for each in range(COUNT)], pa.string(), True),
    "nothing": ([None] * COUNT, pa.string(), False),
    "mostly nothing": ([each if each % 10 == 0 else None for each in range(COUNT)], pa.int64(), False),
    "decimal": ([Decimal(each % 9) for each in range(COUNT)], pa.decimal128(9, 2), True),
    "uuid": ([uuid.UUID(int=each % 9).bytes for each in range(COUNT)], pa.uuid(), True),
    "list": ([[1, 2]] * COUNT, pa.list_(pa.int64()), False),
    "double": ([each / 7 for each in range(COUNT)], pa.float64(), False),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_dictionary_is_for_what_repeats(name: str) -> None:
    values, type_, repeats = COLUMNS[name]
    storage = type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_
    column = pa.array(values, storage)
    if storage is not type_:
        column = pa.ExtensionArray.from_storage(type_, column)
    assert repeating(pa.table({"a": column})) == (["a"] if repeats else [])


@pytest.mark.parametrize(("distinct", "repeats"), [(1_000, True), (60_000, True), (200_000, False)])
def test_dictionary_is_for_what_repeats_in_a_row_group(distinct: int, repeats: bool) -> None:
    at_random = np.random.default_rng(0).integers(0, distinct, 2 * ROW_GROUP_ROWS)
    in_turn = np.arange(2 * ROW_GROUP_ROWS) % distinct
    assert repeating(pa.table({"a": at_random, "b": in_turn})) == (["a", "b"] if repeats else [])


def test_dictionary_of_long_texts_is_not_begun_that_would_be_full_soon() -> None:
    texts = pa.array([f"{each:0100d}" for each in range(50_000)])
    values = texts.take(pa.array(np.random.default_rng(0).integers(0, len(texts), ROW_GROUP_ROWS)))
    assert repeating(pa.table({"a": values})) == []


def test_data_file_has_a_dictionary_where_values_repeat(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    Sink(lake, "orders").start()
    rows = pa.table({"id": range(ROW_GROUP_ROWS + 10), "name": [f"{each % 5}" for each in range(ROW_GROUP_ROWS + 10)]})
    entry = write_data_file(for_tasks(lake.table("orders")), "a.parquet", rows)
    assert entry is not None
    found = pq.ParquetFile(entry.path.removeprefix("file://"))
    group = found.metadata.row_group(0)
    assert [group.column(place).has_dictionary_page for place in range(2)] == [False, True]
    assert found.read().to_pydict() == rows.to_pydict()
