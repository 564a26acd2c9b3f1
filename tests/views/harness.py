"""Run views over changing relations batch by batch, without Spark, and compare them with DuckDB.

Scripts are compiled as users' are. After each batch, the rows of every view equal the result of its SQL in DuckDB over
the present rows. The planner's claims about keys and NULLs hold for these rows.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import duckdb
import pyarrow as pa

import sinkql.testing
from sinkql import logical, physical
from sinkql.connector_api.stream import Reader
from sinkql.connector_api.types import arrow_type
from sinkql.logical.type import parse_type
from sinkql.lowering.job import lower
from sinkql.runtime.batch.engine import Engine
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.local.engine import LocalEngine
from sinkql.testing.sources import ConstantRows, FailedRecord, PipelineReader, PipelineSource
from sinkql.testing.target import MemoryWriter, NoCommitLog
from views.rows import Row, Rows, different, plain

Change = tuple[Row, int]
Changes = Mapping[str, Sequence[Change]]
Kind = Literal["table", "append", "upsert"]

_OTHER = " in the other engine"
_PARTS = 12
"""The most parts of a view that are checked; a view may have hundreds."""
_DATE_BIN = "CREATE TEMP MACRO date_bin(i, t, o) AS time_bucket(CAST(i AS INTERVAL), t, CAST(o AS TIMESTAMP))"
_LAKE = """CREATE CONNECTION lake
  TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///{folder}/lake.db', WAREHOUSE = '{folder}/lake')"""
_BROKER = "CREATE CONNECTION broker TO KAFKA (BROKER 'localhost:1')"
_INTO = "INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = '{name}')"


@dataclass(frozen=True)
class Relation:
    """An input of views: a table, an append source, or an upsert source.

    `columns` are types by name; a type ends with NOT NULL if the column has no NULLs.
    """

    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...] = ()
    kind: Kind = "table"

    @property
    def places(self) -> tuple[int, ...]:
        """Return the indexes of the key columns."""
        return tuple(list(self.columns).index(name) for name in self.key)

    def statement(self) -> str:
        columns = ", ".join(f"{name} {type_}" for name, type_ in self.columns.items())
        key = f", PRIMARY KEY ({', '.join(self.key)})" if self.key else ""
        match self.kind:
            case "table":
                return f"CREATE TABLE {self.name} ({columns}{key})"
            case "append":
                return f"CREATE SOURCE {self.name} ({columns}) FROM FILES (PATH = 'in') FORMAT JSON"
            case "upsert":
                of = f"CREATE SOURCE {self.name} ({columns}{key} NOT ENFORCED)"
                return f"{of} FROM KAFKA CONNECTION broker (TOPIC '{self.name}') FORMAT JSON ENVELOPE DEBEZIUM"

    def schema(self) -> pa.Schema:
        fields = ((name, type_.upper().removesuffix(" NOT NULL").lower()) for name, type_ in self.columns.items())
        return pa.schema([(name, arrow_type(parse_type(_full(type_)))) for name, type_ in fields])


@dataclass(frozen=True)
class View:
    """A view's SQL, the SQL for DuckDB if it differs, and the text before AS."""

    sql: str
    oracle: str | None = None
    options: str = ""

    @property
    def asked(self) -> str:
        return self.oracle or self.sql


class Content:
    """The present rows of relations, changed by batches and queried in DuckDB."""

    def __init__(self, relations: Sequence[Relation]) -> None:
        self.relations = {each.name: each for each in relations}
        self.rows: dict[str, Rows] = {each.name: Counter() for each in relations}
        self._open()

    def _open(self) -> None:
        self._connection = _database().cursor()
        self._connection.execute("SET default_null_order = 'postgres'")
        self._connection.execute("SET integer_division = true")
        self._connection.execute("SET order_by_non_integer_literal = true")
        self._connection.execute("SET timezone = 'UTC'")
        self._connection.execute(_DATE_BIN)

    def apply(self, changes: Changes) -> None:
        for name, each in changes.items():
            for row, diff in each:
                self._put(self.relations[name], row, diff)
            assert all(count > 0 for count in self.rows[name].values()), f"{name} does not have the deleted row"
        for name in changes:
            self._show(self.relations[name])

    def _put(self, relation: Relation, row: Row, diff: int) -> None:
        rows = self.rows[relation.name]
        if relation.kind == "upsert":
            key = _part(row, relation.places)
            for each in [each for each in rows if _part(each, relation.places) == key]:
                del rows[each]
            if diff < 0:
                return
        rows[row] += diff
        if not rows[row]:
            del rows[row]

    def _show(self, relation: Relation) -> None:
        rows = list(self.rows[relation.name].elements())
        schema = relation.schema()
        arrays = [pa.array([row[place] for row in rows], each.type) for place, each in enumerate(schema)]
        self._connection.register("$rows", pa.table(arrays, schema=schema))
        self._connection.execute(f'CREATE OR REPLACE TEMP TABLE {relation.name} AS SELECT * FROM "$rows"')

    def ask(self, sql: str) -> Rows:
        """Return the rows of a query in DuckDB over the present rows."""
        return Counter(map(plain, self._connection.execute(sql).fetchall()))

    def close(self) -> None:
        self._connection.close()


