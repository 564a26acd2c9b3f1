"""Build a pipeline from scripts; a test inserts rows and reads the rows of sinks, views and tables."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sinkql import ast, logical, physical
from sinkql.catalog.memory import MemoryCatalog
from sinkql.connector_api.registry import discover
from sinkql.connector_api.stream import Reader
from sinkql.errors import Notice, SinkqlError
from sinkql.evaluate import NotEvaluableError, function_of
from sinkql.logical.type import Type
from sinkql.lowering.job import lower, lower_relation, lower_view
from sinkql.machine import clock
from sinkql.parser import parse
from sinkql.planner.edit.dml import Target as TableTarget
from sinkql.planner.edit.dml import plan_insert
from sinkql.planner.item.table import unique_keys
from sinkql.planner.name import as_name, find, short_name, with_article
from sinkql.printer.clause import name as print_name
from sinkql.program import compile_text
from sinkql.runtime.batch.clock import with_clock
from sinkql.script.split import read_script, script_files
from sinkql.script.variable import substitute
from sinkql.session.deploy.script_catalog import Script, read_scripts
from sinkql.session.row.dml import RowConverter, duplicate
from sinkql.session.row.query import rows_now
from sinkql.table.row import Row
from sinkql.testing.rows import RowValues, alike, names_of, value_of
from sinkql.testing.sources import ConstantRows, PipelineReader, PipelineSource
from sinkql.testing.target import Target, ViewTarget

Rows = RowValues | Iterable[RowValues]
"""One row or several, each a dictionary of values by column."""
_FED = ("SOURCE", "TABLE")
_VIEWS = ("VIEW", "MATERIALIZED VIEW")
_TIME = logical.Column("mz_now()", Type("timestamptz"))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def compiled(script: Path | str, variables: Mapping[str, str]) -> Pipeline:
    """Return the pipeline of one script, which runs from top to bottom."""
    path = str(script) if isinstance(script, Path) else None
    program = compile_text(_text(script, variables), path=path)
    assert program.catalog is not None
    return Pipeline(program.catalog, program.notices)


def described(folder: Path, variables: Mapping[str, str]) -> Pipeline:
    """Return the pipeline that the scripts of a folder describe, as for `sinkql apply`."""
    scripts = [Script(str(path), _text(path, variables)) for path in script_files([folder])]
    described_catalog = read_scripts(scripts, discover(), present=(), settings={}, keep=False)
    return Pipeline(described_catalog.catalog, tuple(item.notice for item in described_catalog.notices))


def _text(script: Path | str, variables: Mapping[str, str]) -> str:
    text = read_script(script) if isinstance(script, Path) else script
    return substitute(text, variables).text


class Pipeline:
    """A pipeline that a test feeds with rows, to check the rows of its sinks, views and tables.

    Inserted, deleted and received rows form the next batch. `commit`, `rows` and `changes` end the batch. The job of
    each sink runs unchanged, with its rows in memory. `notices` has the notices of the scripts.
    """

    def __init__(self, catalog: MemoryCatalog, notices: tuple[Notice, ...]) -> None:
        self.notices = notices
        self._catalog = catalog
        self._folder = Path(tempfile.mkdtemp(prefix="sinkql-"))
        self._close = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._targets: dict[str, Target] = {}
        self._sources: dict[str, PipelineSource] = {}
        for kind in _FED:
            for name in catalog.names(kind):
                item = logical.get_item(catalog, name, logical.Source)
                self._sources[name] = PipelineSource(item, lower_relation(item, catalog))
        self._times: list[int] = []
        self._time: int | None = None

    # --- rows in -----------------------------------------------------------------------------------------------------

    def insert(self, relation: str, rows: Rows) -> None:
        """Insert rows into a source or table. Missing columns are NULL or get the DEFAULT of the table.

        Values are Python objects (`Decimal` for numeric) or texts, which are parsed like SQL literals. Raise SQ2204,
        SQ2212, SQ2420 to SQ2422; then no row is inserted.
        """
        source, table = self._input(relation)
        new_rows = [self._row(row, source, table) for row in _as_list(rows)]
        _check_keys([*source.rows(), *new_rows], table)
        source.waiting += [(row, 1) for row in new_rows]

    def delete(self, relation: str, rows: Rows) -> None:
        """Delete the rows with these values. Raise SQ2662 if no row matches, and SQ2661 if the source only appends."""
        source, _ = self._retractable_input(relation, "deleted")
        for test_row in _as_list(rows):
            values_by_column = self._values(test_row, source)
            values = alike(tuple(values_by_column.values()))
            deleted = [row for row in source.rows() if alike(tuple(row[place] for place in values_by_column)) == values]
            if not deleted:
                raise SinkqlError(
                    "SQ2662", f'"{relation}" has no row with {_condition(test_row)}', hint="Insert the row first."
                )
            source.waiting += map(source.deletion, deleted)

    def upsert(self, relation: str, rows: Rows) -> None:
        """Insert rows into a table or source. Each row replaces the row with the same key."""
        source, table = self._retractable_input(relation, "replaced")
        if source.key:
            source.waiting += [(self._row(row, source, table), 1) for row in _as_list(rows)]
            return
        keys = unique_keys(table.statement) if table is not None else ()
        if not keys:
            raise SinkqlError(
                "SQ2661",
                f'"{relation}" has no key by which rows are replaced',
                hint="Delete the rows, then insert the new ones.",
            )
        places = [[column.name for column in source.item.shape.columns].index(name) for name in keys[0]]
        for test_row in _as_list(rows):
            new_row = self._row(test_row, source, table)
            key = alike(tuple(new_row[place] for place in places))
            deleted = [row for row in source.rows() if alike(tuple(row[place] for place in places)) == key]
            _check_keys([*(row for row in source.rows() if row not in deleted), new_row], table)
            source.waiting += [*((row, -1) for row in deleted), (new_row, 1)]

    def receive(self, source: str, records: str | bytes) -> None:
        """Receive encoded records in the FORMAT of a source. The next batch fails at, or skips, undecodable records."""
        target_source, _ = self._input(source)
        options = target_source.read.options.get("format")
        if options is None:
            raise SinkqlError("SQ2661", f'"{source}" has no FORMAT', hint="Insert rows.")
        data = records.encode() if isinstance(records, str) else records
        target_source.decode(data, self._catalog.registry.formats[options["name"]].decoding)

    # --- batches, and rows out ---------------------------------------------------------------------------------------

    def commit(self) -> None:
        """End the batch and commit it in every sink. Raise the first error after all sinks have run.

        A failed sink retries with the next batch and processes both together.
        """
        self._end_batch()
        failed: SinkqlError | None = None
        for name in self._catalog.names("SINK"):
            try:
                self._target(name).run(len(self._times))
            except SinkqlError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a sink's table, a view, a table or a source after the last batch, as dictionaries.

        Rows of a sink with a KEY are sorted by the key, and rows of a view by their values. All others are in insertion
        order. Rows of a changelog have `_mz_diff` but no `_mz_timestamp`.
        """
        entry = find(self._catalog, as_name(name), "SINK", *_VIEWS, *_FED)
        if entry.kind in _FED:
            source = self._sources[entry.name]
            names = [column.name for column in source.item.shape.columns]
            return [dict(zip(names, row, strict=True)) for row in source.rows()]
        return self._processed_target(entry.name).shown()

    def changes(self, name: str) -> list[tuple[int, dict[str, Any]]]:
        """Return the changes of the last batch in a sink's table or a view: −1 for a deleted row, 1 for a new one."""
        entry = find(self._catalog, as_name(name), "SINK", *_VIEWS)
        return self._processed_target(entry.name).changes()

    def set_time(self, moment: datetime | str) -> None:
        """Set the result of mz_now() from the next batch. Before the first call it is the machine's time.

        A text is parsed as a timestamptz. Raise SQ2661 for a time before the last one.
        """
        zoned = moment.replace(tzinfo=UTC) if isinstance(moment, datetime) and moment.tzinfo is None else moment
        at = (value_of(zoned, _TIME) - _EPOCH) // timedelta(milliseconds=1)
        if at < max(self._times[-1:], default=0):
            raise SinkqlError("SQ2661", "the time of a pipeline cannot go back", hint="Set a later time.")
        self._time = at

    def skipped(self, source: str) -> int:
        """Return the number of records that ON ERROR = SKIP skipped because they did not decode."""
        return self._input(source)[0].skipped()

    def close(self) -> None:
        """Delete the temporary files. Garbage collection of the pipeline does the same."""
        self._close()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    # --- jobs --------------------------------------------------------------------------------------------------------

    def _end_batch(self) -> None:
        has_new_time = self._time is not None and self._times[-1:] != [self._time]
        if self._times and not has_new_time and not any(source.waiting for source in self._sources.values()):
            return
        for source in self._sources.values():
            source.end_batch()
        now = clock.time_ms() if self._time is None else self._time
        self._times.append(max([now, *self._times[-1:]]))

    def _processed_target(self, full_name: str) -> Target:
        self._end_batch()
        target = self._target(full_name)
        target.run(len(self._times))
        return target

    def _target(self, full_name: str) -> Target:
        if full_name not in self._targets:
            item = self._catalog.item(full_name)
            job = self._view_job(item) if isinstance(item, logical.View) else lower(full_name, self._catalog)
            readers = with_clock(
                job, {read.source: self._reader(read) for read in job.reads()}, lambda: self._times[-1]
            )
            folder = self._folder / str(len(self._targets))
            folder.mkdir()
            target_class = ViewTarget if isinstance(item, logical.View) else Target
            self._targets[full_name] = target_class(job, readers, folder, self._times)
        return self._targets[full_name]

    def _reader(self, read: physical.Read) -> Reader:
        sources = {source.read.source: source for source in self._sources.values()}
        return PipelineReader(sources[read.source]) if read.source in sources else ConstantRows(read)

    def _view_job(self, view: logical.View) -> physical.Job:
        graph, texts = lower_view(view, self._catalog)
        body = graph.root
        if key := physical.key_of(body):
            body = physical.Normalize(body, "shown", key)
        columns, change = physical.columns_of(body), physical.change_of(body)
        nowhere = physical.Connection("", "", {})
        write = physical.Write(body, "", nowhere, columns, "append", change, False, (), False, {})
        return physical.Job(view.name, view.name, "", "", {}, timedelta(), 0, write, texts, shared=graph.shared)

    def _input(self, name: str) -> tuple[PipelineSource, TableTarget | None]:
        entry = find(self._catalog, as_name(name), *_FED, *_VIEWS, "SINK")
        if entry.kind not in _FED:
            raise SinkqlError(
                "SQ2661",
                f'"{name}" is {with_article(entry.kind)}: its rows are computed',
                hint="Insert rows into the sources and tables that it reads.",
            )
        source = self._sources[entry.name]
        statement = entry.statement
        return source, TableTarget(source.item, statement) if isinstance(statement, ast.CreateTable) else None

    def _retractable_input(self, name: str, what: str) -> tuple[PipelineSource, TableTarget | None]:
        source, table = self._input(name)
        if not source.retracts and not source.key:
            raise SinkqlError(
                "SQ2661", f'source "{name}" only appends rows, so they cannot be {what}', hint="Insert rows."
            )
        return source, table

    def _values(self, row: RowValues, source: PipelineSource) -> dict[int, Any]:
        """Return the values of a test's row by the indexes of their columns."""
        columns = source.item.shape.columns
        names_of(row, columns)
        return {place: value_of(row[column.name], column) for place, column in enumerate(columns) if column.name in row}

    def _row(self, row: RowValues, source: PipelineSource, table: TableTarget | None) -> Row:
        columns = source.item.shape.columns
        values = self._values(row, source)
        if table is not None:
            defaults = self._defaults(table) if len(values) < len(columns) else [None] * len(columns)
            return RowConverter(table).row([values.get(place, default) for place, default in enumerate(defaults)])
        stored = tuple(values.get(place) for place in range(len(columns)))
        for value, column in zip(stored, columns, strict=True):
            if value is None and not column.nullable:
                name = short_name(source.item.name, self._catalog)
                message = f'null value in column "{column.name}" of source "{name}", which is NOT NULL'
                raise SinkqlError("SQ2421", message, hint="Insert a value.")
        return stored

    def _defaults(self, table: TableTarget) -> list[Any]:
        text = f"INSERT INTO {print_name(as_name(table.item.name))} VALUES (DEFAULT)"
        (statement,) = parse(text, self._catalog.words)
        assert isinstance(statement, ast.Insert)
        planned = plan_insert(statement, self._catalog, rows_now())
        return [cell.value if cell.expression is None else _computed(cell.expression) for cell in planned.defaults]


def _as_list(rows: Rows) -> list[RowValues]:
    return [rows] if isinstance(rows, Mapping) else list(rows)


def _condition(row: RowValues) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in row.items())


def _computed(expression: logical.Expression) -> Any:
    function = function_of(expression, ())
    try:
        if function is not None:
            return function(())
    except NotEvaluableError:
        pass
    raise SinkqlError("SQ2663", "only Spark can compute this DEFAULT", hint="Set the column in the test.")


def _check_keys(rows: Iterable[Row], table: TableTarget | None) -> None:
    """Raise SQ2420 for two rows with one key."""
    if table is None:
        return
    names = [column.name for column in table.columns]
    all_rows = list(rows)
    for key in unique_keys(table.statement):
        places = [names.index(name) for name in key]
        keys = set()
        for row in all_rows:
            values = alike(tuple(row[place] for place in places))
            if None not in values and values in keys:
                raise duplicate(table, places, row, hint="Use upsert, which replaces the existing row.")
            keys.add(values)
