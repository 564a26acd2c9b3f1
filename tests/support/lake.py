"""An Iceberg catalog, and sinks that tests drive by hand, one batch and commit at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from sinkql import physical
from sinkql.connector_api.stream import Checkpoint, ClaimRequest, Committed, Context, WriteResult, WriteTask
from sinkql.connector_api.types import arrow_type
from sinkql.connectors.aws.store import S3
from sinkql.connectors.iceberg.write.refresh import RefreshWriter
from sinkql.connectors.iceberg.write.replacement import DataFiles
from sinkql.connectors.iceberg.write.writer import IcebergWriter, open_writer
from sinkql.logical.type import BIGINT, TEXT
from sinkql.object_store.store import ObjectStore
from support.readers import Rows, duckdb_folder, duckdb_rest, pyiceberg_rows
from support.seaweed import SECRET, Seaweed

NAMESPACE = "shop"
COLUMNS = (physical.Column("id", BIGINT, nullable=False), physical.Column("name", TEXT))
Pairs = Sequence[tuple[int, str | None]]


@dataclass
class Lake:
    """A catalog, in local SQLite or on a REST server; `port` may be a proxy in front of the server."""

    folder: Path
    server: Seaweed | None = None
    port: int = 0

    @property
    def using(self) -> physical.Connection | None:
        """Return the connection that sinks use for their files."""
        return physical.Connection("aws", "AWS", {}) if self.server else None

    def store(self, connection: physical.Connection) -> ObjectStore:
        """Open the object store of a connection."""
        assert self.server is not None
        return S3(self.server.storage)

    @property
    def connection(self) -> physical.Connection:
        if self.server is None:
            options: dict[str, Any] = {
                "catalog_type": "sql",
                "url": f"sqlite:///{self.folder}/catalog.db",
                "warehouse": str(self.folder / "warehouse"),
            }
        else:
            options = {
                "catalog_type": "rest",
                "url": f"http://127.0.0.1:{self.port or self.server.rest}",
                "warehouse": "lake",
                "credential": {"secret_text": ["admin:", {"secret": "s"}]},
            }
        return physical.Connection("lake", "ICEBERG CATALOG", options)

    def catalog(self) -> Catalog:
        """Return the catalog, opened as another program opens it."""
        if self.server is None:
            return load_catalog(
                "default",
                type="sql",
                uri=f"sqlite:///{self.folder}/catalog.db",
                warehouse=f"file://{self.folder}/warehouse",
            )
        uri = f"http://127.0.0.1:{self.server.rest}"
        return load_catalog(
            "default",
            type="rest",
            uri=uri,
            warehouse="lake",
            credential=f"admin:{SECRET}",
            **{"oauth2-server-uri": f"{uri}/v1/oauth/tokens", **self.server.storage},
        )

    def table(self, name: str) -> Table:
        return self.catalog().load_table((NAMESPACE, name))

    def rows(self, name: str, columns: tuple[str, ...] = ("id", "name")) -> Rows:
        """Return the rows as read by DuckDB and by PyIceberg, and check that both are the same."""
        table = self.table(name)
        found = pyiceberg_rows(table, columns)
        wanted = ", ".join(columns)
        if self.server is None:
            other = duckdb_folder(table.location(), wanted)
        else:
            other = duckdb_rest(
                f"{NAMESPACE}.{name}",
                rest_port=self.server.rest,
                s3_port=self.server.s3,
                secret=SECRET,
                columns=wanted,
            )
        assert other == found
        return found


@dataclass
class Sink:
    """A sink that a test drives; rows are (id, name) pairs, offsets count batches."""

    lake: Lake
    table: str
    id: str = "5f6e1c1e-0001"
    upsert: bool = False
    changelog: bool = False
    columns: tuple[physical.Column, ...] = COLUMNS
    options: dict[str, Any] = field(default_factory=dict)
    folder: Path | None = None
    planned: physical.Write = field(init=False)
    context: Context = field(init=False)
    writer: IcebergWriter = field(init=False)

    def __post_init__(self) -> None:
        self.planned = physical.Write(
            input=physical.Read("numbers", "LOAD GENERATOR COUNTER", {}, self.columns),
            connector="ICEBERG CATALOG",
            connection=self.lake.connection,
            columns=self.columns,
            mode="upsert" if self.upsert else "append",
            change="append",
            changelog=self.changelog,
            key=("id",) if self.upsert else (),
            proven=False,
            options={"namespace": NAMESPACE, "table": self.table, **self.options},
            store=self.lake.using,
        )
        folder = self.folder or self.lake.folder / "state" / self.id
        self.context = Context("s", self.id, folder, lambda _: SECRET, self.lake.store)
        self.writer = open_writer(self.planned, self.context)

    @property
    def full_refresh(self) -> RefreshWriter:
        """Return the writer's full refresh."""
        full_refresh = self.writer.full_refresh
        assert full_refresh is not None, "an append sink has no full refresh"
        return full_refresh

    @property
    def data_files(self) -> DataFiles:
        """Return the writer's data files."""
        data_files = self.writer.data_files
        assert data_files is not None, "an upsert sink does not replace files"
        return data_files

    def start(self, *, epoch: int = 1) -> Checkpoint:
        """Open and claim the table."""
        self.writer.open()
        self.writer.load_checkpoint()
        return self.writer.claim(ClaimRequest({"numbers": {"batch": 0}}, epoch=epoch))

    def attempt(self, rows: Pairs) -> tuple[Checkpoint, WriteTask, list[WriteResult]]:
        """Refresh, begin and write the files of one batch."""
        checkpoint = self.writer.refresh()
        task = self.writer.begin(bucketing="test", buckets=2)
        return checkpoint, task, self.write(task, rows)

    def write(self, task: WriteTask, rows: Pairs) -> list[WriteResult]:
        """Run the task over rows, distributed to its buckets by id."""
        results = []
        for bucket in range(2):
            mine = [row for row in rows if row[0] % 2 == bucket]
            results.append(task(bucket, "a0", iter([_batch(mine, self.columns)] if mine else [])))
        return results

    def finish(self, attempt: tuple[Checkpoint, WriteTask, list[WriteResult]]) -> Committed:
        """Commit the files of an attempt."""
        checkpoint, task, results = attempt
        end = {"numbers": {"batch": checkpoint.end["numbers"]["batch"] + 1}}
        new = replace(checkpoint, commit=task.commit, start=checkpoint.end, end=end, plan="plan")
        return self.writer.commit(task, results, new)

    def put(self, *rows: tuple[int, str | None]) -> Committed:
        """Write and commit one batch."""
        return self.finish(self.attempt(rows))


def maintain_with(sink: Sink, **options: Any) -> None:
    """Change the maintenance options of a running sink."""
    sink.writer.maintenance._planned = replace(sink.writer.maintenance._planned, **options)


def _batch(rows: Pairs, columns: tuple[physical.Column, ...]) -> pa.RecordBatch:
    types = pa.int64(), arrow_type(columns[1].type)
    arrays = [pa.array([row[place] for row in rows], type_) for place, type_ in enumerate(types)]
    return pa.RecordBatch.from_arrays(
        [*arrays, pa.array(range(len(rows)), pa.int64())], names=[*(column.name for column in columns), "$seq"]
    )