class Views:
    """Compiled relations and views; applies batches of changes and compares each view with DuckDB.

    The views that `sinks` names, or all, have a sink: keyed by the view's first known key, or else a changelog. With
    `other`, a second engine runs the jobs of the views too.
    """

    def __init__(
        self,
        folder: Path,
        relations: Sequence[Relation],
        views: Mapping[str, View],
        *,
        sinks: bool | Sequence[str] = False,
        buckets: int = 2,
        extra: Sequence[str] = (),
        content: Content | None = None,
        other: Engine | None = None,
    ) -> None:
        self.views = views
        self.folder = folder
        self.buckets = buckets
        self.content = content or Content(relations)
        texts = [_BROKER, *(each.statement() for each in relations), *extra]
        texts += [f"CREATE MATERIALIZED VIEW {name} {view.options} AS {view.sql}" for name, view in views.items()]
        self.pipeline = sinkql.testing.loads("; ".join(texts))
        sunk = (list(views) if sinks else []) if isinstance(sinks, bool) else sinks
        if sunk:
            texts += [_LAKE.format(folder=folder), *(self._sink(name) for name in sunk)]
            self.pipeline = sinkql.testing.loads("; ".join(texts))
        self.catalog = self.pipeline._catalog
        given = self.pipeline._sources
        self.sources = {name.rpartition(".")[2]: Feed(each.item, each.read) for name, each in given.items()}
        self.readers = {each.read.source: PipelineReader(each) for each in self.sources.values()}
        self.batches = 0
        self.checked: Counter[str] = Counter()
        self._running: dict[str, Running] = {}
        for name in views:
            job = self.pipeline._view_job(self.planned(name))
            self._running[name] = self.running(job, name)
            if other is not None:
                self._running[f"{name}{_OTHER}"] = self.running(job, name, engine=other)
            if name in sunk:
                self._running[f"{name}_sink"] = self.running(lower(_full_name(f"{name}_sink"), self.catalog), name)

    def _sink(self, view: str) -> str:
        item = self.pipeline._catalog.item(_full_name(view))
        assert isinstance(item, logical.View)
        known = [key for key in item.shape.keys if key]
        mode = f"KEY ({', '.join(sorted(known[0]))}) MODE UPSERT" if known else "MODE APPEND"
        into = _INTO.format(name=view)
        return f"CREATE SINK {view}_sink FROM {view} {into} {mode} WITH (COMMIT INTERVAL = '5s')"

    def planned(self, view: str) -> logical.View:
        item = self.catalog.item(_full_name(view))
        assert isinstance(item, logical.View)
        return item

    def running(
        self,
        job: physical.Job,
        view: str,
        readers: Mapping[str, Reader] | None = None,
        engine: Engine | None = None,
    ) -> Running:
        """Return a new job with a separate folder, which has read nothing yet."""
        folder = self.folder / f"{view}{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        its_own = self.readers_of(job)
        its_own |= {name: reader for name, reader in (readers or {}).items() if name in its_own}
        return Running(job, its_own, folder, engine or LocalEngine(self.buckets))

    def readers_of(self, job: physical.Job) -> dict[str, Reader]:
        """Return the readers of a job's relations, and of the constant rows in its query."""
        return {read.source: self.readers.get(read.source) or ConstantRows(read) for read in job.reads()}

    def batch(self, changes: Changes) -> None:
        """Apply changes to the relations, and check all views."""
        self.content.apply(changes)
        for name, each in self.sources.items():
            each.batches.append(list(changes.get(name, ())))
        self.batches += 1
        for name, view in self.views.items():
            expected = self.content.ask(view.asked)
            for own in (name, f"{name}_sink", f"{name}{_OTHER}"):
                if own in self._running:
                    self._compare(own, self._running[own].to(self.batches), expected, view)
            self._check_claims(self.planned(name).shape, self._running[name].rows(), view.sql)
            self.checked[name] += sum(expected.values())

    def _compare(self, name: str, got: Rows, expected: Rows, view: View) -> None:
        assert all(count > 0 for count in got.values()), f"{name}: deleted rows that do not exist: {view.sql}"
        found = different(got, expected)
        assert not found, f"after batch {self.batches}, {name}: {view.sql}\n{found}"

    def operators(self, view: str) -> list[physical.Operator]:
        """Return the operators of a view's job."""
        return self._running[view].job.operators()

    def check_parts(self, names: Sequence[str] = ()) -> None:
        """Recompute parts of views in one batch: the claims hold for each part, and the view's rows are the same."""
        for name, view in self._some(names):
            planned = self.planned(name)
            for number, part in enumerate(_some_parts(planned.relation)):
                job = self.pipeline._view_job(replace(planned, relation=part, shape=part.shape))
                rows = self.running(job, f"{name}_{number}_").to(self.batches)
                self._check_claims(part.shape, rows, view.sql)
                if number == 0:
                    self._compare(name, rows, self._running[name].rows(), view)

    def _some(self, names: Sequence[str]) -> list[tuple[str, View]]:
        """Return the views with these names; all by default."""
        return [(name, self.views[name]) for name in names or self.views]

    def check_cut(self, ends: Sequence[int], names: Sequence[str] = ()) -> None:
        """Run the same changes in batches with these ends; the rows are the same."""
        for name, view in self._some(names):
            again = self.running(self.pipeline._view_job(self.planned(name)), name)
            for end in ends:
                again.to(end)
            self._compare(name, again.to(self.batches), self._running[name].rows(), view)

    def check_altered(
        self, alter: Callable[[Relation, Sequence[Change]], Sequence[Change]], names: Sequence[str] = ()
    ) -> None:
        """Run batches with changes altered to equivalent ones; the rows are the same."""
        readers: dict[str, Reader] = {}
        for name, each in self.sources.items():
            feed = Feed(each.item, each.read)
            for batch in each.batches:
                given = [change for change in batch if not isinstance(change, FailedRecord)]
                feed.batches.append(list(alter(self.content.relations[name], given)))
            readers[each.read.source] = PipelineReader(feed)
        for name, view in self._some(names):
            again = self.running(self.pipeline._view_job(self.planned(name)), name, readers)
            for number in range(1, self.batches):
                again.to(number)
            self._compare(name, again.to(self.batches), self._running[name].rows(), view)

    def _check_claims(self, shape: logical.Shape, rows: Rows, sql: str) -> None:
        names = [column.name for column in shape.columns]
        for place, column in enumerate(shape.columns):
            if not column.nullable:
                assert all(row[place] is not None for row in rows), f"{column.name} has NULLs: {sql}"
        for key in shape.keys:
            places = [names.index(name) for name in key]
            counts: Counter[Row] = Counter()
            for row, count in rows.items():
                counts[_part(row, places)] += count
            twice = [found for found, count in counts.items() if count > 1]
            assert not twice, f"({', '.join(sorted(key))}) is not unique, {twice[:2]} occurs twice: {sql}"

    def close(self) -> None:
        self.content.close()
        self.pipeline.close()


