"""An append sink compacts its small files without changing rows or foreign files, despite concurrent writers."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from math import log2
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import BadRequestError, CommitFailedException
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from sinkql.connectors.iceberg.commit.snapshot import FileChange, Notes, prepare
from sinkql.connectors.iceberg.compact.append import OwnFile, OwnFiles, own_files, rewrite
from sinkql.connectors.iceberg.compact.compaction import Attempt, Compaction, Steps
from sinkql.connectors.iceberg.compact.selection import due
from sinkql.connectors.iceberg.file import reader
from sinkql.connectors.iceberg.file.data_file import for_tasks, write_data_file
from sinkql.connectors.iceberg.file.deletes import live_files, write_position_deletes
from sinkql.connectors.iceberg.file.partition import WHOLE
from sinkql.connectors.iceberg.file.reader import read_rows
from sinkql.connectors.iceberg.table.target import TargetTable
from support import strangers
from support.lake import Lake, Sink

pytestmark = pytest.mark.long

TYPES = (
    BooleanType(), IntegerType(), LongType(), FloatType(), DoubleType(), DecimalType(38, 4), DateType(), TimeType(),
    TimestampType(), TimestamptzType(), StringType(), UUIDType(), FixedType(5), BinaryType(),
    ListType(101, IntegerType(), False), MapType(102, StringType(), 103, LongType(), False),
    StructType(NestedField(104, "x", LongType()), NestedField(105, "y", ListType(106, StringType(), False))),
)  # fmt: skip
VALUES: list[list[Any]] = [
    [True, False], [-(2**31), 7], [2**63 - 1, -1], [0.5, float("inf")], [1e-300, -0.0],
    [Decimal("-1.2345"), Decimal("9" * 34 + ".9999")], [dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    [dt.time(0, 0), dt.time(23, 59, 59, 999999)],
    [dt.datetime(1, 1, 1), dt.datetime(2026, 1, 1, 1, 2, 3, 456789)],
    [dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 7, 1, tzinfo=dt.UTC)],
    ["", "ü" * 300], [UUID(int=1).bytes, UUID(int=2**128 - 1).bytes], [b"12345", b"\0\0\0\0\0"], [b"", b"\xff\0"],
    [[], [1, None, 3]], [[], [("a", 1), ("b", None)]], [{"x": None, "y": []}, {"x": 5, "y": ["p", None]}],
]  # fmt: skip


def deletes(table: Table, path: str, positions: list[int]) -> None:
    """Delete rows with a position-delete file, as another program would."""
    entry = write_position_deletes(
        for_tasks(table), "foreign-deletes.parquet", {path: pa.array(positions).to_numpy()}, WHOLE
    )
    prepared = prepare(table, FileChange((entry,)), lambda snapshot, sequence: Notes({}, {}))
    table.catalog.commit_table(table, prepared.requirements, prepared.updates)


def paths(lake: Lake, name: str) -> set[str]:
    return set(live_files(lake.table(name)).data)


def numbers(batch: int, rows: int = 3) -> list[tuple[int, str | None]]:
    return [(batch * rows + each, f"v{each}" if each else None) for each in range(rows)]


def test_rows_of_all_types_are_the_same(tmp_path: Path) -> None:
    catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("shop")
    schema = Schema(*(NestedField(place, f"c{place}", type_) for place, type_ in enumerate(TYPES, 1)))
    table = catalog.create_table("shop.all", schema, properties={"format-version": "2"})
    arrow = schema_to_pyarrow(table.schema(), include_field_ids=True)
    random_ = random.Random(3)
    files = []
    for number in range(4):
        columns = [[random_.choice([None, *each]) for _ in range(40)] for each in VALUES]
        arrays = [
            pa.ExtensionArray.from_storage(field.type, pa.array(column, pa.binary(16)))
            if isinstance(field.type, pa.UuidType)
            else pa.array(column, field.type)
            for field, column in zip(arrow, columns, strict=True)
        ]
        entry = write_data_file(for_tasks(table), f"{number}.parquet", pa.Table.from_arrays(arrays, schema=arrow))
        files.append(OwnFile(entry.path, entry.size, entry.place))

    steps = rewrite(files, Attempt("a", lambda: table), frozenset(), sink="s", epoch=1)
    done = _end(steps)

    before = [pq.read_table(file.path.removeprefix("file://")) for file in files]
    (new,) = done.change.add
    after = pq.read_table(new.path.removeprefix("file://"))
    assert before[0].schema.equals(after.schema, check_metadata=True)
    assert repr(pa.concat_tables(before).to_pylist()) == repr(after.to_pylist())  # distinguishes -0.0 from 0.0
    assert pq.ParquetFile(files[0].path.removeprefix("file://")).schema.equals(
        pq.ParquetFile(new.path.removeprefix("file://")).schema
    )


def _end(steps: Steps) -> Compaction:
    done: list[Compaction | None] = []

    def whole() -> Iterator[bool]:
        done.append((yield from steps))

    list(whole())
    assert done[0] is not None
    return done[0]


def test_files_stay_few_and_a_row_is_written_again_a_few_times(lake: Lake, name: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    most = 0
    for batch in range(60):
        sink.put(*numbers(batch))
        sink.writer.maintenance.maintain()
        most = max(most, len(paths(lake, name)))
    snapshots = [each.summary for each in lake.table(name).metadata.snapshots if each.summary]
    moved = [int(each["added-records"] or 0) for each in snapshots if each.operation.value == "replace"]
    assert most <= 16
    assert 0 < len(moved) < 60 * 2 / 14
    assert lake.rows(name) == [row for batch in range(60) for row in numbers(batch)]


def test_work_grows_with_the_logarithm_of_the_rows() -> None:
    files: list[int] = []
    written = 0
    for _ in range(20_000):
        files.append(1_000_000)
        chosen = due(files, lambda size: size, target=1 << 40)
        for size in chosen:
            files.remove(size)
        if chosen:
            files.append(sum(chosen))
            written += sum(chosen)
    assert len(files) < 16 + log2(20_000)
    assert written < 20_000 * 1_000_000 * log2(20_000)


def test_files_end_at_the_target_size() -> None:
    files: list[int] = []
    for _ in range(3_000):
        files.append(1_000)
        chosen = due(files, lambda size: size, target=100_000)
        for size in chosen:
            files.remove(size)
        files += [sum(chosen)] if chosen else []
    assert max(files) <= 100_000
    assert sum(2 * size < 100_000 for size in files) < 24


def _stop_after(steps: int, deed: Callable[[], None]) -> Callable[[bool], bool]:
    """Return a `go_on` that calls `deed` before step `steps` and never stops the compaction."""
    left = iter(range(steps))

    def go_on(begun: bool) -> bool:
        if next(left, None) == steps - 1:
            deed()
        return True

    return go_on


@pytest.mark.share(4)
@pytest.mark.parametrize("step", [1, 10])
@pytest.mark.parametrize("deed", ["append", "delete", "position delete", "compact", "expire", "another sink"])
def test_what_others_do_meanwhile_stays(lake: Lake, name: str, deed: str, step: int) -> None:
    sink = Sink(lake, name)
    sink.start()
    for batch in range(10):
        sink.put(*numbers(batch))
    expected = [row for batch in range(10) for row in numbers(batch)]
    other = Sink(lake, name, id="5f6e1c1e-0002", options={"existing_rows": "keep"})

    def meanwhile() -> None:
        table = lake.table(name)
        match deed:
            case "append":
                strangers.append(table, (900, "theirs"))
            case "delete":
                strangers.delete(table, "id = 4")
            case "position delete":
                path = next(path for path in sorted(paths(lake, name)) if "/b000-" in path)
                rows = pq.read_table(path.removeprefix("file://"))
                gone.append(rows.column("id")[0].as_py())
                deletes(table, path, [0])
            case "compact":
                strangers.compact(table)
            case "expire":
                strangers.expire_all_but_head(table)
            case _:
                other.start()
                other.put((901, "other"))

    gone: list[int] = []
    sink.writer.maintenance.maintain(_stop_after(step, meanwhile))
    for batch in range(10, 24):
        sink.put(*numbers(batch))
        sink.writer.maintenance.maintain()
    expected += [row for batch in range(10, 24) for row in numbers(batch)]
    expected += {"append": [(900, "theirs")], "another sink": [(901, "other")]}.get(deed, [])
    gone += [4] if deed == "delete" else []
    assert lake.rows(name) == sorted(row for row in expected if row[0] not in gone)
    assert len(paths(lake, name)) <= 24
    assert "replace" in {each.summary.operation.value for each in lake.table(name).metadata.snapshots if each.summary}


def test_files_of_others_stay_as_they_are(lake: Lake, name: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    other = Sink(lake, name, id="5f6e1c1e-0002", options={"existing_rows": "keep"})
    other.start()
    for batch in range(9):
        strangers.append(lake.table(name), (1000 + batch, "theirs"))
        other.put((2000 + batch, "other"))
    theirs = paths(lake, name)
    for batch in range(20):
        sink.put(*numbers(batch))
        sink.writer.maintenance.maintain()
    assert theirs <= paths(lake, name)
    assert len(paths(lake, name)) < len(theirs) + 16
    assert lake.rows(name) == sorted(
        [row for batch in range(20) for row in numbers(batch)]
        + [(1000 + each, "theirs") for each in range(9)]
        + [(2000 + each, "other") for each in range(9)]
    )


def test_compaction_continues_over_batches(lake: Lake, name: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    for batch in range(8):
        sink.put(*numbers(batch))

    def steps() -> Iterator[bool]:
        while True:
            yield from (True, True, True, False)

    step = steps()
    for batch in range(8, 30):
        sink.writer.maintenance.maintain(lambda begun: next(step))
        sink.put(*numbers(batch))
    kinds = [each.summary.operation.value for each in lake.table(name).metadata.snapshots if each.summary]
    assert kinds.count("replace") >= 1
    assert kinds.index("replace") > 15
    assert lake.rows(name) == [row for batch in range(30) for row in numbers(batch)]


def test_share_of_the_time_is_what_the_sink_says(lake: Lake, name: str) -> None:
    assert Sink(lake, name).writer.maintenance.maintenance_share() == 0.15
    assert Sink(lake, name, options={"maintenance_share": 2.5}).writer.maintenance.maintenance_share() == 0.025


def test_sink_without_maintenance_leaves_files(lake: Lake, name: str) -> None:
    sink = Sink(lake, name, options={"maintenance": False})
    sink.start()
    for batch in range(20):
        sink.put(*numbers(batch))
        sink.writer.maintenance.maintain()
    assert len(paths(lake, name)) == 40


def test_a_sink_that_lost_the_table_does_not_compact_it(lake: Lake, name: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    for batch in range(10):
        sink.put(*numbers(batch))
    later = Sink(lake, name)
    before = paths(lake, name)

    with pytest.raises(Exception, match="another run has taken over") as caught:
        sink.writer.maintenance.maintain(_stop_after(5, lambda: _start(later)))
    assert getattr(caught.value, "code", None) == "SQ5101"
    assert before == paths(lake, name)


def _start(sink: Sink) -> None:
    sink.start(epoch=2)


@pytest.mark.parametrize("moved", [True, False])
def test_files_of_a_compaction_that_others_never_let_through_go_once_it_cannot_arrive(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch, *, moved: bool
) -> None:
    sink = Sink(lake, name)
    sink.start()
    for batch in range(30):
        sink.put(*numbers(batch))
    other = Sink(lake, name, id="other", options={"existing_rows": "keep", "maintenance": False})
    other.start()
    before = paths(lake, name)
    post, others = TargetTable.post, iter(range(1000, 2000))

    def overtaken(target: TargetTable, *asked: Any) -> Table:
        if target is not sink.writer.table.target:
            return post(target, *asked)
        if moved:
            other.put(*numbers(next(others)))
        raise CommitFailedException("the table has changed")

    monkeypatch.setattr(TargetTable, "post", overtaken)
    assert any(each.problem for each in sink.writer.maintenance.maintain())
    there = {f"file://{path}" for path in (lake.folder / "warehouse").rglob("*.parquet")}
    left = there - before - paths(lake, name)
    assert len(left) == (0 if moved else 1)


@pytest.mark.share(2)
@pytest.mark.parametrize("error", [CommitFailedException("crowded"), BadRequestError("no such update")])
def test_a_compaction_that_the_catalog_always_refuses_ends_no_sink(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    sink = Sink(lake, name, options={"retain_snapshots": 2})
    sink.start()
    for batch in range(30):
        sink.put(*numbers(batch))
    before = {each.snapshot_id for each in lake.table(name).metadata.snapshots}

    post = TargetTable.post

    def refuse(self: TargetTable, table: Table, requirements: Any, updates: Any) -> Table:
        if any(isinstance(each, AddSnapshotUpdate) for each in updates):
            raise error
        return post(self, table, requirements, updates)

    with monkeypatch.context() as patch:
        patch.setattr(TargetTable, "post", refuse)
        (told,) = sink.writer.maintenance.maintain()
        assert told.problem
        assert list(sink.writer.maintenance.maintain()) == []
    assert {each.snapshot_id for each in lake.table(name).metadata.snapshots} == before  # the commit may still arrive
    for batch in range(30, 50):
        sink.put(*numbers(batch))
        sink.writer.maintenance.maintain()
    assert len(paths(lake, name)) <= 24
    assert len(lake.table(name).metadata.snapshots) < len(before)
    assert lake.rows(name) == [row for batch in range(50) for row in numbers(batch)]


def test_a_file_without_ids_is_read_by_the_name_mapping_of_its_table(tmp_path: Path) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/lake")
    catalog.create_namespace("n")
    columns = [NestedField(1, "old", LongType()), NestedField(2, "other", StringType())]
    table = catalog.create_table("n.t", Schema(*columns))
    path = f"{tmp_path}/foreign.parquet"
    pq.write_table(pa.table({"old": [1, None, 3], "other": ["a", "b", None]}), path)
    table.add_files([path])
    with table.update_schema() as change:
        change.rename_column("old", "new")
    table = catalog.load_table("n.t")
    (rows,) = read_rows(for_tasks(table), path)
    assert rows.to_pydict() == {"new": [1, None, 3], "other": ["a", "b", None]}
    assert rows.to_pydict() == table.scan().to_arrow().to_pydict()


def test_a_long_compaction_ends_with_what_was_read(lake: Lake, name: str) -> None:
    sink = Sink(lake, name, options={"maintenance": False})
    sink.start()
    for batch in range(3):
        sink.put(*numbers(batch))
    table = lake.table(name)
    found = OwnFiles()
    manifests = table.inspect.manifests().num_rows
    assert sum(1 for _ in own_files(table, sink.id, found)) == manifests > 1
    attempt = Attempt("a", lambda: table, late=lambda: True)
    done = _end(rewrite(found.files, attempt, found.deletes, sink=sink.id, epoch=1))
    assert done.change.remove == {file.path for file in found.files[:2]}
    assert sum(entry.rows for entry in done.change.add) == 3


def test_wide_values_that_a_file_has_in_few_bytes_come_in_small_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/lake")
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", Schema(NestedField(1, "text", StringType())))
    entry = write_data_file(for_tasks(table), "wide.parquet", pa.table({"text": ["x" * 1_000] * 50_000}))
    assert entry is not None
    assert entry.size < 100_000
    monkeypatch.setattr(reader, "_BYTES", 1 << 20)
    sizes = [rows.nbytes for rows in reader.read_rows(for_tasks(table), entry.path)]
    assert max(sizes) < 6 << 20
    assert sum(sizes) > 45 << 20


def test_a_file_that_cannot_be_read_is_left_after_the_second_time(lake: Lake, name: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    for batch in range(7):
        sink.put(*numbers(batch))
    damaged = sorted(paths(lake, name))[0].removeprefix("file://")
    whole = Path(damaged).read_bytes()
    Path(damaged).write_bytes(b"no Parquet")
    problems = []
    for batch in range(7, 40):
        sink.put(*numbers(batch))
        problems += [each.problem for each in sink.writer.maintenance.maintain() if each.problem]
    assert len(problems) == 2
    assert all(damaged in each for each in problems)
    assert f"file://{damaged}" in paths(lake, name)
    assert len(paths(lake, name)) < 32
    Path(damaged).write_bytes(whole)
    assert lake.rows(name) == [row for batch in range(40) for row in numbers(batch)]
