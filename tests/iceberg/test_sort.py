"""SORT BY: rows are sorted within files, also after updates and compactions."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import parse_transform
from pyiceberg.types import IcebergType, LongType, NestedField, StringType, TimestampType, UUIDType

from sinkql.connectors.iceberg.file import data_file, sort_order
from sinkql.connectors.iceberg.file.data_file import Sorting, for_tasks
from sinkql.connectors.iceberg.file.partition import WHOLE
from sinkql.connectors.iceberg.file.sort_order import SortedWriter, sorted_numbers
from sinkql.errors import SinkqlError
from support.eager import compact_eagerly
from support.lake import NAMESPACE, Lake, Sink
from upsert.keyed_sink import create_table

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
    """Check that each data file's rows are sorted and that its entry has the sort order."""
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
        compacted += sum(each.problem is None for each in sink.writer.maintenance.maintain())
        check_order(lake.table("t"))
        rows = [*({**dict(rows), **dict(new)}.items() if upsert else [*rows, *new])]
    assert compacted > 1
    assert sorted(rows, key=repr) == sorted(lake.rows("t"), key=repr)


def test_rows_of_an_upsert_sink_are_sorted_by_key_where_nobody_says_otherwise(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    compact_eagerly(monkeypatch)
    sink = Sink(lake, "t", upsert=True)
    sink.start()
    random_ = random.Random(5)
    rows: dict[int, str | None] = {}
    compacted = 0
    for batch in range(6):
        new = {id_: str(batch) for id_ in random_.sample(range(60), 30)}
        sink.put(*new.items())
        compacted += sum(each.problem is None for each in sink.writer.maintenance.maintain())
        rows |= new
        for task in lake.table("t").scan().plan_files():
            assert task.file.sort_order_id is None
            ids = pq.read_table(task.file.file_path.removeprefix("file://"))["id"].to_pylist()
            assert ids == sorted(ids)
    assert compacted > 1
    assert sorted(rows.items()) == lake.rows("t")


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [None, False, True])
def test_values_are_in_icebergs_order(name: str, descending: bool, nulls_first: bool | None) -> None:
    type_, known, key = VALUES[name]
    values = random.Random(name).choices(known if nulls_first is None else [None, *known], k=50)
    storage = pa.array(values, pa.binary(16) if type_ == pa.uuid() else type_)
    column = pa.ExtensionArray.from_storage(type_, storage) if type_ == pa.uuid() else storage
    found = sorted_numbers(pa.table({name: column}), [Sorting(name, descending, bool(nulls_first))]).tolist()
    there = sorted(
        (number for number, value in enumerate(values) if value is not None),
        key=lambda number: key(values[number]),
        reverse=descending,
    )
    null = [number for number, value in enumerate(values) if value is None]
    expected = null + there if nulls_first else there + null
    assert [repr(values[each]) for each in expected] == [repr(values[each]) for each in found]
    assert sorted(found) == list(range(50))


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (StringType(), [pa.array(["b"], pa.string()), pa.array(["a"], pa.large_string()), pa.nulls(1)]),
        (LongType(), [pa.array([3], pa.int32()), pa.array([1], pa.int64()), pa.array([2], pa.int16())]),
        (
            TimestampType(),
            [pa.array([each], pa.timestamp(unit)) for each, unit in ((3, "ms"), (1, "us"), (2000, "ns"))],
        ),
        (UUIDType(), [pa.array([str(UUID(int=2))]), pa.array([UUID(int=1).bytes], pa.uuid())]),
    ],
    ids=["string", "long", "timestamp", "uuid"],
)
@pytest.mark.parametrize("turned", [False, True])
def test_rows_of_files_with_other_arrow_types_are_sorted_together(
    tmp_path: Path, type_: IcebergType, values: list[pa.Array], turned: bool
) -> None:
    task = replace(for_tasks(create_table(tmp_path, {"v": type_})), sorting=(Sorting("v", False, False),), order_id=1)
    writer = SortedWriter(task, "sorted.parquet", WHOLE)
    for each in reversed(values) if turned else values:
        writer.write(pa.table({"v": each}))
    entry = writer.close()
    assert entry is not None
    found = pq.read_table(entry.path.removeprefix("file://")).column("v").to_pylist()
    assert len(values) == len(found)
    assert sorted(found, key=lambda value: (value is None, str(value))) == found