class Running:
    """A running job with its state, and the sum of its changes."""

    def __init__(self, job: physical.Job, readers: Mapping[str, Reader], folder: Path, engine: Engine) -> None:
        self.job = job
        self.writer = MemoryWriter(job.write, job.sink)
        self._loop = BatchLoop(job, readers, self.writer, engine, folder, NoCommitLog())
        self._keyed = job.write.mode == "upsert"
        self._added: Rows = Counter()
        self._loop.start(epoch=1)
        if self._loop.has_unread_output():
            self._process(self._loop.checkpoint.end)

    def to(self, batch: int) -> Rows:
        """Process the batches up to this one as one batch; return the rows after it."""
        end = {name: {"batch": batch} for name in self._loop.readers}
        if end != self._loop.checkpoint.end:
            self._process(end)
        return self.rows()

    def _process(self, end: Mapping[str, Any]) -> None:
        self.writer.last = []
        self._loop.commit_batch(self._loop.checkpoint.end, end)
        for row, diff in self.writer.last:
            self._added[plain(row)] += diff
            if not self._added[plain(row)]:
                del self._added[plain(row)]

    def rows(self) -> Rows:
        if self._keyed:
            kept = Counter(plain(row) for row, _ in self.writer.rows)
            assert kept == self._added, "the sum of the changes differs from the stored rows"
        return self._added


class Feed(PipelineSource):
    """A source that also delivers rows which are inserted and deleted within one batch."""

    @property
    def retracts(self) -> bool:
        return False


def shuffled(changes: Changes, random_: random.Random) -> dict[str, list[Change]]:
    """Return the changes in random order."""
    return {name: random_.sample(list(each), len(each)) for name, each in changes.items()}


def _some_parts(relation: logical.Relation) -> list[logical.Relation]:
    """Return a relation and some of its inputs, evenly spread over its tree, each once."""
    found: dict[int, logical.Relation] = {}

    def visit(each: logical.Relation) -> None:
        if id(each) not in found and not isinstance(each, logical.Get):
            found[id(each)] = each
            for below in logical.inputs_of(each):
                visit(below)

    visit(relation)
    parts = list(found.values())
    return parts[:: -(-len(parts) // _PARTS)] or [relation]


def _part(row: Row, places: Sequence[int]) -> Row:
    return tuple(row[place] for place in places)


def _full(type_: str) -> str:
    return {"int": "integer"}.get(type_, type_)


def _full_name(name: str) -> str:
    return f"materialize.public.{name}"


@cache
def _database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})
