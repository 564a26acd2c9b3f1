"""An upsert sink on a real table without Spark: each batch is one snapshot. Readers return the table's rows."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import duckdb
import pyarrow as pa
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, NestedField

from sinkql import physical
from sinkql.connector_api.stream import WriteResult
from sinkql.connectors.iceberg.commit.snapshot import FileChange, Notes, prepare
from sinkql.connectors.iceberg.compact.compaction import Attempt
from sinkql.connectors.iceberg.compact.selection import choose
from sinkql.connectors.iceberg.compact.upsert import UpsertCompaction
from sinkql.connectors.iceberg.key_index.change import one_each
from sinkql.connectors.iceberg.key_index.index import Index, IndexChange
from sinkql.connectors.iceberg.key_index.key_hash import key_columns
from sinkql.connectors.iceberg.key_index.rebuild import build_index, catch_up
from sinkql.connectors.iceberg.table.sql_catalog import CachingCatalog
from sinkql.connectors.iceberg.write.upsert_task import UpsertTask
from sinkql.state_store.directory import StateDirectory
from support.index import live_entries

T = TypeVar("T")
NAME = "5b1c6c1e-1f62-4f0e-9f3d-0c8f6c1a7b11"


def create_table(
    folder: Path,
    columns: Mapping[str, IcebergType],
    properties: dict[str, str] | None = None,
    spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
) -> Table:
    catalog = CachingCatalog("test", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    catalog.create_namespace("shop")
    fields = [NestedField(number, name, type_) for number, (name, type_) in enumerate(columns.items(), 1)]
    return catalog.create_table(
        "shop.orders", Schema(*fields), partition_spec=spec, properties={"format-version": "2", **(properties or {})}
    )


def whole(steps: Generator[bool, None, T], between: Callable[[], None]) -> T:
    """Run a generator to its end and return its result; call `between` after each step."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found
        between()


def changes(results: Iterable[WriteResult]) -> list[IndexChange]:
    """Return the index changes of a batch's results."""
    return [result.data.change for result in results if result.data is not None]


class Sink:
    """An upsert sink that writes to a table like the real writer; `bucket_of` replaces the engine's shuffle."""

    def __init__(self, table: Table, key: Sequence[str], folder: Path, *, change: physical.Change = "append") -> None:
        self.table, self.folder, self.change = table, folder, change
        self.key = key_columns(table, tuple(key))
        self.epoch, self.buckets, self.bucketing = 1, 2, "crc"
        self.merged = 0
        self.index = build_index(table, self.key, folder, sink=NAME, epoch=1)

    def task(self) -> UpsertTask:
        self.index.save(self.folder)
        return UpsertTask.from_index(
            self.table,
            self.index,
            StateDirectory(self.folder),
            epoch=self.epoch,
            commit=uuid4().hex,
            change=self.change,
            bucketing=self.bucketing,
            buckets=self.buckets,
        )

    def run(self, task: UpsertTask, batch: pa.Table) -> list[WriteResult]:
        names = [column.name for column in self.key]
        homes = [self._bucket_of(tuple(row.values())) for row in batch.select(names).to_pylist()]
        results = []
        for bucket in range(self.buckets):
            rows = batch.filter(pa.array([home == bucket for home in homes], pa.bool_()))
            results.append(task(bucket, uuid4().hex[:8], iter(rows.to_batches())))
        return results

    def commit(self, task: UpsertTask, results: Iterable[WriteResult]) -> None:
        results = list(results)
        data = [result.data for result in results if result.data is not None]
        found, entries = one_each(
            changes(results),
            [entry for each in data for entry in each.entries],
            self.index,
            task.table,
            f"both-{task.commit}",
        )
        index = self.index.after(found, epoch=self.epoch, commit=task.commit)
        self.name = index.save(self.folder)
        self.merged += sum(bool(each.change.merged) for each in data)
        prepared = prepare(
            self.table, FileChange(tuple(entries), index.leaving), lambda snapshot, sequence: Notes({}, {})
        )
        self.table.catalog.commit_table(self.table, prepared.requirements, prepared.updates)
        self.table.refresh()
        self.index = index

    def apply(self, batch: pa.Table) -> None:
        task = self.task()
        self.commit(task, self.run(task, batch))

    def compact(self, between: Callable[[], None] = lambda: None) -> bool:
        """Compact the files that are due and call `between` after each step; return whether any were due."""
        parts = choose(self.index, self.table)
        if parts is None:
            return False
        key = tuple(column.name for column in self.key)
        attempt = Attempt(uuid4().hex, lambda: self.table)
        rewriting = UpsertCompaction(lambda: self.index, self.folder, attempt, sink=NAME, key=key, epoch=self.epoch)
        found = whole(rewriting.rewrite(parts), between)
        if found is None:
            return False
        done, index = found
        prepared = prepare(self.table, done.change, lambda snapshot, sequence: Notes({}, {}))
        self.table.catalog.commit_table(self.table, prepared.requirements, prepared.updates)
        self.table.refresh()
        self.index, self.name = index, index.name
        return True

    def restart(self) -> Index | None:
        """Load the last commit's index as a starting sink does; None if it cannot be used."""
        return Index.load(self.folder, self.name, self.key)

    def recover_index(self) -> None:
        self.index = build_index(self.table, self.key, self.folder, sink=NAME, epoch=self.epoch)

    def catch_up(self) -> None:
        self.table.refresh()
        self.index = catch_up(self.index, self.table, self.folder, epoch=self.epoch)

    def places(self) -> list[tuple[int, int, str, int]]:
        """Return the index's content: each live key's hash, and the path and position of its row."""
        entries = live_entries(self.index, self.folder)
        paths = [self.index.files[int(file)].path for file in entries.file]
        return list(zip(entries.h1.tolist(), entries.h2.tolist(), paths, entries.pos.tolist(), strict=True))

    def _bucket_of(self, key: tuple[Any, ...]) -> int:
        return zlib.crc32(f"{self.bucketing}{key!r}".encode()) % self.buckets


def duckdb_rows(table: Table) -> list[tuple[Any, ...]]:
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", "iceberg"):
        folder = Path(str(importlib.import_module(f"duckdb_extension_{name}").__file__)).parent
        (extension,) = folder.glob(f"extensions/*/{name}.duckdb_extension")
        connection.execute(f"LOAD '{extension}'")
    names = ", ".join(f'"{field.name}"' for field in table.schema().fields)
    rows: list[tuple[Any, ...]] = connection.execute(
        f"SELECT {names} FROM iceberg_scan('{table.metadata_location}')"
    ).fetchall()
    return rows


def pyiceberg_rows(table: Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.scan().to_arrow().to_pylist()]


def batch_of(columns: dict[str, list[Any]], types: dict[str, pa.DataType]) -> pa.Table:
    return pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})
