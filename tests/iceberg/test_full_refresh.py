"""A full refresh of an upsert sink makes its table equal to the new rows in one snapshot; equal rows do not move."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table

from sinkql import physical
from sinkql.connector_api.stream import NO_PLAN, Checkpoint, ClaimRequest, Committed, PlanChange, WriteResult
from sinkql.connectors.iceberg.file.deletes import live_files, read_dead
from sinkql.connectors.iceberg.write import refresh_collect, refresh_rows
from sinkql.connectors.iceberg.write.refresh_collect import digests
from sinkql.errors import FencedError, SinkqlError
from sinkql.hash_key import PUBLIC_KEY
from sinkql.logical.type import TEXT
from support.lake import Lake, Sink

LAYOUTS: Sequence[Mapping[str, Any]] = (
    {},
    {"format_version": 3},
    {"partition_by": [{"sql": "name", "transform": "identity", "column": "name"}]},
    {"sort_by": [{"sql": "name DESC", "column": "name", "descending": True, "nulls_first": False}]},
)
AGAIN = PlanChange("new", {"plan": {}}, again=frozenset({"plan"}))


def run_refresh(sink: Sink, parts: Sequence[Mapping[int, str | None]], *, epoch: int = 2) -> Committed:
    """Claim the table and commit a full refresh; later parts overwrite earlier ones."""
    sink.writer.open()
    sink.writer.claim(ClaimRequest({"numbers": {"batch": 0}}, epoch=epoch, switch=AGAIN))
    checkpoint = sink.writer.refresh()
    results: list[WriteResult] = []
    for number, rows in enumerate(parts):
        results += sink.write(sink.full_refresh.begin_refresh(number, buckets=2), list(rows.items()))
    return sink.full_refresh.commit_refresh(results, replace(checkpoint, plan="new"))


@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(8))
def test_the_table_has_just_the_new_rows_after_one_snapshot(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random_ = random.Random(seed)
    monkeypatch.setattr(refresh_rows, "_RANGE", 16)
    monkeypatch.setattr(refresh_rows, "_PART", 8)
    sink = Sink(Lake(tmp_path), "t", upsert=True, options=dict(LAYOUTS[seed % 4]))
    sink.start()
    old: dict[int, str | None] = {}
    for _ in range(random_.randint(0, 4)):
        batch = _rows(random_, 40)
        sink.put(*batch.items())
        old |= batch
    parts = [
        {key: name for key, name in old.items() if random_.random() < random_.choice([0.0, 0.5, 1.0])},
        *(_rows(random_, random_.choice([0, 3, 40])) for _ in range(random_.randint(1, 3))),
    ]
    new = {key: name for part in parts for key, name in part.items()}
    before = sink.lake.catalog().load_table("shop.t")
    places = _places(before)
    done = run_refresh(sink, parts)
    after = sink.lake.catalog().load_table("shop.t")
    assert Counter(sink.lake.rows("t")) == Counter(new.items())
    assert len(after.metadata.snapshots) == len(before.metadata.snapshots) + 2  # claim and refresh
    assert done.rows == len(new.items() - old.items())
    same = new.items() & old.items()
    assert {place: row for place, row in _places(after).items() if row in same} == {
        place: row for place, row in places.items() if row in same
    }
    again = {key: f"{name}!" for key, name in new.items() if key % 3 == 0} | _rows(random_, 5)
    sink.put(*again.items())  # this needs the right key index
    assert Counter(sink.lake.rows("t")) == Counter((new | again).items())


def _places(table: Table) -> dict[tuple[str, int], tuple[int, str | None]]:
    """Return the live rows by file and position."""
    files = live_files(table)
    dead = {
        (path, place)
        for name, file in files.deletes.items()
        for path, places in read_dead(table.io, name, file).items()
        for place in places.tolist()
    }
    return {
        (path, place): (row["id"], row["name"])
        for path in files.data
        for place, row in enumerate(pq.read_table(path.removeprefix("file://"), partitioning=None).to_pylist())
        if (path, place) not in dead
    }


def _rows(random_: random.Random, count: int) -> dict[int, str | None]:
    return {random_.randint(0, 60): random_.choice([None, "a", "b", "ü"]) for _ in range(count)}


def test_rows_of_one_part_come_after_those_of_the_part_before(tmp_path: Path) -> None:
    sink = Sink(Lake(tmp_path), "t", upsert=True)
    sink.start()
    sink.put((1, "old"), (2, "old"), (3, "same"))
    assert run_refresh(sink, [{1: "first", 3: "same"}, {1: "second", 4: "new"}]).rows == 2
    assert sink.lake.rows("t") == [(1, "second"), (3, "same"), (4, "new")]


def test_readers_see_the_old_rows_and_columns_until_the_one_snapshot(tmp_path: Path) -> None:
    sink = Sink(Lake(tmp_path), "t", upsert=True)
    sink.start()
    sink.put((1, "a"), (2, "b"))
    wider = Sink(sink.lake, "t", upsert=True, columns=(*sink.columns[:1], physical.Column("title", TEXT)))
    seen: list[Any] = []

    def look(rows: int) -> None:
        seen.append(sink.lake.rows("t"))

    wider.writer.open()
    wider.writer.claim(
        ClaimRequest({"numbers": {"batch": 0}}, epoch=2, switch=replace(AGAIN, follows={"plan": {"name": "title"}}))
    )
    checkpoint = wider.writer.refresh()
    results = wider.write(wider.full_refresh.begin_refresh(0, buckets=2), [(2, "b"), (3, "c")])
    wider.full_refresh.commit_refresh(results, replace(checkpoint, plan="new"), look)
    assert seen
    assert seen == [[(1, "a"), (2, "b")]] * len(seen)
    assert sink.lake.rows("t", ("id", "title")) == [(2, "b"), (3, "c")]
    with pytest.raises(SinkqlError) as late:
        sink.put((4, "d"))
    assert late.value.code == "SQ5101"  # the sink is fenced


def test_rows_of_others_with_one_key_are_replaced_too(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    other = Sink(lake, "t", id="other")
    other.start()
    other.put((1, "a"), (1, "b"), (2, "c"))
    sink = Sink(lake, "t", upsert=True, options={"existing_rows": "replace"})
    sink.writer.open()
    assert sink.writer.replaces_foreign_rows()
    switch = PlanChange("new", {NO_PLAN: {}}, again=frozenset({NO_PLAN}))
    assert sink.writer.claim(ClaimRequest({"numbers": {"batch": 0}}, epoch=1, switch=switch)).plan == NO_PLAN
    checkpoint = sink.writer.refresh()
    results = sink.write(sink.full_refresh.begin_refresh(0, buckets=2), [(1, "x"), (3, "y")])
    sink.full_refresh.commit_refresh(results, replace(checkpoint, plan="new"))
    assert lake.rows("t") == [(1, "x"), (3, "y")]
    sink.put((3, "z"))
    assert lake.rows("t") == [(1, "x"), (3, "z")]


def test_another_sink_that_adds_rows_while_they_are_replaced_is_named_and_the_next_start_replaces_them_too(
    tmp_path: Path,
) -> None:
    lake = Lake(tmp_path)
    other = Sink(lake, "t", id="other")
    other.start()
    other.put((1, "a"))
    sink = Sink(lake, "t", upsert=True, options={"existing_rows": "replace"})
    switch = PlanChange("new", {NO_PLAN: {}}, again=frozenset({NO_PLAN}))

    def begun(epoch: int) -> tuple[list[WriteResult], Checkpoint]:
        sink.writer.open()
        sink.writer.claim(ClaimRequest({"numbers": {"batch": 0}}, epoch=epoch, switch=switch))
        checkpoint = replace(sink.writer.refresh(), plan="new")
        return sink.write(sink.full_refresh.begin_refresh(0, buckets=2), [(3, "y")]), checkpoint

    results, checkpoint = begun(1)
    other.put((4, "b"))
    with pytest.raises(FencedError, match="another sink has committed to table") as told:
        sink.full_refresh.commit_refresh(results, checkpoint)
    assert (told.value.code, told.value.detail) == ("SQ5102", "The id of that sink is other.")
    assert lake.rows("t") == [(1, "a"), (4, "b")]
    sink.full_refresh.commit_refresh(*begun(2))
    assert lake.rows("t") == [(3, "y")]


def test_values_that_are_stored_otherwise_are_others() -> None:
    values = pa.table(
        {
            "d": pa.array([0.0, -0.0, 0.0, 0.0, None, 0.0]),
            "l": pa.array([[1], [1], [1, 2], [1], [1], None], pa.list_(pa.int64())),
            "t": pa.array(["a", "a", "a", None, "a", "a"]),
        }
    )
    d1, d2 = digests(values, PUBLIC_KEY)
    assert len(set(zip(d1.tolist(), d2.tolist(), strict=True))) == values.num_rows
    once, twice = digests(values.slice(2, 2), PUBLIC_KEY), digests(values, PUBLIC_KEY)
    assert [half.tolist() for half in once] == [half[2:4].tolist() for half in twice]


def test_rows_of_a_part_are_taken_without_those_around_them(tmp_path: Path) -> None:
    count = 1 << 16
    rows = pa.table({"id": np.arange(count), "name": pa.array([f"{number:0100}" for number in range(count)])})
    with pa.ipc.new_file(str(tmp_path / "1.rows"), rows.schema) as file:
        file.write_table(rows, max_chunksize=1 << 10)
    keys = dict.fromkeys(("h1", "h2", "d1", "d2", "upsert", "fresh"), np.zeros(count))
    refresh_collect.write_arrays(tmp_path / "1.keys", {**keys, "row": np.arange(count)})
    part = refresh_collect.Part.open(tmp_path, "1")
    before, measured = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(measured)
    try:
        found = part.take(np.array([9000, 8000, 8999])).to_pylist()
    finally:
        pa.set_memory_pool(before)
    assert [(row["id"], int(row["name"])) for row in found] == [(number, number) for number in (9000, 8000, 8999)]
    assert (measured.max_memory() or 0) < rows.nbytes / 10


def test_columns_change_once_however_often_a_sink_is_claimed_before_it_replaces_rows(tmp_path: Path) -> None:
    lake, options = Lake(tmp_path), {"existing_rows": "replace"}
    other = Sink(lake, "t", id="other")
    other.start()
    other.put((1, "a"))
    first = Sink(lake, "t", options=options)
    first.start()
    columns = (first.columns[0], physical.Column("title", TEXT), first.columns[1])
    switch = PlanChange("new", {NO_PLAN: {"name": "title"}}, empties=True)  # "name" also exists as a new column
    fields = []
    for epoch in (2, 3):
        sink = Sink(lake, "t", columns=columns, options=options)
        sink.writer.open()
        assert sink.writer.claim(ClaimRequest({"numbers": {"batch": 0}}, epoch=epoch, switch=switch)).plan == NO_PLAN
        fields.append([(field.name, field.field_id) for field in lake.catalog().load_table("shop.t").schema().fields])
    assert fields == [[("id", 1), ("title", 3), ("name", 2)]] * 2
