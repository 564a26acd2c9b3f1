"""SORT BY: rows are sorted within files, through updates and compactions."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table

from sinkql.connectors.iceberg.file.data import Sorting
from sinkql.connectors.iceberg.file.order import sorted_numbers
from sinkql.errors import SinkqlError
from support.eager import compact_eagerly
from support.lake import Lake, Sink

SORT_BY = [
    {"sql": "name DESC NULLS LAST", "column": "name", "descending": True, "nulls_first": False},
    {"sql": "id", "column": "id", "descending": False, "nulls_first": False},
]
PARTS = [{"sql": "bucket(2, id)", "transform": "bucket[2]", "column": "id"}]
VALUES: dict[str, tuple[pa.DataType, list[Any], Callable[[Any], Any]]] = {
    "number": (pa.int64(), [-1, 0, 7], int),
    "flag": (pa.bool_(), [True, False], int),
    "text": (pa.large_string(), ["", "a", "ä", "b", "𝄞"], str.encode),
    "price": (pa.decimal128(38, 2), [Decimal(0), Decimal("-1.25"), Decimal(10)], Decimal),
    "double": (pa.float64(), [0.0, 1.5, -1.5, -math.inf, math.inf, math.nan], lambda value: (value != value, value)),
    "real": (pa.float32(), [0.0, 1.5, -1.5, -math.inf, math.inf, math.nan], lambda value: (value != value, value)),
    "uuid": (pa.uuid(), [b"\x00" * 16, b"\xff" * 16, b"\x7f" * 16], bytes),
}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def check_order(table: Table) -> None:
    """Assert that the rows of each data file are sorted, and that its entry says so."""
    for task in table.scan().plan_files():
        assert task.file.sort_order_id == table.sort_order().order_id == 1
        rows = pq.read_table(task.file.file_path.removeprefix("file://")).to_pylist()
        assert rows == sorted(rows, key=lambda row: (row["name"] is None, *_falling(row["name"]), row["id"]))


def _falling(text: str | None) -> tuple[int, ...]:
    return (*(-each for each in (text or "").encode()), 1)


@pytest.mark.parametrize("upsert", [False, True], ids=["append", "upsert"])
@pytest.mark.parametrize("parts", [[], PARTS], ids=["whole", "parts"])
def test_rows_are_sorted_within_files(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, upsert: bool, parts: list[dict[str, str]]
) -> None:
    compact_eagerly(monkeypatch)
    sink = Sink(lake, "t", upsert=upsert, options={"sort_by": SORT_BY, "partition_by": parts})
    sink.start()
    random_ = random.Random(upsert)
    rows: list[tuple[int, str | None]] = []
    compacted = 0
    for _ in range(6):
        ids = random_.sample(range(60), random_.randrange(5, 40))
        new = [(id_, random_.choice([None, "a", "ab", "b", "ü"])) for id_ in ids]
        sink.put(*new)
        check_order(lake.table("t"))
        compacted += sum(each.problem is None for each in sink.writer.maintain())
        check_order(lake.table("t"))
        rows = [*({**dict(rows), **dict(new)}.items() if upsert else [*rows, *new])]
    assert compacted > 1
    assert sorted(rows, key=repr) == sorted(lake.rows("t"), key=repr)


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
def test_values_are_in_icebergs_order(name: str, descending: bool, nulls_first: bool) -> None:
    type_, known, key = VALUES[name]
    values = random.Random(name).choices([None, *known], k=50)
    storage = pa.array(values, pa.binary(16) if type_ == pa.uuid() else type_)
    column = pa.ExtensionArray.from_storage(type_, storage) if type_ == pa.uuid() else storage
    found = sorted_numbers(pa.table({name: column}), [Sorting(name, descending, nulls_first)]).tolist()
    there = sorted(
        (number for number, value in enumerate(values) if value is not None),
        key=lambda number: key(values[number]),
        reverse=descending,
    )
    null = [number for number, value in enumerate(values) if value is None]
    expected = null + there if nulls_first else there + null
    assert [repr(values[each]) for each in expected] == [repr(values[each]) for each in found]
    assert sorted(found) == list(range(50))


def test_table_keeps_its_sort_order(lake: Lake) -> None:
    Sink(lake, "t", options={"sort_by": SORT_BY}).start()
    sink = Sink(lake, "t", id="other")
    sink.start()
    sink.put(*((id_, name) for id_ in range(4) for name in ("a", "b", None)))
    check_order(lake.table("t"))
    with pytest.raises(SinkqlError) as caught:
        Sink(lake, "t", id="third", options={"sort_by": SORT_BY[1:]}).start()
    assert caught.value.code == "SQ3509"
