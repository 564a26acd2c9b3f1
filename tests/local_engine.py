"""A job and one batch → rows written and new state, without Spark: DuckDB plays Catalyst, tasks run in this process."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duck.expression import duck_sql, quoted
from duck.preparation import measures, prepared
from sinkql import physical
from sinkql.errors import SinkqlError
from sinkql.extension.stream import Reader, Split, Tally, WriteResult
from sinkql.extension.types import arrow_type
from sinkql.runtime.batch.engine import Batch, Outcome
from sinkql.runtime.state.operator import stateful
from sinkql.runtime.state.operator.protocol import task_of
from sinkql.runtime.state.report import collect

_SEQ_BITS = 40


class LocalEngine:
    """Run a job's operators over a batch in this process; state it leaves is no other engine's."""

    bucketing = "local"

    def __init__(self, buckets: int = 2) -> None:
        self.buckets = buckets

    def run(self, job: physical.Job, batch: Batch) -> Outcome:
        """Run reads, operators and the write task once."""
        work = _Work(job, batch, self.buckets)
        results = work.write(work.rows(job.write.input))
        operators = [stateful(each) for each in physical.walk(job.write.input) if isinstance(each, physical.Stateful)]
        buckets = {each.name: each.preparation.buckets(self.buckets) for each in operators}
        return Outcome(results, work.tallies, collect(batch.arrangements, buckets))


@dataclass(slots=True)
class _Work:
    job: physical.Job
    batch: Batch
    buckets: int
    tallies: dict[str, Tally] = field(default_factory=dict)
    _read: dict[str, pa.Table] = field(default_factory=dict)

    def rows(self, operator: physical.Operator) -> pa.Table:
        match operator:
            case physical.Read():
                if operator.source not in self._read:
                    self._read[operator.source] = self.read(operator)
                return self._read[operator.source]
            case physical.Map():
                return self.map(operator)
            case physical.Union():
                return self.union(operator)
            case physical.Stateful():
                return self.stateful(operator)

    def read(self, read: physical.Read) -> pa.Table:
        first = 0
        for each in self.job.reads():
            if each.source == read.source:
                break
            first += len(self.batch.splits.get(each.source, ()))
        splits = self.batch.splits.get(read.source, ())
        tally = self.tallies.setdefault(read.source, Tally())
        schema = _schema(read, order=True)
        tables = [schema.empty_table()]
        for number, split in enumerate(splits, first):
            tables += _split_rows(self.batch.readers[read.source], split, tally, schema, number)
        return pa.concat_tables(tables)

    def map(self, map_: physical.Map) -> pa.Table:
        below = self.rows(map_.input)
        order = below.column_names[-1]
        columns = [f"{duck_sql(each.expression)} AS {quoted(each.name)}" for each in map_.outputs]
        where = duck_sql(map_.where.expression) if map_.where is not None else None
        try:
            found = _select(below, *([*columns, quoted(order)] if columns else ["*"]), where=where)
        except duckdb.Error as error:
            raise SinkqlError("SQ3201", str(error)) from error
        return found.cast(_schema(map_, order=True, order_name=order))

    def union(self, union: physical.Union) -> pa.Table:
        change = physical.change_of(union)
        tables = [self.rows(each) for each in union.inputs]
        schema = _schema(union, order=True)
        if change == "retract":
            tables = [_with_diff(table) for table in tables]
        return pa.concat_tables([table.rename_columns(schema.names).cast(schema) for table in tables])

    def stateful(self, operator: physical.Stateful) -> pa.Table:
        preparation = stateful(operator).preparation
        task = pickle.loads(pickle.dumps(task_of(stateful(operator), self.batch.arrangements)))
        keyed = _select(self.rows(operator.input), *prepared(preparation))
        group = [quoted(each) for each in preparation.group]
        grouped = _select(keyed, *group, *measures(preparation), group=group)
        buckets = preparation.buckets(self.buckets)
        found = [preparation.output().empty_table()]
        for bucket, rows in enumerate(_split(grouped, _unsigned(grouped, "$h1"), buckets)):
            batches = rows.append_column("$b", pa.array(np.full(len(rows), bucket))).to_batches(max_chunksize=1000)
            found += [pa.Table.from_batches([each]) for each in task(bucket, uuid.uuid4().hex, iter(batches))]
        return pa.concat_tables(found)

    def write(self, rows: pa.Table) -> Sequence[WriteResult]:
        write, task = self.job.write, self.batch.task
        names = [column.name for column in write.columns]
        if write.change == "retract":
            schema = rows.select([*names, "$diff"]).schema
            group = [quoted(each) for each in names]
            rows = _select(rows, *group, 'sum("$diff") AS "$diff"', group=group)
            rows = rows.filter(pc.not_equal(rows.column("$diff"), 0)).cast(schema)
        rows = rows.select([*names, "$diff" if write.change == "retract" else "$seq"])
        if task.buckets is None:
            return [task(0, uuid.uuid4().hex, iter(rows.to_batches()))]
        keys = ", ".join(quoted(name) for name in task.key)
        hashes = _unsigned(_select(rows, f"hash(0, {keys}) AS hash"), "hash")
        parts = enumerate(_split(rows, hashes, task.buckets))
        return [task(bucket, uuid.uuid4().hex, iter(part.to_batches())) for bucket, part in parts]


def _split_rows(reader: Reader, split: Split, tally: Tally, schema: pa.Schema, number: int) -> Iterator[pa.Table]:
    row = number << _SEQ_BITS
    for batch in reader.read(split, tally):
        table = pa.Table.from_batches([batch])
        if "$seq" in schema.names:
            table = table.append_column("$seq", pa.array(np.arange(row, row + len(table), dtype=np.int64)))
        row += len(table)
        yield table.cast(schema)


def _schema(operator: physical.Operator, *, order: bool, order_name: str | None = None) -> pa.Schema:
    fields = [(column.name, arrow_type(column.type)) for column in physical.columns_of(operator)]
    last = order_name or ("$diff" if physical.change_of(operator) == "retract" else "$seq")
    return pa.schema([*fields, (last, pa.int64())] if order else fields)


def _with_diff(table: pa.Table) -> pa.Table:
    if "$seq" not in table.column_names:
        return table
    ones = pa.array(np.ones(len(table), np.int64))
    return table.set_column(table.column_names.index("$seq"), "$diff", ones)


def _split(rows: pa.Table, hashes: np.ndarray[tuple[int], np.dtype[np.uint64]], buckets: int) -> list[pa.Table]:
    place = hashes % np.uint64(buckets)
    return [rows.filter(pa.array(place == bucket)) for bucket in range(buckets)]


def _unsigned(rows: pa.Table, column: str) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    found: np.ndarray[tuple[int], np.dtype[np.uint64]] = rows.column(column).to_numpy().astype(np.uint64)
    return found


@cache
def _database() -> Callable[[str, pa.Table], pa.Table]:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET timezone = 'UTC'")

    def query(sql: str, rows: pa.Table) -> pa.Table:
        connection.register("rows", rows)
        try:
            return connection.execute(sql).to_arrow_table()
        finally:
            connection.unregister("rows")

    return query


def _select(rows: pa.Table, *columns: str, where: str | None = None, group: Sequence[str] = ()) -> pa.Table:
    """Return columns in DuckDB's SQL of the rows, in groups if there are any."""
    condition = f" WHERE {where}" if where is not None else ""
    grouping = f" GROUP BY {', '.join(group)}" if group else ""
    return _database()(f"SELECT {', '.join(columns)} FROM rows{condition}{grouping}", rows)
