"""An item → its rows as they are now, as Arrow: a table's, a source's up to its present end, those a sink wrote."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sinkql import ast, logical, physical
from sinkql.catalog.store import Catalog
from sinkql.codegen import lower, lower_relation
from sinkql.connector.stream import Context, Offsets, Reader, Tally
from sinkql.connectors.table.file import TableFile
from sinkql.connectors.table.place import table_path
from sinkql.connectors.table.row import Codec
from sinkql.errors import Notice, SinkqlError, Span
from sinkql.planner.name import short_name
from sinkql.planner.query import sink_shape
from sinkql.planner.table import unique_keys
from sinkql.session.world import CatalogWorld

if TYPE_CHECKING:
    import pyarrow as pa

    from sinkql.session.session import Session

MOST_ROWS = 5_000_000


def table_file(item: logical.Source, statement: ast.Create, catalog: Catalog) -> TableFile:
    """Return the file of a table's rows, with the keys that it keeps."""
    assert isinstance(statement, ast.CreateTable)
    names = [column.name for column in item.shape.columns]
    keys = [[names.index(name) for name in key] for key in unique_keys(statement)]
    path = table_path(catalog.database.path.parent, item.options["table_id"], short_name(item.name))
    return TableFile(path, Codec([str(column.type) for column in item.shape.columns]), keys)


def columns_of(item: logical.Source | logical.Sink) -> tuple[logical.Column, ...]:
    """Return the columns that reading an item gives."""
    return (sink_shape(item) if isinstance(item, logical.Sink) else item.shape).columns


class Inputs:
    """Read items for one statement; `limit` is how many rows of each are enough. `notices` tell what was left out."""

    def __init__(self, session: Session, span: Span, limit: int | None = None) -> None:
        self._session, self._catalog = session, session.catalog
        self._span = span
        self._limit = limit
        self.notices: list[Notice] = []

    def rows(self, full_name: str) -> pa.Table:
        """Return an item's rows; raises SQ2641 where they are too many, SQ2405 where they never end."""
        item, entry = self._catalog.plans.item(full_name), self._catalog.plans.entry(full_name)
        assert entry is not None
        assert isinstance(item, logical.Source | logical.Sink)
        if isinstance(item, logical.Sink):
            return self._sink(item)
        if isinstance(entry.statement, ast.CreateTable):
            return self._table(item, entry.statement)
        return self._source(item)

    def _table(self, item: logical.Source, statement: ast.CreateTable) -> pa.Table:
        import pyarrow as pa

        file = table_file(item, statement, self._catalog)
        found = file.rows(self._limit if self._limit is not None else MOST_ROWS + 1)
        self._check(item.name, len(found))
        return pa.table(file.codec.arrays(found), names=[column.name for column in item.shape.columns])

    def _sink(self, item: logical.Sink) -> pa.Table:
        job = lower(item.name, self._catalog.plans)
        kind = self._catalog.registry.sinks[item.kind]
        columns = columns_of(item)
        if kind.rows is None:
            raise SinkqlError(
                "SQ2643", f'what sink "{short_name(item.name)}" wrote cannot be read', self._span,
                hint="Select from what the sink reads.",
            )  # fmt: skip
        wanted = physical_columns(columns)
        limit = self._limit if self._limit is not None else MOST_ROWS + 1
        found: pa.Table = kind.rows(job.write, self._session.context(job), wanted, limit)
        self._check(item.name, found.num_rows)
        return found

    def _source(self, item: logical.Source) -> pa.Table:
        import pyarrow as pa

        if item.shape.change is logical.Change.UPSERT:
            raise SinkqlError(
                "SQ2642", f'rows of source "{short_name(item.name)}" are overwritten by key: they cannot be listed yet',
                self._span, hint="Create an upsert sink, and select from the sink.",
            )  # fmt: skip
        read = lower_relation(item, self._catalog.plans)
        assert isinstance(read, physical.Read)
        world = CatalogWorld(self._catalog)
        with tempfile.TemporaryDirectory(prefix="sinkql-query-") as folder:
            context = Context("query", "query", Path(folder), world.secret, world.job_store)
            reader = self._catalog.registry.sources[read.connector].reader(read, context)
            tally = Tally()
            batches = list(self._batches(item, reader, tally))
        if tally.failed:
            self.notices.append(
                Notice(
                    "SQ2644", f'{tally.failed} rows of source "{short_name(item.name)}" do not decode and are left out'
                )
            )
        schema = pa.schema([(column.name, _arrow(column.type)) for column in item.shape.columns])
        if item.shape.change is logical.Change.RETRACT:
            return _present(batches, schema)
        return pa.Table.from_batches(batches, schema).slice(0, self._limit)

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
        except SinkqlError as error:
            first = self._catalog.registry.sources[item.kind].first
            if error.code != "SQ2405" or first is None or self._limit is None:
                raise _endless(error, item, self._span) from None
            return first(start, self._limit)

    def _check(self, full_name: str, rows: int) -> None:
        if rows > MOST_ROWS:
            raise SinkqlError(
                "SQ2641",
                f'"{short_name(full_name)}" has more than {MOST_ROWS:,} rows, which is too much for one query',
                self._span,
                hint="Make a materialized view and a sink of the query, or add LIMIT to SELECT … FROM one relation.",
            )


def _endless(error: SinkqlError, item: logical.Source, span: Span) -> SinkqlError:
    if error.code != "SQ2405":
        return error
    hint = f"Write SELECT … FROM {short_name(item.name)} LIMIT 10, or give the source an end."
    return SinkqlError(
        "SQ2405", f'source "{short_name(item.name)}" never ends, so it cannot be read once', span, hint=hint
    )


def _present(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Return the rows that have come and not gone."""
    import pyarrow as pa

    counts: Counter[tuple[Any, ...]] = Counter()
    for batch in batches:
        for *row, diff in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            counts[tuple(row)] += diff
    columns = list(zip(*counts.elements(), strict=True)) or [()] * len(schema)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def physical_columns(columns: tuple[logical.Column, ...]) -> tuple[physical.Column, ...]:
    """Return columns as a job has them."""
    return tuple(physical.Column(column.name, str(column.type), column.nullable) for column in columns)


def _arrow(type_: logical.Type) -> pa.DataType:
    from sinkql.connector.types import arrow_type

    return arrow_type(str(type_))
