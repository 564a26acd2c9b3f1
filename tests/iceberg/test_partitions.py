"""Sinks into partitioned tables: rows stay in their partitions through updates, restarts and compactions."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFileContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, PrimitiveType, StringType
from pyspark.sql import SparkSession

from sinkql import physical
from sinkql.connectors.iceberg.file.partition import Partitions, divide
from sinkql.connectors.iceberg.table.schema import Layout, Term
from sinkql.logical.type import BIGINT, TEXT
from support.eager import compact_eagerly
from support.lake import NAMESPACE, Lake, Sink
from support.readers import connect, pyiceberg_rows, spark_rows

TERMS = [
    {"sql": "truncate(1, name)", "transform": "truncate[1]", "column": "name"},
    {"sql": "bucket(3, id)", "transform": "bucket[3]", "column": "id"},
]
NAMES = [None, *(first + rest for first in "abc" for rest in ("", "x", "yz"))]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def parted(lake: Lake, *, upsert: bool, **options: Any) -> Sink:
    return Sink(lake, "t", upsert=upsert, options={"partition_by": TERMS, **options})


def batch(random_: random.Random, ids: int = 40) -> list[tuple[int, str | None]]:
    return [(id_, random_.choice(NAMES)) for id_ in random_.sample(range(ids), random_.randrange(1, ids // 2))]


def check_places(table: Table) -> None:
    """Check that each file has rows of one partition only, and that manifests summarize their partitions."""
    head = table.current_snapshot()
    assert head is not None
    types = [field.field_type for field in table.spec().partition_type(table.schema()).fields]
    for manifest in head.manifests(table.io):
        entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
        for place, type_ in enumerate(types):
            values = [entry.data_file.partition[place] for entry in entries]
            known = [value for value in values if value is not None]
            assert manifest.partitions is not None
            assert isinstance(type_, PrimitiveType)
            said = manifest.partitions[place]
            assert said.contains_null == (None in values)
            if known:
                assert from_bytes(type_, said.lower_bound or b"") == min(known)
                assert from_bytes(type_, said.upper_bound or b"") == max(known)
        for file in (entry.data_file for entry in entries if entry.data_file.content == DataFileContent.DATA):
            rows = pq.read_table(file.file_path.removeprefix("file://"))
            found = [place for place, _ in divide(rows, table.schema(), table.spec())]
            assert found == [Partitions(table.metadata).place_of(file)]


@pytest.mark.parametrize("upsert", [False, True], ids=["append", "upsert"])
def test_rows_lie_in_their_partitions(lake: Lake, upsert: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinkql.connectors.iceberg.file.partitioned_writer._ROWS", 8)
    sink, random_ = parted(lake, upsert=upsert), random.Random(upsert)
    sink.start()
    rows: list[tuple[int, str | None]] = []
    for number in range(8):
        if number == 5:  # continue on another machine, without an index
            sink = parted(lake, upsert=upsert)
            sink.folder = lake.folder / "other"
            sink.__post_init__()
            sink.start(epoch=2)
        new = batch(random_)
        sink.put(*new)
        rows = [*({**dict(rows), **dict(new)}.items() if upsert else [*rows, *new])]
    table = lake.table("t")
    assert [(field.name, str(field.transform)) for field in table.spec().fields] == [
        ("name_trunc_1", "truncate[1]"),
        ("id_bucket_3", "bucket[3]"),
    ]
    assert sorted(rows, key=repr) == sorted(lake.rows("t"), key=repr)
    check_places(table)


def test_readers_skip_files_of_other_partitions(lake: Lake) -> None:
    sink = parted(lake, upsert=False)
    sink.start()
    sink.put(*((id_, name) for id_ in range(60) for name in ("a", "b")))
    table = lake.table("t")
    files = list(table.scan().plan_files())
    assert len(files) == 6 * 2  # two hash buckets
    wanted = list(table.scan(row_filter="id = 7").plan_files())
    assert len(wanted) == 2 * 2  # statistics of id exclude no file
    with connect() as duckdb:
        path = table.location().removeprefix("file://")
        plan = duckdb.execute(f"EXPLAIN ANALYZE SELECT * FROM iceberg_scan('{path}') WHERE name = 'a'").fetchall()
    assert "Total Files Read: 6 " in plan[0][1]


@pytest.mark.long
@pytest.mark.share(2)
@pytest.mark.parametrize("upsert", [True, False], ids=["upsert", "append"])
def test_compactions_stay_within_partitions(lake: Lake, upsert: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    compact_eagerly(monkeypatch)
    sink, random_ = parted(lake, upsert=upsert), random.Random(upsert)
    sink.start()
    rows: list[tuple[int, str | None]] = []
    compacted = 0
    for _ in range(8):
        new = batch(random_)
        sink.put(*new)
        compacted += sum(each.problem is None for each in sink.writer.maintenance.maintain())
        rows = [*({**dict(rows), **dict(new)}.items() if upsert else [*rows, *new])]
    assert compacted > 2
    assert sorted(rows, key=repr) == sorted(lake.rows("t"), key=repr)
    check_places(lake.table("t"))


@pytest.mark.parametrize(
    ("transform", "name"),
    [("identity", "gr_xF6_xDFe"), ("bucket[3]", "gr_xF6_xDFe_bucket_3"), ("truncate[1]", "gr_xF6_xDFe_trunc_1")],
)
def test_columns_with_names_beyond_ascii_part_tables_for_all_readers(lake: Lake, transform: str, name: str) -> None:
    term = {"sql": "as it is written", "transform": transform, "column": "größe"}
    columns = (physical.Column("id", BIGINT, nullable=False), physical.Column("größe", TEXT))
    for number in (1, 2):  # the second one finds an existing table
        sink = Sink(lake, "t", id=f"s{number}", columns=columns, options={"partition_by": [term]})
        sink.start()
        (field,) = lake.table("t").spec().fields
        assert name == field.name
    sink.put((1, "a"), (2, None), (3, "übermorgen"))
    assert {(1, "a"), (2, None), (3, "übermorgen")} == set(lake.rows("t", ("id", "größe")))


@pytest.mark.parametrize("taken", ["gr_xF6_xDFe", "GR_XF6_XDFE"])
def test_a_partitions_name_is_no_columns(taken: str) -> None:
    schema = Schema(NestedField(1, "größe", StringType()), NestedField(2, taken, StringType()))
    terms = (Term("größe", "identity", "größe"), Term(taken, "identity", taken))
    spec = Layout(terms).spec(schema)
    assert ["gr_xF6_xDFe_", taken] == [field.name for field in spec.fields]
    assert Layout(terms).has_spec(spec, schema)


@pytest.mark.parametrize("upsert", [False, True], ids=["append", "upsert"])
def test_files_of_an_old_spec_keep_their_partition_when_its_column_is_dropped(lake: Lake, upsert: bool) -> None:
    catalog = lake.catalog()
    catalog.create_namespace(NAMESPACE)
    schema = Schema(NestedField(1, "id", LongType(), True), NestedField(2, "name", StringType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "letter"))
    table = catalog.create_table((NAMESPACE, "t"), schema, partition_spec=spec)
    table.append(pa.table({"id": [1, 2, 4], "name": ["a", "a", None]}, schema=schema_to_pyarrow(schema)))
    with table.update_spec() as spec_change:
        spec_change.remove_field("letter")
    with table.update_schema() as change:
        change.delete_column("name")
    with table.update_schema() as change:
        change.add_column("name", StringType())
    sink = Sink(lake, "t", upsert=upsert, options={"existing_rows": "keep"})
    sink.start()
    for number in range(10):  # small manifests are merged during these commits
        sink.put((1, f"new {number}"), (3, None))
    table = lake.table("t")
    head = table.current_snapshot()
    assert head is not None
    manifests = [each for each in head.manifests(table.io) if each.partition_spec_id == 0]
    files = [entry.data_file for each in manifests for entry in each.fetch_manifest_entry(table.io)]
    assert {"a", None} == {file.partition[0] for file in files}
    deletes = {file.partition[0] for file in files if file.content == DataFileContent.POSITION_DELETES}
    assert deletes == ({"a"} if upsert else set())
    found = pyiceberg_rows(table, ("id", "name"))
    expected = {(2, None), (3, None), (4, None), (1, "new 9" if upsert else None)}
    assert expected <= set(found)
    assert (4 if upsert else 23) == len(found)


@pytest.mark.spark
@pytest.mark.parametrize("version", [2, 3])
def test_spark_applies_deletes_of_rows_that_moved(lake: Lake, spark: SparkSession, version: int) -> None:
    sink, random_ = parted(lake, upsert=True, format_version=version), random.Random(7)
    sink.start()
    rows: dict[int, str | None] = {}
    for _ in range(6):
        new = batch(random_)
        sink.put(*new)
        rows.update(new)
    table = lake.table("t")
    assert sorted(rows.items()) == spark_rows(spark, table)
    if version == 3:
        sink.writer.maintenance.optimize()
        before = _ids(spark, table)
        assert before == _ids(spark, lake.table("t"))
        assert len(rows) == len({id_ for _, id_, _ in before})


def _ids(spark: SparkSession, table: Table) -> list[tuple[Any, ...]]:
    """Return each row's key, id and last commit, as Spark reads them."""
    rows = spark.read.format("iceberg").load(table.metadata_location)
    return sorted(rows.select("id", "_row_id", "_last_updated_sequence_number").collect())
