"""An item → its rows as they are now, as Arrow: a table's, a source's up to its present end, those a sink wrote.

A table of a server that is captured → the rows that it has now, asked of the server itself; rows that are pushed.

Nothing is made there, no slot above all, and the log of the capture is not asked: it has only what sinks need.

What EXPOSE PROGRESS names → how far its source is read, by what the catalog knows of its sinks and its capture.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sinkql import ast, logical, physical
from sinkql.capture.object_log_store import OpenJobStore, open_log_directory
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.memory import IDENTITY
from sinkql.connector_api.cdc import Key, Reveal, captured_source, captured_table
from sinkql.connector_api.planning import SourceKind
from sinkql.connector_api.stream import Offsets, Reader, Tally, plan_change_of
from sinkql.connector_api.types import python_values
from sinkql.errors import EndlessError, Notice, SinkqlError, Span
from sinkql.lowering.job import lower, lower_relation
from sinkql.planner.item.table import unique_keys
from sinkql.planner.name import short_name, sql_name
from sinkql.session.item.connector_access import CatalogAccess
from sinkql.session.result import Workspace
from sinkql.session.row.files import FileQuery
from sinkql.session.row.files import columns_of as columns_of_file
from sinkql.session.row.view_contents import ViewSnapshot, WithContents
from sinkql.table.file import TableFile, table_path
from sinkql.table.row import Codec, NarrowError, Row

if TYPE_CHECKING:
    import pyarrow as pa


MOST_ROWS = 5_000_000
Columns = tuple[Sequence[logical.Column], "pa.Table"]
"""Rows by column, and what the columns are."""


def changed(item: logical.Item, span: Span | None = None) -> SinkqlError:
    """Return the error for a table that has got more columns, or wider types, since a statement was planned."""
    return SinkqlError(
        "SQ5210",
        f'the columns of table "{short_name(item.name)}" have changed in the meantime',
        span,
        hint="Run the statement again.",
    )


def table_file(item: logical.Source, statement: ast.Create, catalog: Catalog) -> TableFile:
    """Return the file of a table's rows, with the keys that it keeps."""
    assert isinstance(statement, ast.CreateTable)
    names = [column.name for column in item.shape.columns]
    keys = [[names.index(name) for name in key] for key in unique_keys(statement)]
    path = table_path(catalog.database.folder, item.options["table_id"], short_name(item.name))
    return TableFile(path, Codec([str(column.type) for column in item.shape.columns]), keys)


def python_rows(table: pa.Table, span: Span | None = None) -> list[Row]:
    """Return rows as Python has them; raises SQ2647 for dates and times of years that it has not."""
    try:
        return list(zip(*map(python_values, table.columns), strict=True))
    except (OverflowError, ValueError):
        raise SinkqlError(
            "SQ2647",
            "a date or time is outside the years 1 to 9999, which tables and results do not hold",
            span,
            hint="Leave such rows out with WHERE, or cast the value to text.",
        ) from None


def columns_of(item: logical.Source | logical.Sink) -> tuple[logical.Column, ...]:
    """Return the columns that reading an item gives."""
    from sinkql.planner.query.plan import sink_shape  # sqlglot loads only where there is a query

    return (sink_shape(item) if isinstance(item, logical.Sink) else item.shape).columns


