"""A server's table → an Iceberg table, by a capture and a sink's batch loop, each in a thread or a process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from capture.server import COLUMNS, FakeStream, Server, table
from sinkql import physical
from sinkql.capture import open_reader
from sinkql.capture.control import CaptureIntervals, CaptureProgress, SubscribedSink
from sinkql.capture.log import LogDirectory
from sinkql.capture.log_store import DamagedEntryError
from sinkql.capture.object_log_store import open_log_directory
from sinkql.capture.runner import CaptureRunner
from sinkql.connector_api.cdc import CapturedSource, LogPath, LogRetention, source_options, table_options
from sinkql.connector_api.planning import SourceKind, SourcePlan
from sinkql.connector_api.registry import Registry, discover
from sinkql.connector_api.stream import Context, Limit, Offsets
from sinkql.errors import SinkqlError
from sinkql.object_store.s3 import S3Credentials
from sinkql.object_store.store import ObjectStore
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.local.engine import LocalEngine
from sinkql.session import Session
from support.patience import PATIENCE_S, Deadline, source_of
from support.readers import duckdb_folder
from support.running import catch_up, job, loop_of, output

SOURCE = "s1"
QUICK = CaptureIntervals(
    entry_seconds=0.01,
    quiet_seconds=0.5,
    look_seconds=0.02,
    receive_seconds=0.005,
    confirm_seconds=0.02,
    kept_seconds=0.0,
    chunk_bytes=1000,
    hold_seconds=0.05,
    first_wait=0.01,
    longest_wait=0.1,
)


@dataclass(frozen=True)
class Sinks:
    """Sinks of a fake server's tables, in a folder; each reads table `t` or the table that `tables` names."""

    folder: Path
    names: tuple[str, ...] = ("a",)
    keeping: LogRetention = field(default_factory=LogRetention)
    tables: tuple[tuple[str, str], ...] = ()
    storage: Mapping[str, str] | None = None
    """The S3 properties, if the log is in a bucket."""

    @property
    def kept(self) -> LogRetention:
        """Return the retention options of the log, with its location."""
        if self.storage is None:
            return self.keeping
        return msgspec.structs.replace(self.keeping, log=LogPath(f"s3://data/{self.folder.name}", "aws"))

    @property
    def _log(self) -> physical.Connection | None:
        return physical.Connection("aws", "AWS", {}) if self.storage is not None else None

    def _store(self, connection: physical.Connection) -> ObjectStore:
        assert self.storage is not None
        return S3Credentials(self.storage)

    def context(self, made: physical.Job) -> Context:
        """Return the context of a sink's readers and writer."""
        return Context(made.sink, made.sink_id, self.folder / "sinks" / made.sink_id, lambda _: "", store=self._store)

    @property
    def server(self) -> Server:
        return Server(self.folder / "server.db")

    @property
    def directory(self) -> LogDirectory:
        source = CapturedSource(SOURCE, "pg", "FAKE", None, log=self._log)
        return open_log_directory(self.folder, source, self.kept, self._store)

    def table_of(self, name: str) -> str:
        return dict(self.tables).get(name, "t")

    def job(self, name: str, *, max_rows: int = 50) -> physical.Job:
        """Return the job of a sink."""
        source = source_options(SOURCE, "pg", {}, self.kept)
        options = table_options(source, table(self.table_of(name)))
        read = physical.Read(self.table_of(name), "FAKE", options, COLUMNS, "upsert", key=("id",), log=self._log)
        return job(read, self.folder, table=name, key=("id",), max_rows=max_rows)

    def subscribed_sinks(self) -> list[SubscribedSink]:
        """Return the sinks as the catalog lists them."""
        return [SubscribedSink(f"id-{name}", table(self.table_of(name))) for name in self.names]

    def loop(self, name: str) -> BatchLoop:
        """Return a sink's batch loop, not started."""
        made = self.job(name)
        context = self.context(made)
        context.folder.mkdir(parents=True, exist_ok=True)
        return loop_of(made, context, registry())

    def rows(self, name: str = "a") -> dict[int, str]:
        """Return the rows of a sink's table, read by DuckDB."""
        rows = duckdb_folder(str(self.folder / "lake" / "n" / name))
        found = {row[0]: row[1] for row in rows}
        assert len(found) == len(rows)
        return found


def again(sinks: Sinks, name: str = "a") -> BatchLoop:
    """Return the loop of a sink whose view now selects only odd keys instead of all rows."""
    before = sinks.job(name)
    body = physical.Map(before.write.input, (), output("", "`id` % 2 = 1", "boolean"))
    after = job(body, sinks.folder, table=name, key=("id",))
    after = msgspec.structs.replace(after, sink_id=before.sink_id, follows=(physical.Earlier(before.plan, again=True),))
    return loop_of(after, sinks.context(after), registry())