def test_memory_is_bounded_while_rows_wait_to_be_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort_order, "_IN_MEMORY", 1 << 20)
    monkeypatch.setattr(sort_order, "_AT_ONCE", 1 << 19)
    monkeypatch.setattr(data_file, "_ROW_GROUP_BYTES", 2 << 20)
    table = create_table(tmp_path, {"v": LongType(), "text": StringType(), "id": UUIDType()})
    task = replace(for_tasks(table), sorting=(Sorting("v", True, False),), order_id=1)
    writer, random_ = SortedWriter(task, "sorted.parquet", WHOLE), random.Random(1)
    before = pa.total_allocated_bytes()
    expected: list[tuple[int, str, int]] = []
    for number in range(40):
        values = [random_.randrange(1000) for _ in range(100)]
        expected += [(value, f"{len(expected) + each}", number) for each, value in enumerate(values)]
        ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([number.to_bytes(16, "big")] * 100, pa.binary(16)))
        text = pa.array([f"{id_} {random_.randbytes(2000).hex()}" for _, id_, _ in expected[-100:]])
        writer.write(pa.table({"v": values, "text": text, "id": ids}))
        assert pa.total_allocated_bytes() - before < 3 << 20
        del text, ids
    entry = writer.close()
    assert entry is not None
    assert writer.order is not None
    file = pq.ParquetFile(entry.path.removeprefix("file://"))
    groups = [file.metadata.row_group(each).total_byte_size for each in range(file.num_row_groups)]
    assert max(groups) < 3 << 20
    found = [(row["v"], row["text"].split()[0], row["id"].int) for row in file.read().to_pylist()]
    assert found == sorted(expected, key=lambda row: -row[0])
    assert found == [expected[each] for each in writer.order]


def test_table_keeps_its_sort_order(lake: Lake) -> None:
    Sink(lake, "t", options={"sort_by": SORT_BY}).start()
    sink = Sink(lake, "t", id="other")
    sink.start()
    sink.put(*((id_, name) for id_ in range(4) for name in ("a", "b", None)))
    check_order(lake.table("t"))
    with pytest.raises(SinkqlError) as caught:
        Sink(lake, "t", id="third", options={"sort_by": SORT_BY[1:]}).start()
    assert caught.value.code == "SQ3509"


def field(column: int, transform: str = "identity") -> SortField:
    return SortField(column, parse_transform(transform), SortDirection.DESC, NullOrder.NULLS_LAST)


@pytest.mark.parametrize(
    ("fields", "detail", "hint"),
    [
        ([], "table: no sort order", "Leave out SORT BY, or set a different TABLE."),
        (
            [field(1, "bucket[4]")],
            "table: bucket(4, id) DESC NULLS LAST",
            "Leave out SORT BY, or set a different TABLE.",
        ),
        (
            [field(2), field(1)],
            "table: SORT BY (name DESC NULLS LAST, id DESC NULLS LAST)",
            "Leave out SORT BY: files are then sorted in the table's order. Or set a different TABLE.",
        ),
    ],
    ids=["none", "transform", "columns"],
)
def test_another_sort_order_is_refused_and_none_taken(
    lake: Lake, fields: list[SortField], detail: str, hint: str
) -> None:
    catalog = lake.catalog()
    catalog.create_namespace(NAMESPACE)
    schema = Schema(NestedField(1, "id", LongType(), True), NestedField(2, "name", StringType()))
    catalog.create_table((NAMESPACE, "t"), schema, sort_order=SortOrder(*fields))
    with pytest.raises(SinkqlError) as caught:
        Sink(lake, "t", options={"sort_by": SORT_BY}).start()
    sink_says = "; sink: SORT BY (name DESC NULLS LAST, id)"
    assert ("SQ3509", detail + sink_says, hint) == (caught.value.code, caught.value.detail, caught.value.hint)
    sink = Sink(lake, "t")
    sink.start()
    sink.put((1, "a"), (3, "b"))
    (file,) = (task.file for task in lake.table("t").scan().plan_files())
    rows = pq.read_table(file.file_path.removeprefix("file://")).column("id").to_pylist()
    sorts = hint.startswith("Leave out SORT BY:")
    assert (([3, 1], 1) if sorts else ([1, 3], None)) == (rows, file.sort_order_id)


def test_files_are_not_said_to_be_sorted_by_a_column_that_is_gone(tmp_path: Path) -> None:
    table = create_table(tmp_path, {"id": LongType(), "name": StringType()})
    gone = SortOrder(field(9), field(1), order_id=1)
    table.metadata = table.metadata.model_copy(update={"sort_orders": [gone], "default_sort_order_id": 1})
    task = for_tasks(table)
    assert (task.sorting, task.order_id) == ((), None)