class Inputs:
    """Read items for one statement; `limit` is how many rows of each are enough. `notices` tell what was left out.

    `files` are what it reads besides items, `contents` the views whose rows are read and not computed.
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
        """Return an item's rows by column; raises SQ2641 where they are too many, SQ2405 where they never end."""
        import pyarrow as pa

        if self._files is not None and full_name in self._files.files:
            return columns_of_file(self._files.plans.item(full_name)), self._rows_of_file(full_name)
        if full_name in self._contents.views:
            kept = pa.concat_tables(self._kept(full_name)).slice(0, self._limit)
            return self._contents.views[full_name][0].view.shape.columns, kept
        item, statement = self._item(full_name)
        if not isinstance(statement, ast.CreateTable | ast.CreateProgress):
            return columns_of(item), self._sink(item) if isinstance(item, logical.Sink) else self._source(item)
        codec = Codec([str(column.type) for column in item.shape.columns])
        try:
            arrays = codec.arrays(self._table(item, statement))
        except NarrowError:
            raise changed(item) from None
        return item.shape.columns, pa.table(arrays, names=[column.name for column in item.shape.columns])

    def tuples(self, full_name: str) -> Iterable[Row]:
        """Return an item's rows, those of a view one after the other; raises as `rows` does."""
        if full_name in self._contents.views:
            rows = (row for table in self._kept(full_name) for row in python_rows(table, self._span))
            return islice(rows, self._limit)
        if self._files is None or full_name not in self._files.files:
            item, statement = self._item(full_name)
            if isinstance(statement, ast.CreateTable | ast.CreateProgress):
                return self._table(item, statement)
        _, found = self.rows(full_name)
        return python_rows(found, self._span)

    @property
    def plans(self) -> logical.CatalogReader:
        """Return the catalog that has all that is read."""
        plans = self._files.plans if self._files is not None else self._catalog.plans
        return WithContents(plans, self._contents) if self._contents.views else plans

    def _kept(self, full_name: str) -> Iterator[pa.Table]:
        rows = 0
        for table in self._contents.tables(full_name):
            yield table
            rows += table.num_rows
            if self._limit is not None and rows >= self._limit:
                return
            self._check(full_name, rows)

    def _rows_of_file(self, full_name: str) -> pa.Table:
        import pyarrow as pa

        assert self._files is not None
        file, found, rows = self._files.files[full_name], [], 0
        for batch in file.batches():
            found.append(batch)
            rows += batch.num_rows
            if self._limit is not None and rows >= self._limit:
                break
            self._check(full_name, rows)
        return pa.Table.from_batches(found, file.schema()).slice(0, self._limit)

    def _item(self, full_name: str) -> tuple[logical.Source | logical.Sink, ast.Create]:
        item, entry = self._catalog.plans.item(full_name), self._catalog.plans.entry(full_name)
        assert entry is not None
        assert isinstance(item, logical.Source | logical.Sink)
        return item, entry.statement

    def _table(self, item: logical.Source | logical.Sink, statement: ast.CreateTable | ast.CreateProgress) -> list[Row]:
        assert isinstance(item, logical.Source)
        if isinstance(statement, ast.CreateProgress):
            return list(progress_rows(item, self._catalog))[: self._limit]
        found = table_file(item, statement, self._catalog).rows(
            self._limit if self._limit is not None else MOST_ROWS + 1
        )
        self._check(item.name, len(found))
        return found

    def _sink(self, item: logical.Sink) -> pa.Table:
        job = lower(item.name, self._catalog.plans)
        kind = self._catalog.registry.sinks[item.kind]
        columns = columns_of(item)
        if kind.rows is None:
            raise SinkqlError(
                "SQ2643", f'cannot read the rows that sink "{short_name(item.name)}" wrote', self._span,
                hint="Select from what the sink reads.",
            )  # fmt: skip
        wanted = physical_columns(columns)
        limit = self._limit if self._limit is not None else MOST_ROWS + 1
        found: pa.Table = kind.rows(job.write, self._workspace.context(job), wanted, limit, switch=plan_change_of(job))
        self._check(item.name, found.num_rows)
        return found

    def _source(self, item: logical.Source) -> pa.Table:
        import pyarrow as pa

        read = lower_relation(item, self._catalog.plans)
        assert isinstance(read, physical.Read)
        access = CatalogAccess(self._catalog)
        kind = self._catalog.registry.sources.get(item.kind)
        if kind is not None and kind.stream is not None:
            if item.shape.change is logical.Change.APPEND:
                return self._pushed(item, read)
            return self._present(item, kind, read, access)
        with tempfile.TemporaryDirectory(prefix="sinkql-query-") as folder:
            context = access.context("query", "query", Path(folder))
            reader = self._catalog.registry.reader(read, context)
            tally = Tally()
            batches = list(self._batches(item, reader, tally))
        self._tell(item, tally)
        schema = _schema(item)
        if item.shape.change is logical.Change.RETRACT:
            return _present(batches, schema)
        if item.shape.change is logical.Change.UPSERT:
            return _last(batches, schema, read.key).slice(0, self._limit)
        return pa.Table.from_batches(batches, schema).slice(0, self._limit)

    def _present(self, item: logical.Source, kind: SourceKind, read: physical.Read, access: CatalogAccess) -> pa.Table:
        """Return the rows that a captured table has on its server."""
        tally = Tally()
        found = self._enough(item, present_rows(kind, read, access.secret, tally, self._limit))
        self._tell(item, tally)
        return found

    def _pushed(self, item: logical.Source, read: physical.Read) -> pa.Table:
        """Return the rows that the log of a source has, whose rows others send."""
        self.notices.append(
            Notice(
                "SQ2648",
                f'source "{short_name(item.name)}" shows what its log still has: what sinks have not read, '
                "and the last hour",
            )
        )
        folder, access = self._catalog.database.folder, CatalogAccess(self._catalog)
        return self._enough(item, pushed_rows(read, folder, access.job_store))

    def _enough(self, item: logical.Source, batches: Iterator[pa.RecordBatch]) -> pa.Table:
        """Return as many rows as are wanted."""
        import pyarrow as pa

        found, rows = [], 0
        for batch in batches:
            found.append(batch)
            rows += batch.num_rows
            if self._limit is not None and rows >= self._limit:
                break
            self._check(item.name, rows)
        return pa.Table.from_batches(found, _schema(item)).slice(0, self._limit)

    def _tell(self, item: logical.Source, tally: Tally) -> None:
        if tally.failed:
            message = f'invalid rows of source "{short_name(item.name)}" that are left out: {tally.failed}'
            self.notices.append(Notice("SQ2644", message))

    def _batches(self, item: logical.Source, reader: Reader, tally: Tally) -> Iterator[pa.RecordBatch]:
        start = reader.initial(at_end=False)
        enough = self._limit if item.shape.change is logical.Change.APPEND else None
        rows = 0
        for split in reader.splits(start, self._end(item, reader, start)):
            for batch in reader.read(split, tally):
                yield batch
                rows += batch.num_rows
                if enough is not None and rows >= enough:
                    return
                self._check(item.name, rows)

    def _end(self, item: logical.Source, reader: Reader, start: Offsets) -> Offsets:
        """Return the source's present end; of one without an end, where as many rows as are wanted have come."""
        try:
            return reader.target(start)
        except EndlessError:
            kind = self._catalog.registry.sources.get(item.kind)
            first = kind.first if kind is not None else None
            if first is None or self._limit is None:
                raise _endless(item, self._span) from None
            return first(start, self._limit)

    def _check(self, full_name: str, rows: int) -> None:
        if rows > MOST_ROWS:
            raise SinkqlError(
                "SQ2641",
                f'"{short_name(full_name)}" has more than {MOST_ROWS:,} rows, too many for one query',
                self._span,
                hint="Make a materialized view and a sink of the query, or add LIMIT to SELECT … FROM one relation.",
            )


