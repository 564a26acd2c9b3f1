"""Rows packed into blobs come out whole, in their bucket and in their order, in blobs of a bounded size."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from sinkql import physical
from sinkql.hash_key import HashKey
from sinkql.logical.type import BIGINT, parse_type
from sinkql.lowering.task_input import Measure, TaskInput, value_columns
from sinkql.runtime.spark.execution import exchange
from sinkql.runtime.spark.execution.exchange import blobs, packed, read_blob, unpacked
from sinkql.runtime.state.pre_aggregation import PreAggregation

_SCHEMA = pa.schema([("place", pa.int64()), ("id", pa.int64()), ("text", pa.string()), ("list", pa.list_(pa.int32()))])


def _batches(pick: random.Random, *, buckets: int, sizes: tuple[int, ...]) -> list[pa.RecordBatch]:
    found, number = [], 0
    for size in sizes:
        rows = []
        for _ in range(size):
            text, list_ = pick.choice(("", "é" * 50, None)), pick.choice(([], [1, None], None))
            rows.append({"place": pick.randrange(buckets), "id": number, "text": text, "list": list_})
            number += 1
        found.append(pa.RecordBatch.from_pylist(rows, _SCHEMA))
    return found


def _place(rows: pa.RecordBatch) -> NDArray[np.int64]:
    places: NDArray[np.int64] = rows.column("place").to_numpy()
    return places


def _kept(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rows.drop_columns(["place"]).to_pylist()
    return found


@pytest.mark.parametrize("buckets", [1, 2, 7, 300])
def test_each_row_comes_out_once_in_its_bucket_and_after_the_rows_before_it(
    buckets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "_SMALLEST_BLOB", 2000)
    monkeypatch.setattr(exchange, "BLOB_BYTES", 2000)
    batches = _batches(random.Random(buckets), buckets=buckets, sizes=(0, 700, 1, 0, 300))
    expected: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for batch in batches:
        for place, row in zip(batch.column("place").to_pylist(), _kept(batch), strict=True):
            expected[place].append(row)
    found: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    pairs = list(packed(iter(batches), _place, buckets, dropped=["place"]))
    for bucket, blob in pairs:
        assert len(blob) < 6000  # two parts, and the schema
        for rows in unpacked([(bucket, blob)]):
            assert rows.num_rows
            assert rows.schema == pa.schema(list(_SCHEMA)[1:])
            found[bucket] += rows.to_pylist()
    assert found == expected
    assert buckets > 20 or len(pairs) > 2 * buckets


def test_rows_of_a_full_bucket_leave_while_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "_SMALLEST_BLOB", 100)
    monkeypatch.setattr(exchange, "BLOB_BYTES", 100)
    given: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(4):
            given.append(number)
            yield pa.record_batch({"place": pa.array([0] * 50 + [1])})

    first = next(packed(batches(), _place, 2))
    assert first[0] == 0
    assert given == [0]


def test_a_bucket_with_few_rows_does_not_keep_all_batches_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "WAITING_BYTES", 1 << 20)
    wide = {"place": pa.array([0] * 999 + [1]), "text": pa.array(["x" * 1000] * 1000)}
    pairs = packed((pa.record_batch(wide) for _ in range(8)), _place, 2)
    assert sum(bucket == 1 for bucket, _ in pairs) >= 4


def test_the_blobs_of_rows_without_buckets_hold_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "_SMALLEST_BLOB", 2000)
    monkeypatch.setattr(exchange, "BLOB_BYTES", 2000)
    batches = _batches(random.Random(1), buckets=3, sizes=(500, 0, 400))
    found = list(blobs(iter(batches)))
    assert len(found) > 1
    rows = [row for blob in found for rows in read_blob(blob) for row in rows.to_pylist()]
    assert rows == [row for batch in batches for row in batch.to_pylist()]


# --- pre-aggregation --------------------------------------------------------------------------------------------------

_DOUBLE, _NUMERIC = parse_type("double precision"), parse_type("numeric(38,2)")
_COLUMNS = (physical.Column("g", parse_type("text")), physical.Column("k", BIGINT))


def _input(*, ordered: bool = False) -> TaskInput:
    measures = (
        Measure("$count", "rows", "", BIGINT), Measure("$n0", "present", "", BIGINT), Measure("$s0", "sum", "", BIGINT),
        Measure("$s1", "sum", "", _NUMERIC),
        Measure("$l1", "least", "", _DOUBLE), Measure("$u1", "greatest", "", _DOUBLE),
    )  # fmt: skip
    values = value_columns("k", _COLUMNS)
    return TaskInput((), values, ("$k0", "$k1"), measures, append=False, columns=(), ordered=ordered)


def _table(rows: list[tuple[Any, ...]]) -> pa.Table:
    names = ["$k0", "$k1", "$count", "$n0", "$s0", "$s1", "$l1", "$u1"]
    types = [pa.string(), *[pa.int64()] * 4, pa.decimal128(38, 2), pa.float64(), pa.float64()]
    columns = list(zip(*rows, strict=True))
    return pa.table([pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)], names=names)


def _rows(pick: random.Random, count: int, groups: int) -> list[tuple[Any, ...]]:
    floats = (None, 0.0, -1.5, float("inf"), float("-inf"), 2.0, float("nan"))
    return [
        (pick.choice(("a", "", None)), pick.randrange(groups), pick.choice((1, -1)), pick.randrange(3),
         pick.randrange(-9, 9), pick.randrange(-99, 99), pick.choice(floats), pick.choice(floats))
        for _ in range(count)
    ]  # fmt: skip


def _added(rows: pa.Table) -> dict[Any, list[Any]]:
    """Add rows up in Python; NaN is the greatest value."""
    found: dict[Any, list[Any]] = {}
    for *group, count, present, small, wide, low, high in zip(*rows.to_pydict().values(), strict=True):
        sums = found.setdefault(tuple(group), [0, 0, 0, 0, None, None])
        for place, number in enumerate((count, present, small, wide)):
            sums[place] += number
        order = [value for value in (sums[4], low) if value is not None]
        sums[4] = min(order, key=_order, default=None)
        sums[5] = max([value for value in (sums[5], high) if value is not None], key=_order, default=None)
    return {group: [str(value) for value in sums] for group, sums in found.items()}


def _order(value: float) -> tuple[bool, float]:
    return value != value, value


def test_rows_of_few_groups_are_added_up_and_mean_the_same() -> None:
    combine = PreAggregation.from_input(_input(), HashKey(b"k" * 16))
    assert combine is not None
    for seed in range(20):
        rows = _table(_rows(random.Random(seed), 300, 5))
        added = combine(rows)
        assert added.num_rows == len(_added(rows)) < rows.num_rows
        assert added.schema == rows.schema
        assert _added(added) == _added(rows)


def test_rows_of_many_groups_stay_as_they_are() -> None:
    combine = PreAggregation.from_input(_input(), HashKey(b"k" * 16))
    assert combine is not None
    rows = _table(_rows(random.Random(1), 300, 10_000))
    assert combine(rows) is rows


def test_sums_that_do_not_fit_are_left_to_the_task_which_has_all_rows() -> None:
    combine = PreAggregation.from_input(_input(), HashKey(b"k" * 16))
    assert combine is not None
    rows = _table([("a", 1, 1, 1, 2**62, 0, None, None)] * 3)
    assert combine(rows) is rows


def test_rows_with_an_order_are_not_added_up() -> None:
    assert PreAggregation.from_input(_input(ordered=True), HashKey(b"k" * 16)) is None