def registry() -> Registry:
    """Return the registry with a source kind for the fake server."""
    found = discover()
    found.sources["FAKE"] = SourceKind("FAKE", _unplanned, open_reader)
    return found


def _unplanned(*arguments: object) -> SourcePlan:
    raise NotImplementedError


@dataclass
class FakeHost:
    """A catalog with the sinks; its lease never expires."""

    sinks: Sinks
    epoch: int = 1
    reports: list[CaptureProgress] = field(default_factory=list)
    offsets: dict[str, Offsets] = field(default_factory=dict)
    lost: bool = False

    def subscribed_sinks(self) -> Sequence[SubscribedSink]:
        return [replace(each, offsets=self.offsets.get(each.sink_id)) for each in self.sinks.subscribed_sinks()]

    def secret(self, name: str) -> str:
        raise AssertionError(name)

    def acquire(self) -> int | None:
        return None if self.lost else self.epoch

    def renew(self) -> bool:
        self.lost = self.newest() > self.epoch
        return not self.lost

    def newest(self) -> int:
        """Return the epoch of the log's last entry, 0 if the log is empty or damaged."""
        numbers = self.sinks.directory.numbers()
        try:
            last = self.sinks.directory.entry(numbers[-1]) if numbers else None
        except ValueError:
            return 0  # a damaged entry
        return last.epoch if last is not None else 0

    def release(self) -> None:
        pass

    def report(self, progress: CaptureProgress) -> None:
        self.reports.append(progress)


@dataclass
class Running:
    """A capture in a thread, for as long as a `with` lasts."""

    sinks: Sinks
    pace: CaptureIntervals = QUICK
    stream: Callable[[], FakeStream] | None = None
    host: FakeHost = field(init=False)
    capture: CaptureRunner = field(init=False)
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.host = FakeHost(self.sinks)
        stream = self.stream or (lambda: FakeStream(self.sinks.server))
        self.capture = CaptureRunner(self.sinks.directory, stream, self.sinks.keeping, self.host, self.pace)
        self.thread = threading.Thread(target=self.capture.run)

    def __enter__(self) -> Running:
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.capture.stopping.set()
        self.thread.join()

    def until(self, holds: Callable[[], object]) -> None:
        """Wait for a condition."""
        deadline = Deadline()
        while not holds():
            assert deadline.left(), f"no {source_of(holds)}; the capture reported {self.host.reports[-1:]}"
            assert self.thread.is_alive(), f"the capture ended before {source_of(holds)}"
            time.sleep(0.002)

    def wants(self, name: str) -> None:
        """Make a sink request its snapshot, as a new sink does."""
        reader = self.sinks.loop(name).readers[self.sinks.table_of(name)]
        reader.latest(reader.initial(at_end=False), Limit(1))

    def confirms(self) -> None:
        """Wait until the capture has confirmed twice from now on."""
        told = len(self.host.reports)
        self.until(lambda: len(self.host.reports) > told + 1)

    def captured(self) -> int:
        """Return the position that the log has reached."""
        numbers = self.sinks.directory.numbers()
        last = self.sinks.directory.entry(numbers[-1]) if numbers else None
        return int(last.to, 16) if last is not None else -1

    def entries(self) -> int:
        """Return the number of entries in the log."""
        return len(self.sinks.directory.numbers())


def once(sinks: Sinks, name: str = "a", *, patience: float = PATIENCE_S) -> BatchLoop:
    """Run a sink up to the server's present end, in this thread."""
    return drained(lambda: sinks.loop(name), patience=patience)


def drained(begin: Callable[[], BatchLoop], *, patience: float = PATIENCE_S) -> BatchLoop:
    """Run a loop as `drain` does, and again after retryable errors, as `sinkql exec` does.

    A busy capture may not answer, or may not have found a damaged entry yet.
    """
    deadline = Deadline()
    while True:
        loop = begin()
        try:
            drain(loop, patience=patience)
        except SinkqlError as error:
            if not (error.code == "SQ3431" or isinstance(error, DamagedEntryError)) or not deadline.left():
                raise
        else:
            return loop


def drain(loop: BatchLoop, *, patience: float = PATIENCE_S) -> None:
    """Start a loop, and commit up to the server's present end."""
    loop.start(epoch=1, once=True)
    catch_up(loop, patience=patience)


def run_once(session: Session, *names: str) -> None:
    """Run the session's only sink, or the named one, up to the server's present end without Spark."""
    (each,) = session.jobs(names or None)
    drain(loop_of(each, session.context(each), session.catalog.registry, engine=LocalEngine()))