def _endless(item: logical.Source, span: Span) -> EndlessError:
    hint = f"Write SELECT … FROM {sql_name(item.name)} LIMIT 10, or give the source an end."
    return EndlessError(
        "SQ2405", f'source "{short_name(item.name)}" never ends, so it cannot be read once', span, hint=hint
    )


def _present(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Return the rows that have come and not gone."""
    import pyarrow as pa

    counts: Counter[tuple[Any, ...]] = Counter()
    for batch in batches:
        for *row, diff in python_rows(pa.Table.from_batches([batch])):
            counts[tuple(row)] += diff
    columns = list(zip(*counts.elements(), strict=True)) or [()] * len(schema)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def _last(batches: list[pa.RecordBatch], schema: pa.Schema, key: Sequence[str]) -> pa.Table:
    """Return the row that each key has in the end."""
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
    """Return columns as a job has them."""
    return tuple(physical.Column(column.name, str(column.type), column.nullable) for column in columns)


def _schema(item: logical.Source) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([(column.name, _arrow(column.type)) for column in item.shape.columns])


def _arrow(type_: logical.Type) -> pa.DataType:
    from sinkql.connector_api.types import arrow_type

    return arrow_type(str(type_))


_PART = 8 << 20
_ROW = 1600
"""How many bytes a row is taken to have at most, as long as that is not known."""


def present_rows(
    kind: SourceKind, read: physical.Read, secret: Reveal, tally: Tally, limit: int | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table as one transaction of its server sees them, part by part as they are taken.

    Where a `limit` of rows is wanted, little more is asked for. Raises what the connector does.
    """
    assert kind.stream is not None
    source, _ = captured_source(read.connector, read.options, read.connection)
    table = captured_table(read)
    size = _PART if limit is None else min(_PART, _ROW * max(limit, 1))
    stream = kind.stream(source, secret)
    try:
        with stream.chunk(table) as chunks:
            last: Key | None = None
            while True:
                chunk = chunks.read(last, size)
                for part in chunk.rows:
                    tally.failed += len(part.errors)
                    yield part.rows.select([column.name for column in read.columns])
                last = chunk.last
                if last is None:
                    return
    finally:
        stream.close()


def pushed_rows(read: physical.Read, folder: Path, open_store: OpenJobStore) -> Iterator[pa.RecordBatch]:
    """Yield the rows that the log has now, in order: what sinks forget meanwhile is left out. `folder`: the catalog's.

    Nobody is asked, no capture above all: it runs only while a sink does.
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
    """Return the rows of a source's progress; none before anything is known."""
    name = item.options["source"]
    source, entry = catalog.plans.item(name), catalog.plans.entry(name)
    assert isinstance(source, logical.Source)
    assert entry is not None
    kind = catalog.registry.sources[source.kind].progress
    assert kind is not None, "planned where there is one"
    captured = _captured(str(entry.facts["source_id"]), catalog) if "source_id" in entry.facts else None
    return kind.rows(list(_committed(name, entry.facts.get(IDENTITY, name), catalog)), captured)


def _committed(name: str, known_as: str, catalog: Catalog) -> Iterator[Offsets]:
    """Yield the offsets that each sink has committed."""
    plans = catalog.plans
    entries = (plans.entry(each) for each in plans.all_users(name))
    ids = [each.facts["sink_id"] for each in entries if each is not None and each.kind == "SINK"]
    with catalog.database.read() as connection:
        for id_ in ids:
            row = connection.execute("SELECT offsets FROM progress WHERE sink_id = ?", (id_,)).fetchone()
            found = json.loads(row[0]).get(known_as) if row is not None else None
            if found is not None:
                yield found


def _captured(source_id: str, catalog: Catalog) -> str | None:
    """Return up to where the log of a captured source has all changes."""
    with catalog.database.read() as connection:
        row = connection.execute("SELECT figures FROM measures WHERE id = ?", (source_id,)).fetchone()
    return None if row is None else json.loads(row[0]).get("", {}).get("captured_to")
