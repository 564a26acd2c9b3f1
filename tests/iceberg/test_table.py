"""The table that a sink finds or creates: accepted and refused tables, and the format of its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from sinkql import physical
from sinkql.connectors.iceberg.commit import snapshot as snapshots
from sinkql.connectors.iceberg.commit.snapshot import FileChange, Notes, prepare, selfcheck
from sinkql.connectors.iceberg.file.data_file import ROW_GROUP_ROWS, FileEntry, for_tasks, write_data_file
from sinkql.connectors.iceberg.file.partition import Partitions
from sinkql.errors import SinkqlError
from sinkql.logical.type import BIGINT, SMALLINT, TEXT, TIMESTAMP, TIMESTAMPTZ, UUID, parse_type
from support.lake import COLUMNS, NAMESPACE, Lake, Sink
from support.readers import connect


def create(lake: Lake, name: str, *fields: tuple[str, IcebergType, bool], **options: Any) -> None:
    catalog = lake.catalog()
    catalog.create_namespace_if_not_exists(NAMESPACE)
    schema = Schema(*(NestedField(number, *field) for number, field in enumerate(fields, start=1)))
    catalog.create_table((NAMESPACE, name), schema, **options)


def refusal(lake: Lake, name: str, **options: Any) -> SinkqlError:
    with pytest.raises(SinkqlError) as caught:
        Sink(lake, name, **options).start()
    return caught.value


def test_table_is_created_as_the_sink_needs_it(any_lake: Lake, name: str) -> None:
    columns = (
        physical.Column("id", BIGINT, nullable=False),
        physical.Column("name", TEXT),
        physical.Column("small", SMALLINT),
        physical.Column("price", parse_type("numeric(12,2)")),
        physical.Column("at", TIMESTAMP),
        physical.Column("seen", TIMESTAMPTZ),
        physical.Column("uid", UUID),
    )
    Sink(any_lake, name, columns=columns, changelog=True).start()
    found = [(field.name, field.field_type, field.required) for field in any_lake.table(name).schema().fields]
    assert found == [
        ("id", LongType(), True),
        ("name", StringType(), False),
        ("small", IntegerType(), False),
        ("price", DecimalType(38, 2), False),
        ("at", TimestampType(), False),
        ("seen", TimestamptzType(), False),
        ("uid", StringType(), False),
        ("_mz_diff", IntegerType(), True),
        ("_mz_timestamp", LongType(), True),
    ]
    assert any_lake.table(name).metadata.format_version == 2


def test_table_with_other_order_and_field_ids_fits(any_lake: Lake, name: str) -> None:
    create(any_lake, name, ("name", StringType(), False), ("id", LongType(), False))
    sink = Sink(any_lake, name)
    sink.start()
    sink.put((1, "a"))
    assert any_lake.rows(name) == [(1, "a")]


def test_differences_are_all_listed(lake: Lake, name: str) -> None:
    create(lake, name, ("id", IntegerType(), False), ("title", StringType(), True), ("extra", LongType(), False))
    error = refusal(lake, name)
    assert error.code == "SQ3504"
    assert (error.detail or "").split("; ") == [
        'column "id" is int in the table, long in the sink',
        'column "name" (string) is missing in the table',
        'column "title" is only in the table',
        'column "extra" is only in the table',
    ]


def test_required_column_for_a_nullable_one_is_refused(lake: Lake, name: str) -> None:
    create(lake, name, ("id", LongType(), True), ("name", StringType(), True))
    assert refusal(lake, name).detail == 'column "name" is required in the table, nullable in the sink'


def test_uuid_column_takes_text(lake: Lake, name: str) -> None:
    create(lake, name, ("id", LongType(), True), ("name", UUIDType(), False))
    sink = Sink(lake, name, columns=(COLUMNS[0], physical.Column("name", UUID)))
    sink.start()
    sink.put((1, "6f1e1d2e-0000-0000-0000-00000000000a"), (2, None))
    found = lake.table(name).scan().to_arrow().sort_by("id").to_pylist()
    assert [str(row["name"]) for row in found] == ["6f1e1d2e-0000-0000-0000-00000000000a", "None"]


@pytest.mark.parametrize(("there", "asked"), [(1, 2), (1, 3), (2, 3)])
def test_lower_format_versions_are_refused(lake: Lake, name: str, there: int, asked: int) -> None:
    old = {"properties": {"format-version": str(there)}}
    create(lake, name, ("id", LongType(), True), ("name", StringType(), False), **old)
    assert refusal(lake, name, options={"format_version": asked}).code == "SQ3512"


def test_table_with_other_partitions_is_refused(lake: Lake, name: str) -> None:
    spec = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="name"))
    create(lake, name, ("id", LongType(), True), ("name", StringType(), False), partition_spec=spec)
    error = refusal(lake, name)
    assert (error.code, error.detail) == ("SQ3505", "table: PARTITION BY (name); sink: no PARTITION BY")
    assert error.hint == "Write PARTITION BY (name), or set a different TABLE."


@pytest.mark.parametrize("rows", [0, 1])
def test_files_partitioned_by_a_column_of_no_schema_are_refused(lake: Lake, name: str, rows: int) -> None:
    spec = PartitionSpec(PartitionField(source_id=3, field_id=1000, transform=IdentityTransform(), name="part"))
    create(lake, name, ("id", LongType(), True), ("name", StringType(), False), ("old", StringType(), False),
           partition_spec=spec)  # fmt: skip
    table = lake.table(name)
    if rows:
        schema = schema_to_pyarrow(table.schema())
        table.append(pa.table({"id": [1], "name": ["a"], "old": ["b"]}, schema=schema))
    with table.update_spec() as change:
        change.remove_field("part")
    path = Path(lake.table(name).metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())  # other programs remove schemas that no snapshot uses
    del metadata["schemas"][0]["fields"][2]
    path.write_text(json.dumps(metadata))
    if rows:
        error = refusal(lake, name, options={"existing_rows": "keep"})
        assert (error.code, error.detail) == ("SQ3510", "partition fields: part")
    else:
        sink = Sink(lake, name)
        sink.start()
        sink.put((1, "a"))
        assert lake.rows(name) == [(1, "a")]


def test_upsert_on_a_table_with_equality_deletes_is_refused(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink(lake, name, upsert=True)
    sink.start()
    sink.put((1, "a"))
    table = lake.table(name)
    plain = snapshots.as_data_file

    def by_equality(entry: FileEntry, partitions: Partitions) -> DataFile:
        file = plain(entry, partitions)
        file[0], file[14] = DataFileContent.EQUALITY_DELETES, [1]
        return file

    monkeypatch.setattr(snapshots, "as_data_file", by_equality)
    entry = FileEntry("deletes", f"{table.location()}/data/eq.parquet", 1, 100)
    prepared = prepare(table, FileChange((entry,)), lambda _, __: Notes({}, {}))
    table.catalog.commit_table(table, prepared.requirements, prepared.updates)
    assert refusal(lake, name, upsert=True).code == "SQ3506"


def test_two_sinks_create_one_table(any_lake: Lake, name: str) -> None:
    first, second = Sink(any_lake, name, id="a"), Sink(any_lake, name, id="b")
    first.writer.open()
    second.writer.open()
    first.start()
    first.put((1, "a"))
    assert any_lake.rows(name) == [(1, "a")]


def test_nested_namespace_is_created(lake: Lake, name: str) -> None:
    sink = Sink(lake, name, options={"namespace": "eu.shop.raw"})
    sink.start()
    assert lake.catalog().load_table(("eu", "shop", "raw", name)).name() == ("eu", "shop", "raw", name)


# --- data files -----------------------------------------------------------------------------------------------------


def test_data_files_have_field_ids_and_row_groups_across_batches(lake: Lake, name: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    sink.writer.refresh()
    task = sink.writer.begin(bucketing="test", buckets=2)
    rows = ROW_GROUP_ROWS // 2 + 10
    batch = pa.record_batch(
        {"id": pa.array(range(rows), pa.int64()), "name": pa.array(["x"] * rows), "$seq": pa.array(range(rows))}
    )
    result = task(3, "attempt7", iter([batch, batch, batch]))
    (entry,) = result.data
    path = entry.path.removeprefix("file://")
    assert Path(path).name == f"b003-{sink.id}-1-{task.commit}-attempt7.parquet"
    file = pq.ParquetFile(path)
    assert [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)] == [
        ROW_GROUP_ROWS,
        3 * rows - ROW_GROUP_ROWS,
    ]
    assert [field.metadata[b"PARQUET:field_id"] for field in file.schema_arrow] == [b"1", b"2"]
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert (entry.rows, entry.size, result.rows) == (3 * rows, Path(path).stat().st_size, 3 * rows)


def test_null_in_a_required_column_is_an_error(lake: Lake, name: str) -> None:
    Sink(lake, name).start()
    table = for_tasks(lake.table(name))
    with pytest.raises(SinkqlError) as caught:
        write_data_file(table, "x.parquet", pa.table({"id": pa.array([1, None], pa.int64()), "name": ["a", "b"]}))
    assert caught.value.code == "SQ3151"


def test_value_that_the_column_cannot_hold_is_an_error(lake: Lake, name: str) -> None:
    create(lake, name, ("id", IntegerType(), False), ("name", StringType(), False))
    table = for_tasks(lake.table(name))
    with pytest.raises(SinkqlError) as caught:
        write_data_file(table, "x.parquet", pa.table({"id": pa.array([2**40]), "name": ["a"]}))
    assert caught.value.code == "SQ3151"


def test_table_for_tasks_shows_no_credentials(any_lake: Lake, name: str) -> None:
    sink = Sink(any_lake, name)
    sink.start()
    sink.writer.refresh()
    task = sink.writer.begin(bucketing="test", buckets=2)
    assert "secret" not in repr(task)
    assert "credential" not in for_tasks(any_lake.table(name)).storage


# --- manifests --------------------------------------------------------------------------------------------------------


def test_small_manifests_are_merged(lake: Lake, name: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    counts = []
    for each in range(35):
        sink.put((each, "a"))
        table = lake.table(name)
        head = table.current_snapshot()
        assert head is not None
        counts.append(len(head.manifests(table.io)))
    assert max(counts) <= 32
    assert counts[-1] < 10
    assert lake.rows(name) == [(each, "a") for each in range(35)]
    head = lake.table(name).current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert head.summary["total-records"] == "35"


def test_duckdb_opens_the_folder_after_every_commit(lake: Lake, name: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    folder = lake.folder / "warehouse" / NAMESPACE / name
    for each in range(3):
        sink.put((each, "a"))
        with connect() as duck:
            found = duck.execute(f"SELECT count(*) FROM iceberg_scan('{folder}')").fetchall()
        assert found == [(each + 1,)]


def test_folders_may_have_odd_names(tmp_path: Path, name: str) -> None:
    lake = Lake(tmp_path / "my läke 100%20")
    sink = Sink(lake, name, upsert=True)
    sink.start()
    sink.put((1, "a"))
    sink.put((1, "b"))
    assert lake.rows(name) == [(1, "b")]


def test_duckdb_opens_a_table_in_the_folder_of_one_that_had_more_commits(lake: Lake, name: str) -> None:
    first = Sink(lake, name, id="first")
    first.start()
    for number in range(5):
        first.put((number, "old"))
    lake.catalog().drop_table((NAMESPACE, name))
    second = Sink(lake, name, id="second")
    second.start()
    second.put((7, "new"))
    assert lake.rows(name) == [(7, "new")]


def test_old_metadata_files_are_removed(lake: Lake, name: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    for each in range(25):
        sink.put((each, "a"))
    folder = lake.folder / "warehouse" / NAMESPACE / name / "metadata"
    assert len(list(folder.glob("*.metadata.json"))) == 21


def test_private_pieces_of_pyiceberg_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    selfcheck()
    monkeypatch.delattr("pyiceberg.manifest.ManifestWriterV2._meta")
    monkeypatch.delattr("pyiceberg.manifest.ManifestWriter._meta")
    with pytest.raises(RuntimeError, match="_meta"):
        selfcheck()
