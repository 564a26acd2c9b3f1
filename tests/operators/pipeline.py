"""Run a view's operators over batches of changes, and compute the view's SQL in DuckDB for comparison."""

from __future__ import annotations

import math
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import duckdb
import msgspec
import pyarrow as pa

from expressions import vectors
from sinkql import physical
from sinkql.connector_api.stream import Limit, Offsets, ReadCounts, Reader, Split, WriteResult
from sinkql.connector_api.types import arrow_type
from sinkql.logical.type import parse_type
from sinkql.runtime.batch.accounting import check_account
from sinkql.runtime.batch.engine import Batch, Engine
from sinkql.runtime.local.engine import LocalEngine
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import Arrangements
from sinkql.state_store.directory import StateDirectory

Row = tuple[Any, ...]
Change = tuple[Row, int]
Attempt = tuple[list[Row], str]
_COMPARED = 3


def columns(**types: str) -> tuple[physical.Column, ...]:
    """Return columns by name and type; `_` in a type stands for a space."""
    return tuple(physical.Column(name, parse_type(type_.replace("_", " "))) for name, type_ in types.items())


def source(name: str, change: physical.Change = "append", **types: str) -> physical.Read:
    return physical.Read(name, "listed", {}, columns(**types), change)


def overwriting(name: str, *key: str, **types: str) -> physical.Read:
    """Return a source whose rows overwrite each other by key."""
    return physical.Read(name, "listed", {}, columns(**types), "upsert", key=key)


def call(name: str, function: Any, column: str | None, type_: str, *, distinct: bool = False) -> physical.AggregateCall:
    return physical.AggregateCall(name, function, column, distinct, parse_type(type_))


def output(below: physical.Operator, name: str, text: str) -> physical.Output:
    """Return a Map output; `text` is an expression over the columns of `below`."""
    types = {column.name: str(column.type) for column in physical.columns_of(below)}
    return physical.Output(name, vectors.expression(text, types))


