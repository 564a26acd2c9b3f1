"""Read the present rows of an item as Arrow: of a table, of a source up to its present end, or of a sink's table.

The rows of a captured table come from its server, without a replication slot. The capture log would not do, because it
has only the changes that sinks need. The rows of a progress relation come from the catalog.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sinkql import ast, logical, physical
from sinkql.capture.object_log_store import OpenJobStore, open_log_directory
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.memory import IDENTITY
from sinkql.catalog.system.item import SystemRows
from sinkql.connector_api.cdc import Key, OpenStream, Reveal, captured_source, captured_table
from sinkql.connector_api.stream import Offsets, ReadCounts, Reader, plan_change_of
from sinkql.connector_api.types import arrow_type, python_values
from sinkql.errors import EndlessError, Notice, SinkqlError, Span
from sinkql.lowering.job import lower, lower_relation
from sinkql.planner.item.table import unique_keys
from sinkql.planner.name import short_name, sql_name
from sinkql.session.item.connector_access import CatalogAccess
from sinkql.session.result import Workspace
from sinkql.session.row.files import FileQuery, FileRows
from sinkql.session.row.files import columns_of as columns_of_file
from sinkql.session.row.view_contents import ViewSnapshot, WithContents
from sinkql.table.file import TableFile, table_path
from sinkql.table.row import Codec, NarrowError, Row

if TYPE_CHECKING:
    import pyarrow as pa


MOST_ROWS = 5_000_000
Columns = tuple[Sequence[logical.Column], "pa.Table"]
"""The columns and the rows as an Arrow table."""


def columns_changed_error(item: logical.Item, span: Span | None = None) -> SinkqlError:
    """Return the error for a table whose columns have changed since the statement was planned."""
    return SinkqlError(
        "SQ5210",
        f'the columns of table "{short_name(item.name)}" have changed since the statement was planned',
        span,
        hint="Run the statement again.",
    )


def table_file(item: logical.Source, statement: ast.CreateTable, catalog: Catalog) -> TableFile:
    """Return the file of a table's rows, with its unique keys."""
    names = [column.name for column in item.shape.columns]
    keys = [[names.index(name) for name in key] for key in unique_keys(statement)]
    path = table_path(catalog.database.folder, item.options["table_id"], short_name(item.name))
    return TableFile(path, Codec([column.type for column in item.shape.columns]), keys)


def python_rows(table: pa.Table, span: Span | None = None) -> list[Row]:
    """Return rows as Python values. Raise SQ2647 for years that Python does not support."""
    try:
        return list(zip(*map(python_values, table.columns), strict=True))
    except (OverflowError, ValueError):
        raise SinkqlError(
            "SQ2647",
            "a date or time is outside the years 1 to 9999, which tables and results cannot hold",
            span,
            hint="Exclude these rows with WHERE, or cast the value to text.",
        ) from None


def columns_of(item: logical.Source | logical.Sink) -> tuple[logical.Column, ...]:
    """Return the columns of an item's rows."""
    from sinkql.planner.query.plan import sink_shape  # loads sqlglot, which only queries need

    return (sink_shape(item) if isinstance(item, logical.Sink) else item.shape).columns


