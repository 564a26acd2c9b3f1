"""Build jobs and batch loops without a catalog, with control tables in memory, and read the tables of their sinks."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog import load_catalog

from expressions import vectors
from sinkql import logical, physical
from sinkql.connector_api.registry import Registry
from sinkql.connector_api.stream import Compacted, Context, JobOffsets, Writer
from sinkql.errors import SinkqlError
from sinkql.logical.type import BIGINT
from sinkql.machine import clock
from sinkql.runtime.batch.clock import with_clock
from sinkql.runtime.batch.control import CommitLog, Desired, Status
from sinkql.runtime.batch.dead_letter import open_dead_letter_table
from sinkql.runtime.batch.engine import Engine
from sinkql.runtime.batch.events import Progress, silent
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.batch.pacing import Pacer, PacingOrders
from sinkql.runtime.local.engine import LocalEngine
from sinkql.runtime.local.measured_engine import MeasuredEngine, SharedPlacement
from sinkql.runtime.schedule.placed_engine import PlacedEngine
from sinkql.runtime.sink.workload import SinkAssignment
from sinkql.state_store.directory import StateDirectory
from support.patience import PATIENCE_S
from support.readers import Rows, duckdb_folder, pyiceberg_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTER = physical.Column("counter", BIGINT, False)
_ICEBERG = {
    "bigint": "long",
    "integer": "int",
    "text": "string",
    "double precision": "double",
    "timestamptz": "timestamptz",
    "timestamp": "timestamp",
}


def placed_engine(session: Callable[[], SparkSession], buckets: int) -> PlacedEngine:
    """Return an engine that runs batches in this process if it can, and in Spark otherwise."""

    def open_spark() -> Engine:
        from sinkql.runtime.spark.engine import SparkEngine

        return SparkEngine(session, buckets=buckets)

    in_process = MeasuredEngine(
        LocalEngine(buckets, policy="decline"), SharedPlacement(), spark_up=lambda: False, start_spark=lambda: None
    )
    return PlacedEngine(in_process, open_spark)


def counter(
    name: str = "counter",
    *,
    up_to: int | None = None,
    rows_per_second: int | None = 1000,
    cardinality: int | None = None,
) -> physical.Read:
    options = {
        "tick_ms": 1000,
        "up_to": up_to,
        "rows_per_second": rows_per_second,
        "max_cardinality": cardinality,
        "first": 0,
    }
    return physical.Read(name, "LOAD GENERATOR COUNTER", options, (COUNTER,), "retract" if cardinality else "append")


def csv_files(folder: Path) -> physical.Read:
    """Return a source of the CSV files in `folder`/in, which have one column."""
    options = {
        "path": str(folder / "in"),
        "glob": "*.csv",
        "recursive": False,
        "format": {"name": "CSV", "header": True, "delimiter": ","},
        "follow": True,
        "tuning": {"max_files_per_commit": None},
    }
    return physical.Read("files", "FILES", options, (physical.Column("id", BIGINT),))


def output(name: str, sql: str, type_: str = "bigint", *, origin: physical.Origin | None = None) -> physical.Output:
    """Return a column of a Map; names in backticks are columns of type bigint."""
    names = re.findall(r"`(.+?)`", sql)
    found = vectors.expression(sql.replace("`", '"'), dict.fromkeys(names, "bigint"))
    assert str(found.type) == type_
    return physical.Output(name, found, origin)


def job(
    body: physical.Operator,
    folder: Path,
    *,
    table: str = "t",
    key: tuple[str, ...] = (),
    max_rows: int = 5_000_000,
    interval_ms: int = 1000,
    texts: Mapping[str, str] | None = None,
    cluster: str = "quickstart",
    master: str = "local[2]",
    execution: logical.Execution = "AUTO",
) -> physical.Job:
    """Return the job of a sink into table `n.<table>` of the SQLite catalog in `folder`; with a key it is an upsert."""
    change = physical.change_of(body)
    columns = physical.columns_of(body)
    connection = physical.Connection(
        "lake",
        "ICEBERG CATALOG",
        {"catalog_type": "sql", "url": f"sqlite:///{folder}/lake.db", "warehouse": str(folder / "lake")},
    )
    options = {
        "namespace": "n",
        "table": table,
        "column_types": {each.name: _iceberg(str(each.type)) for each in columns},
    }
    write = physical.Write(
        body,
        "ICEBERG CATALOG",
        connection,
        columns,
        "upsert" if key else "append",
        change,
        False,
        key,
        bool(key),
        options,
    )
    return physical.Job(
        f"materialize.public.{table}",
        f"id-{table}",
        cluster,
        master,
        {},
        timedelta(milliseconds=interval_ms),
        max_rows,
        write,
        dict(texts or {}),
        execution=execution,
    )


@dataclass(frozen=True, slots=True)
class FixedWorkload:
    """A fixed workload of jobs; a `Workload`."""

    jobs: Sequence[physical.Job]

    def now(self) -> Sequence[SinkAssignment]:
        """Return all jobs."""
        return [SinkAssignment(job) for job in self.jobs]

    def assignment(self, sink_id: str) -> SinkAssignment | None:
        """Return the job of a sink."""
        return next((SinkAssignment(job) for job in self.jobs if job.sink_id == sink_id), None)


def loop_of(
    job: physical.Job,
    context: Context,
    registry: Registry,
    *,
    engine: Engine | None = None,
    control: CommitLog | None = None,
    writer: Writer | None = None,
    progress: Progress = silent,
    now_ms: Callable[[], int] = clock.time_ms,
    since_ms: int = 0,
) -> BatchLoop:
    """Return the batch loop of a job with its connectors, not started; by default without Spark and in memory."""
    readers = with_clock(job, {read.source: registry.reader(read, context) for read in job.reads()}, now_ms)
    writer = writer or registry.writer(job.write, context)
    letters = open_dead_letter_table(registry, job, context)
    return BatchLoop(
        job, readers, writer, engine or LocalEngine(), context.folder, control or MemoryControl(), progress,
        dead_letters=letters, state_directory=StateDirectory.of(context), since_ms=since_ms,
    )  # fmt: skip


def use_engine(loop: BatchLoop, engine: Engine) -> None:
    """Set the engine of all parts of a loop that has not started."""
    computation = loop.computation
    computation.engine = loop.state.engine = engine
    computation.indexes = replace(computation.indexes, engine=engine)
    computation.lookup = replace(computation.lookup, engine=engine)


def drain(loop: BatchLoop) -> int:
    """Commit all available data, or up to the loop's targets; return the number of batches. `start` comes first."""
    pacer = Pacer(loop.readers, next_temporal_change=lambda: loop.next_temporal_change, timeline=loop.timeline)
    orders = PacingOrders(loop.checkpoint.end, timedelta(0), loop.job.max_rows_per_commit, loop.targets)
    batches = 0
    if loop.needs_full_refresh():
        loop.full_refresh()
        batches += 1
        orders = PacingOrders(loop.checkpoint.end, timedelta(0), loop.job.max_rows_per_commit, loop.targets)
    if loop.has_unread_output():
        loop.commit_batch(loop.checkpoint.end, loop.checkpoint.end)
        batches += 1
    while True:
        start = loop.checkpoint.end
        end = pacer.next_end(start, orders, time.time_ns() // 1_000_000)
        if json.dumps(start, sort_keys=True) == json.dumps(end, sort_keys=True):
            return batches
        loop.commit_batch(start, end)
        batches += 1


def catch_up(loop: BatchLoop, *, patience: float = PATIENCE_S) -> None:
    """Commit up to the loop's targets; wait for captures that have not delivered yet. `start` comes first."""
    if loop.needs_full_refresh():
        loop.full_refresh()
    pacer = Pacer(loop.readers, next_temporal_change=lambda: loop.next_temporal_change, timeline=loop.timeline)
    orders = PacingOrders(loop.checkpoint.end, timedelta(0), loop.job.max_rows_per_commit, loop.targets)
    until = time.monotonic() + patience
    while not loop.caught_up():
        start = loop.checkpoint.end
        end = pacer.next_end(start, orders, time.time_ns() // 1_000_000)
        if end == start:
            assert time.monotonic() < until, f"no end: {start}, {loop.targets}"
            time.sleep(0.002)
        else:
            loop.commit_batch(start, end)


def _iceberg(type_: str) -> str:
    return f"decimal(38,{type_.split(',')[1]}" if type_.startswith("numeric") else _ICEBERG[type_]


def contexts(folder: Path, each: physical.Job) -> Context:
    own = folder / "state" / each.sink_id
    own.mkdir(parents=True, exist_ok=True)

    def secret(name: str) -> str:
        raise AssertionError(f"no secret {name}")

    return Context(each.sink, each.sink_id, own, secret)


@dataclass
class MemoryControl:
    """The catalog's control tables in memory."""

    lease_seconds: float = 30.0
    wanted: dict[str, Desired] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    statuses: list[tuple[str, Status, str | None]] = field(default_factory=list)
    details: dict[str, Mapping[str, Any] | None] = field(default_factory=dict)
    commits: list[dict[str, Any]] = field(default_factory=list)
    epochs: dict[str, int] = field(default_factory=dict)
    committed_once: threading.Event = field(default_factory=threading.Event)
    compactions: list[Compacted] = field(default_factory=list)
    asking: dict[str, int] = field(default_factory=dict)
    begun: list[int] = field(default_factory=list)
    figures: dict[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    outcomes: dict[int, Compacted] = field(default_factory=dict)
    optimized_once: threading.Event = field(default_factory=threading.Event)

    def acquire(self, sink_id: str, *, owner: str, takeover: bool) -> int:
        if sink_id in self.owners and not takeover:
            raise SinkqlError("SQ5201", "sink is already running")
        self.owners[sink_id] = owner
        self.epochs[sink_id] = self.epochs.get(sink_id, 0) + 1
        return self.epochs[sink_id]

    def is_held(self, sink_id: str) -> bool:
        return sink_id in self.owners

    def failure(self, sink_id: str) -> str | None:
        last = next((each for each in reversed(self.statuses) if each[0] == sink_id), None)
        return last[2] if last is not None and last[1] == "failed" else None

    def renew(self, sink_id: str, *, owner: str) -> None:
        if self.owners.get(sink_id) != owner:
            raise SinkqlError("SQ5202", "sink was taken over")

    def renew_all(self, owners: Mapping[str, str]) -> Mapping[str, SinkqlError]:
        taken = {sink_id for sink_id, owner in owners.items() if self.owners.get(sink_id) != owner}
        return {sink_id: SinkqlError("SQ5202", "sink was taken over") for sink_id in taken}

    def release(self, sink_id: str, *, owner: str) -> None:
        if self.owners.get(sink_id) == owner:
            del self.owners[sink_id]

    def compacted(self, sink_id: str, done: Compacted) -> None:
        self.compactions.append(done)

    def measured(self, id_: str, figures: Mapping[str, Mapping[str, Any]]) -> None:
        self.figures[id_] = figures

    def optimize_request(self, sink_id: str) -> int | None:
        return self.asking.get(sink_id)

    def desired_states(self, sink_ids: Collection[str]) -> Mapping[str, tuple[Desired, int | None]]:
        return {each: (self.desired(each), self.optimize_request(each)) for each in sink_ids}

    def optimizing(self, sink_id: str, number: int, *, files: int, of: int) -> None:
        self.begun.append(number)

    def optimized(self, sink_id: str, number: int, done: Compacted) -> None:
        del self.asking[sink_id]
        self.outcomes[number] = done
        self.optimized_once.set()

    def desired(self, sink_id: str) -> Desired:
        return self.wanted.get(sink_id, "running")

    def status(
        self,
        sink_id: str,
        status: Status,
        *,
        owner: str | None = None,
        error: str | None = None,
        hint: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        self.details[sink_id] = details
        change = (sink_id, status, error)
        if change != next((each for each in reversed(self.statuses) if each[0] == sink_id), None):
            self.statuses.append(change)

    def committed(
        self,
        sink_id: str,
        *,
        rows: int,
        size: int,
        offsets: JobOffsets,
        epoch: int,
        snapshot: int | None = None,
        lag: float | None = None,
        counts: Mapping[str, int] | None = None,
        in_spark: bool = False,
    ) -> None:
        self.commits.append({"sink": sink_id, "rows": rows, "offsets": offsets, "counts": dict(counts or {})})
        self.committed_once.set()


def rows(folder: Path, table: str = "t") -> Rows:
    """Return the sorted rows of a table, and check that DuckDB and PyIceberg read the same."""
    catalog = load_catalog("default", type="sql", uri=f"sqlite:///{folder}/lake.db", warehouse=f"file://{folder}/lake")
    loaded = catalog.load_table(f"n.{table}")
    found = pyiceberg_rows(loaded)
    assert found == duckdb_folder(loaded.location())
    return found