@dataclass(frozen=True)
class Listed(Reader):
    """A reader of the test's batches; a split is the number of a batch."""

    read_: physical.Read
    batches: list[list[Change]]

    def initial(self, *, at_end: bool) -> Offsets:
        return {"batch": 0}

    def target(self, start: Offsets) -> Offsets:
        return {"batch": len(self.batches)}

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        return {"batch": min(start["batch"] + 1, len(self.batches))}

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        return [{"batch": number} for number in range(start["batch"], end["batch"])]

    def read(self, split: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        changes = self.batches[split["batch"]]
        fields = [(column.name, arrow_type(column.type)) for column in self.read_.columns]
        data: list[list[Any]] = [[unplain(row[index]) for row, _ in changes] for index in range(len(fields))]
        if self.read_.change != "append":
            fields.append(("$diff", pa.int64()))
            data.append([diff for _, diff in changes])
        arrays = [pa.array(values, type_) for values, (_, type_) in zip(data, fields, strict=True)]
        read_counts.rows += len(changes)
        yield pa.record_batch(arrays, names=[name for name, _ in fields])


@dataclass(frozen=True)
class Taking:
    """A write task that returns its rows instead of writing them."""

    commit: str
    buckets: int | None
    key: tuple[str, ...]

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
        return WriteResult(bucket, len(rows), rows, superseded=0)


@contextmanager
def in_parts() -> Iterator[None]:
    """Make operators receive rows in parts by hash, and split runs into pieces."""
    with (
        patch("sinkql.storage.spill.MOST", 1),
        patch("sinkql.storage.spill.PART", 300),
        patch("sinkql.runtime.state.arrangement._MERGED_AT_ONCE", 1000),
        patch("sinkql.runtime.state.ordered_run._MERGED_AT_ONCE", 1000),
        patch("sinkql.runtime.state.ordered_run._SAMPLED", 1),
        patch("sinkql.runtime.state.ordered_run._AT_ONCE", 5),
    ):
        yield


class Pipeline:
    """A view's operators, executed batch by batch over its sources, and the resulting table.

    The clock of a batch goes from the last commit's time to `now`.
    """

    def __init__(
        self,
        folder: Path,
        view: physical.Operator,
        *,
        buckets: int = 2,
        engine: Engine | None = None,
        shared: dict[str, physical.Operator] | None = None,
    ) -> None:
        self.folder = folder
        self.engine = engine or LocalEngine(buckets)
        graph = physical.Graph(view, shared or {})
        self.reads = {each.source: each for each in graph.operators() if isinstance(each, physical.Read)}
        self.readers = {name: Listed(read, []) for name, read in self.reads.items()}
        self.inputs: dict[str, Counter[Row]] = {name: Counter() for name in self.reads}
        self.names = [column.name for column in physical.columns_of(view)]
        change = physical.change_of(view)
        connection = physical.Connection("lake", "iceberg-catalog", {})
        mode: Literal["append", "upsert"] = "upsert" if physical.internal_of(view) else "append"
        write = physical.Write(
            view, "iceberg", connection, physical.columns_of(view), mode, change, False, tuple(self.names), True, {}
        )
        self.key = [self.names.index(name) for name in physical.key_of(view)]
        job = physical.Job("sink", "id", "quickstart", "local[*]", {}, timedelta(seconds=1), 1_000_000, write, {})
        self.job = msgspec.structs.replace(job, shared=graph.shared)
        empty = state.empty(bucketing=self.engine.bucketing, buckets=self.engine.buckets)
        self.manifests = [state.save(folder, empty, epoch=1)]
        self.table: Counter[Row] = Counter()
        self.merged = self.pieces = 0
        self.cleared: set[str] = set()
        self.since = self.now = 0

    def batch(self, **changes: Sequence[Change]) -> None:
        """Add changes to the sources, run a batch and commit it.

        Batches alternate between memory and `in_parts`; every third batch runs both ways and compares the results.
        """
        self.offer(**changes)
        if not isinstance(self.engine, LocalEngine):
            self.commit(*self.attempt())
            return
        with patch("sinkql.runtime.state.run._DIGESTED", 3):
            number = len(self.manifests)
            both = number % _COMPARED == 0
            attempts = []
            if both or number % 2:
                attempts.append(self.attempt())
            if both or not number % 2:
                with in_parts():
                    attempts.append(self.attempt())
                self.pieces += self._pieces(attempts[-1][1])
        if both:
            told, content = ([each(attempt) for attempt in attempts] for each in (_told, self._content))
            assert told[0] == told[1], set(told[0]) ^ set(told[1])
            assert content[0] == content[1], content
        self.commit(*attempts[-1])

    def _content(self, attempt: Attempt) -> Any:
        """Return the runs in an attempt's manifest without the fields that depend on their file format."""
        form = ("file", "bytes", "starts", "seal")
        return {
            (name, bucket): [{key: value for key, value in run.items() if key not in form} for run in runs]
            for name, buckets in state.load(self.folder, attempt[1])["arrangements"].items()
            for bucket, runs in buckets.items()
        }

    def _pieces(self, manifest: str) -> int:
        found = state.load(self.folder, manifest)["arrangements"].values()
        return sum("starts" in run for buckets in found for runs in buckets.values() for run in runs)

    def truncate(self, *names: str) -> None:
        """Delete all rows of the named sources in the next batch."""
        self.cleared = set(names)
        for name in names:
            self.inputs[name].clear()

    def offer(self, **changes: Sequence[Change]) -> None:
        for name, reader in self.readers.items():
            reader.batches.append(list(changes.get(name, ())))
            for row, diff in changes.get(name, ()):
                self._put(name, plain(row), diff)
            assert all(count >= 0 for count in self.inputs[name].values())

    def _put(self, name: str, row: Row, diff: int) -> None:
        """Apply a change to the source's current rows."""
        rows, read = self.inputs[name], self.reads[name]
        if read.change == "upsert":
            places = [place for place, column in enumerate(read.columns) if column.name in read.key]
            for each in [each for each in rows if all(each[place] == row[place] for place in places)]:
                del rows[each]
        if read.change != "upsert" or diff > 0:
            rows[row] += diff

    def attempt(self, commit: str | None = None) -> Attempt:
        """Run the last offered batch from the committed state; return its changes and the new state's name."""
        manifest = state.load(self.folder, self.manifests[-1])
        commit = commit or uuid.uuid4().hex
        arrangements = Arrangements(StateDirectory(self.folder), manifest, 1, commit)
        splits: dict[str, list[Split]] = {
            name: [{"batch": len(reader.batches) - 1}] if reader.batches[-1] else []
            for name, reader in self.readers.items()
        }
        task = Taking(commit, self.engine.buckets, tuple(self.names))
        clock = self.since, self.now
        batch = Batch(task, splits, self.readers, arrangements, clock=clock, cleared=frozenset(self.cleared))
        outcome = self.engine.execute(self.job, batch)
        check_account(self.job, outcome)
        name = state.save(self.folder, state.next_manifest(manifest, outcome.runs), epoch=1)
        return [row for result in outcome.results for row in result.data], name

    def commit(self, changes: list[Row], manifest: str) -> None:
        self.manifests.append(manifest)
        self.cleared.clear()
        self.since = self.now
        self.merged += sum(
            run["merges"] > 0 for buckets in self.entries().values() for runs in buckets.values() for run in runs
        )
        if self.job.write.change == "upsert":
            self._overwrite(changes)
            return
        if not physical.internal_of(self.job.write.input):
            self.table += Counter(map(plain, changes))
            return
        retract = self.job.write.change == "retract"
        for *row, last in changes:
            self.table[plain(row)] += last if retract else 1

    def _overwrite(self, changes: list[Row]) -> None:
        for *row, diff, _ in sorted(changes, key=lambda change: change[-1]):
            for each in [each for each in self.table if all(each[place] == row[place] for place in self.key)]:
                del self.table[each]
            if diff > 0:
                self.table[plain(row)] = 1

    def entries(self) -> Mapping[str, Mapping[str, Any]]:
        found: Mapping[str, Mapping[str, Any]] = state.load(self.folder, self.manifests[-1])["arrangements"]
        return found

    def expected(self, sql: str) -> Counter[Row]:
        """Return the result of the view's SQL over the current input."""
        with _database().cursor() as connection:
            connection.execute("SET timezone = 'UTC'")
            for name, read in self.reads.items():
                rows = list(self.inputs[name].elements())
                arrays = {
                    column.name: pa.array([unplain(row[index]) for row in rows], arrow_type(column.type))
                    for index, column in enumerate(read.columns)
                }
                connection.register(name, pa.table(arrays))
            return Counter(plain(row) for row in connection.execute(sql).fetchall())

    def got(self) -> Counter[Row]:
        """Return the rows of the table."""
        assert all(count >= 0 for count in self.table.values())
        return +self.table


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """Return the shared database; opening one for each batch took a fifth of the test time."""
    return duckdb.connect(config={"threads": 1})


def _told(attempt: Attempt) -> list[str]:
    return sorted(map(repr, attempt[0]))


def plain(row: Sequence[Any]) -> Row:
    """Normalize a row so that values equal in SQL are equal in Python: one NaN, one zero."""
    return tuple(map(_plain, row))


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, list | tuple):
        return plain(value)
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def unplain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(unplain, value))
    return math.nan if value == "NaN" else value