class Inputs:
    """The inputs of one statement. `limit` is the number of rows needed of each; `notices` count failed rows.

    `files` has the files and system relations, and `contents` the views whose rows come from their logs.
    """

    def __init__(
        self,
        workspace: Workspace,
        span: Span,
        limit: int | None = None,
        files: FileQuery | None = None,
        contents: ViewSnapshot | None = None,
    ) -> None:
        self._workspace, self._catalog = workspace, workspace.catalog
        self._span = span
        self._limit = limit
        self._files = files
        self._contents = contents or ViewSnapshot({})
        self.notices: list[Notice] = []

    def rows(self, full_name: str) -> Columns:
        """Return an item's rows by column. Raise SQ2641 if there are too many, and SQ2405 for an endless source."""
        import pyarrow as pa

        if self._files is not None and full_name in self._files.files:
            return columns_of_file(full_name, self._files.plans), self._file_rows(
                self._files.files[full_name], full_name
            )
        if full_name in self._contents.views:
            rows = pa.concat_tables(self._view_tables(full_name)).slice(0, self._limit)
            return self._contents.views[full_name][0].view.shape.columns, rows
        item, statement = self._item(full_name)
        if isinstance(item, logical.Sink):
            return columns_of(item), self._sink_rows(item)
        if not isinstance(statement, ast.CreateTable | ast.CreateProgress):
            return columns_of(item), self._source_rows(item)
        codec = Codec([column.type for column in item.shape.columns])
        try:
            arrays = codec.arrays(self._table_rows(item, statement))
        except NarrowError:
            raise columns_changed_error(item) from None
        return item.shape.columns, pa.table(arrays, names=[column.name for column in item.shape.columns])

    @property
    def plans(self) -> logical.CatalogReader:
        """Return the catalog with all inputs."""
        plans = self._files.plans if self._files is not None else self._catalog.plans
        return WithContents(plans, self._contents) if self._contents.views else plans

    def _view_tables(self, full_name: str) -> Iterator[pa.Table]:
        rows = 0
        for table in self._contents.tables(full_name):
            yield table
            rows += table.num_rows
            if self._limit is not None and rows >= self._limit:
                return
            self._check_size(full_name, rows)

    def _file_rows(self, file: FileRows | SystemRows, full_name: str) -> pa.Table:
        import pyarrow as pa

        batches, rows = [], 0
        for batch in file.batches():
            batches.append(batch)
            rows += batch.num_rows
            if self._limit is not None and rows >= self._limit:
                break
            self._check_size(full_name, rows)
        return pa.Table.from_batches(batches, file.schema()).slice(0, self._limit)

    def _item(self, full_name: str) -> tuple[logical.Source | logical.Sink, ast.Create]:
        plans = self._catalog.plans
        item, entry = plans.item(full_name), logical.get_entry(plans, full_name)
        if isinstance(item, logical.Sink):
            return item, entry.statement
        return logical.get_item(plans, full_name, logical.Source), entry.statement

    def _table_rows(self, item: logical.Source, statement: ast.CreateTable | ast.CreateProgress) -> list[Row]:
        if isinstance(statement, ast.CreateProgress):
            return list(progress_rows(item, self._catalog))[: self._limit]
        rows = table_file(item, statement, self._catalog).rows(
            self._limit if self._limit is not None else MOST_ROWS + 1
        )
        self._check_size(item.name, len(rows))
        return rows

    def _sink_rows(self, item: logical.Sink) -> pa.Table:
        job = lower(item.name, self._catalog.plans)
        kind = self._catalog.registry.sinks[item.kind]
        columns = columns_of(item)
        if kind.rows is None:
            raise SinkqlError(
                "SQ2643", f'cannot read the rows that sink "{short_name(item.name)}" wrote', self._span,
                hint="Select from the relation that the sink reads.",
            )  # fmt: skip
        output_columns = physical_columns(columns)
        limit = self._limit if self._limit is not None else MOST_ROWS + 1
        rows: pa.Table = kind.rows(
            job.write, self._workspace.context(job), output_columns, limit, switch=plan_change_of(job)
        )
        self._check_size(item.name, rows.num_rows)
        return rows

    def _source_rows(self, item: logical.Source) -> pa.Table:
        import pyarrow as pa

        read = lower_relation(item, self._catalog.plans)
        access = CatalogAccess(self._catalog)
        kind = self._catalog.registry.sources.get(item.kind)
        open_stream = kind.stream if kind is not None else None
        if open_stream is not None:
            if item.shape.change is logical.Change.APPEND:
                return self._log_rows(item, read)
            return self._server_rows(item, open_stream, read, access)
        with tempfile.TemporaryDirectory(prefix="sinkql-query-") as folder:
            context = access.context("query", "query", Path(folder))
            reader = self._catalog.registry.reader(read, context)
            read_counts = ReadCounts()
            batches = list(self._batches(item, reader, read_counts))
        self._add_failed_notice(item, read_counts)
        schema = _schema(item)
        if item.shape.change is logical.Change.RETRACT:
            return _consolidated(batches, schema)
        if item.shape.change is logical.Change.UPSERT:
            return _last_rows(batches, schema, read.key).slice(0, self._limit)
        return pa.Table.from_batches(batches, schema).slice(0, self._limit)

    def _server_rows(
        self, item: logical.Source, open_stream: OpenStream, read: physical.Read, access: CatalogAccess
    ) -> pa.Table:
        """Return the rows of a captured table from its server."""
        read_counts = ReadCounts()
        rows = self._limited(item, present_rows(open_stream, read, access.secret, read_counts, self._limit))
        self._add_failed_notice(item, read_counts)
        return rows

    def _log_rows(self, item: logical.Source, read: physical.Read) -> pa.Table:
        """Return the rows in the log of a source to which clients send rows."""
        self.notices.append(
            Notice(
                "SQ2648",
                f'source "{short_name(item.name)}" shows only the rows in its log: rows that sinks have not read, '
                "and rows of the last hour",
            )
        )
        folder, access = self._catalog.database.folder, CatalogAccess(self._catalog)
        return self._limited(item, pushed_rows(read, folder, access.job_store))

    def _limited(self, item: logical.Source, batches: Iterator[pa.RecordBatch]) -> pa.Table:
        """Return the rows up to the limit."""
        import pyarrow as pa

        read_batches, rows = [], 0
        for batch in batches:
            read_batches.append(batch)
            rows += batch.num_rows
            if self._limit is not None and rows >= self._limit:
                break
            self._check_size(item.name, rows)
        return pa.Table.from_batches(read_batches, _schema(item)).slice(0, self._limit)

    def _add_failed_notice(self, item: logical.Source, read_counts: ReadCounts) -> None:
        if read_counts.failed:
            message = f'invalid rows of source "{short_name(item.name)}" that are left out: {read_counts.failed}'
            self.notices.append(Notice("SQ2644", message))

    def _batches(self, item: logical.Source, reader: Reader, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        start = reader.initial(at_end=False)
        limit = self._limit if item.shape.change is logical.Change.APPEND else None
        rows = 0
        for split in reader.splits(start, self._end(item, reader, start)):
            for batch in reader.read(split, read_counts):
                yield batch
                rows += batch.num_rows
                if limit is not None and rows >= limit:
                    return
                self._check_size(item.name, rows)

    def _end(self, item: logical.Source, reader: Reader, start: Offsets) -> Offsets:
        """Return the source's present end, or for an endless source the end of the wanted rows."""
        try:
            return reader.target(start)
        except EndlessError:
            kind = self._catalog.registry.sources.get(item.kind)
            first = kind.first if kind is not None else None
            if first is None or self._limit is None:
                raise _endless_error(item, self._span) from None
            return first(start, self._limit)

    def _check_size(self, full_name: str, rows: int) -> None:
        if rows > MOST_ROWS:
            raise SinkqlError(
                "SQ2641",
                f'"{short_name(full_name)}" has more than {MOST_ROWS:,} rows, too many for one query',
                self._span,
                hint="Create a materialized view and a sink of the query, or add LIMIT to SELECT … FROM one relation.",
            )


def _endless_error(item: logical.Source, span: Span) -> EndlessError:
    hint = f"Use SELECT … FROM {sql_name(item.name)} LIMIT 10, or give the source an end."
    return EndlessError(
        "SQ2405", f'source "{short_name(item.name)}" never ends, so it cannot be read once', span, hint=hint
    )


def _consolidated(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Return the rows after consolidation."""
    import pyarrow as pa

    counts: Counter[tuple[Any, ...]] = Counter()
    for batch in batches:
        for *row, diff in python_rows(pa.Table.from_batches([batch])):
            counts[tuple(row)] += diff
    columns = list(zip(*counts.elements(), strict=True)) or [()] * len(schema)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def _last_rows(batches: list[pa.RecordBatch], schema: pa.Schema, key: Sequence[str]) -> pa.Table:
    """Return the last row of each key."""
    import pyarrow as pa

    places = [schema.get_field_index(name) for name in key]
    last: dict[tuple[Any, ...], int] = {}
    row = 0
    for batch in batches:
        keys = zip(*(python_values(batch.column(place)) for place in places), strict=True)
        for values, diff in zip(keys, batch.column(len(schema)).to_pylist(), strict=True):
            last.pop(values, None)
            if diff > 0:
                last[values] = row
            row += 1
    columns = [
        pa.chunked_array([batch.column(place) for batch in batches], field.type) for place, field in enumerate(schema)
    ]
    return pa.table(columns, schema=schema).take(pa.array(list(last.values()), pa.int64()))


def physical_columns(columns: tuple[logical.Column, ...]) -> tuple[physical.Column, ...]:
    """Return columns in the form of a job."""
    return tuple(physical.Column(column.name, column.type, column.nullable) for column in columns)


def _schema(item: logical.Source) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([(column.name, arrow_type(column.type)) for column in item.shape.columns])


_CHUNK_BYTES = 8 << 20
_ROW_BYTES = 1600
"""The assumed upper limit of a row's bytes, for a small first chunk."""


def present_rows(
    open_stream: OpenStream, read: physical.Read, secret: Reveal, read_counts: ReadCounts, limit: int | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table lazily, as one transaction of its server sees them.

    With a `limit`, read only a few more rows. Raise the errors of the connector.
    """
    source, _ = captured_source(read.connector, read.options, read.connection)
    table = captured_table(read)
    size = _CHUNK_BYTES if limit is None else min(_CHUNK_BYTES, _ROW_BYTES * max(limit, 1))
    stream = open_stream(source, secret)
    try:
        with stream.chunk(table) as chunks:
            last: Key | None = None
            while True:
                chunk = chunks.read(last, size)
                for part in chunk.rows:
                    read_counts.failed += len(part.errors)
                    yield part.rows.select([column.name for column in read.columns])
                last = chunk.last
                if last is None:
                    return
    finally:
        stream.close()


def pushed_rows(read: physical.Read, folder: Path, open_store: OpenJobStore) -> Iterator[pa.RecordBatch]:
    """Yield the present rows of a log in order, without rows that are deleted during the read.

    `folder` is the catalog's folder. The capture need not run.
    """
    from sinkql.capture import data_file  # pyarrow

    source, keeping = captured_source(read.connector, read.options, read.connection, read.log)
    table, log = captured_table(read), open_log_directory(folder, source, keeping, open_store)
    for number in log.numbers():
        entry = log.entry(number)
        part = entry.tables.get(table.id) if entry is not None else None
        for file in part.files if part is not None else ():
            with suppress(data_file.DamagedError):
                for batch in data_file.read(log.store, file):
                    yield batch.select([column.name for column in read.columns])


def progress_rows(item: logical.Source, catalog: Catalog) -> Sequence[tuple[Any, ...]]:
    """Return the rows of a progress relation; empty before the first report."""
    name = item.options["source"]
    source, entry = logical.get_item(catalog.plans, name, logical.Source), logical.get_entry(catalog.plans, name)
    kind = catalog.registry.sources[source.kind].progress
    assert kind is not None, "planning requires a progress"
    captured = _captured_position(str(entry.facts["source_id"]), catalog) if "source_id" in entry.facts else None
    return kind.rows(list(_committed_offsets(name, entry.facts.get(IDENTITY, name), catalog)), captured)


def _committed_offsets(name: str, identity: str, catalog: Catalog) -> Iterator[Offsets]:
    """Yield the committed offsets of each sink of a source."""
    plans = catalog.plans
    entries = (plans.entry(entry) for entry in plans.all_users(name))
    ids = [entry.facts["sink_id"] for entry in entries if entry is not None and entry.kind == "SINK"]
    with catalog.database.read() as connection:
        for id_ in ids:
            row = connection.execute("SELECT offsets FROM progress WHERE sink_id = ?", (id_,)).fetchone()
            offsets = json.loads(row[0]).get(identity) if row is not None else None
            if offsets is not None:
                yield offsets


def _captured_position(source_id: str, catalog: Catalog) -> str | None:
    """Return the position up to which a capture log is complete."""
    with catalog.database.read() as connection:
        row = connection.execute("SELECT figures FROM measures WHERE id = ?", (source_id,)).fetchone()
    return None if row is None else json.loads(row[0]).get("", {}).get("captured_to")
