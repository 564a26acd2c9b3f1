"""Random writes to a real server, and a capture and sinks that die at any point; a seed's dice decide all of it.

The dice of a seed decide what happens; the machine decides when.
"""

from __future__ import annotations

import base64
import pickle
import random
import signal
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from capture.pipeline import Sinks
from sinkql import physical
from sinkql.capture.control import SubscribedSink
from sinkql.capture.log import LogDirectory, source_folder
from sinkql.capture.runner import discard
from sinkql.connector_api.cdc import CapturedSource, CapturedTable, source_options, table_options
from sinkql.connectors.postgres.client import failure
from sinkql.connectors.postgres.stream import forget
from support.forking import Children
from support.patience import Deadline, joined
from support.postgres import Postgres
from support.readers import duckdb_folder
from support.running import job

from .reading import login, tables

CAPTURE_POINTS = (
    "publish", "publish-files", "entry-before", "entry-made", "chunk-read", "chunk-written", "confirm", "forget",
    "entry-deleted",
)  # fmt: skip
SINK_POINTS = ("read-marker", "data-files", "committed", "released", "status")
_STOPS = {"fast restarts": signal.SIGINT, "immediate restarts": signal.SIGQUIT}
_LONG = "(SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 80))"


class WrongError(AssertionError):
    """A table differs from the server's table."""


@dataclass(frozen=True)
class ServerSinks(Sinks):
    """Sinks of one table of a real server."""

    of: CapturedTable = field(kw_only=True)
    id: str = field(kw_only=True)

    @property
    def directory(self) -> LogDirectory:
        return LogDirectory.local(source_folder(self.folder, self.id))

    def job(self, name: str, *, max_rows: int = 300) -> physical.Job:
        options = table_options(source_options(self.id, "pg", {}, self.keeping), self.of)
        read = physical.Read(
            "t", "FAKE", options, self.of.columns, "upsert", key=self.of.key, holes=self.of.has_unchanged_values
        )
        body = physical.Normalize(read, "rows", self.of.key) if self.of.has_unchanged_values else read
        return job(body, self.folder, table=name, key=self.of.key, max_rows=max_rows)

    def subscribed_sinks(self) -> list[SubscribedSink]:
        return [SubscribedSink(f"id-{name}", self.of) for name in self.names]

    def table(self, name: str) -> dict[Any, tuple[Any, ...]]:
        rows = duckdb_folder(str(self.folder / "lake" / "n" / name))
        found = {row[0]: tuple(row) for row in rows}
        if len(found) < len(rows):
            raise WrongError(f"sink {name}: {len(rows)} rows of {len(found)} keys")
        return found


# --- writes -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Writing:
    """Random transactions on the table `t` of a database, with keys up to `keys`."""

    server: Postgres
    database: str
    keys: int

    @contextmanager
    def by(self, seeds: Sequence[int]) -> Iterator[None]:
        """Write until the block ends, in one thread per seed."""
        stop = threading.Event()
        threads = [threading.Thread(target=self._write, args=(seed, stop), daemon=True) for seed in seeds]
        for each in threads:
            each.start()
        try:
            yield
        finally:
            stop.set()
            joined(*threads)

    def _write(self, seed: int, stop: threading.Event) -> None:
        chance = random.Random(seed)
        while not stop.is_set():
            with suppress(psycopg.OperationalError), self.server.connect(self.database) as connection:
                while not stop.is_set():
                    self._transaction(connection, chance)
                    stop.wait(chance.random() * 0.02)
            stop.wait(0.01)  # the server is restarting

    def _transaction(self, connection: psycopg.Connection[Any], chance: random.Random) -> None:
        with suppress(psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation), connection.transaction():
            for _ in range(chance.choice([1, 1, 2, 5, 20])):
                with suppress(psycopg.Rollback), connection.transaction():  # a savepoint
                    connection.execute(self.change(chance))
                    if chance.random() < 0.03:
                        raise psycopg.Rollback
            if chance.random() < 0.1:
                raise psycopg.Rollback

    def change(self, chance: random.Random) -> str:
        """Return statements that change the values of a row, its key, or all rows."""
        key, other, what = chance.randint(1, self.keys), chance.randint(1, self.keys), chance.random()
        if what < 0.3:
            long = _LONG if chance.random() < 0.3 else "'short'"
            return f"INSERT INTO t VALUES ({key}, {other}, {long}) ON CONFLICT (id) DO UPDATE SET v = excluded.v"
        if what < 0.6:
            return f"UPDATE t SET v = {other} WHERE id = {key}"
        if what < 0.67:
            return f"UPDATE t SET long = {_LONG} WHERE id = {key}"
        if what < 0.8:
            return f"DELETE FROM t WHERE id = {key}"
        if what < 0.9997:
            return f"DELETE FROM t WHERE id = {other}; UPDATE t SET id = {other} WHERE id = {key} AND id <> {other}"
        return "TRUNCATE t"


@contextmanager
def standby_that_comes_and_goes(server: Postgres, seed: int) -> Iterator[None]:
    """Make commits wait now and then for a standby that does not exist."""
    chance, stop = random.Random(seed), threading.Event()

    def toggle() -> None:
        while not stop.wait(chance.random() * 0.2):
            have_commits_wait(server, "nobody")
            stop.wait(chance.random() * 0.3)
            have_commits_wait(server, "")

    toggling = threading.Thread(target=toggle, daemon=True)
    toggling.start()
    try:
        yield
    finally:
        stop.set()
        joined(toggling)
        have_commits_wait(server, "")


def have_commits_wait(server: Postgres, standby: str) -> None:
    deadline = Deadline()
    while True:
        with suppress(psycopg.OperationalError), server.connect() as connection:
            connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{standby}'")
            connection.execute("SELECT pg_reload_conf()")
            return
        deadline.check("the server")
        time.sleep(0.02)


# --- processes --------------------------------------------------------------------------------------------------------


@dataclass
class World:
    """A capture and the sinks of table `t`; `mutants` are the omitted parts of the protocol."""

    server: Postgres
    database: str
    children: Children
    sinks: ServerSinks
    source: CapturedSource
    dice: random.Random
    mutants: tuple[str, ...] = ()
    restarts: bool = False
    """Whether the server restarts, and captures are suspended while others take over."""
    epoch: int = 0
    happened: Counter[str] = field(default_factory=Counter)
    capture: int | None = None
    stopped: list[int] = field(default_factory=list)
    awake: list[int] = field(default_factory=list)
    running: dict[str, int] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        """Return the file with unexpected errors of processes."""
        return self.sinks.folder / "failed.log"

    def start(self, role: str, name: str = "", *, failpoints: str = "") -> int:
        """Start a process, and return its id."""
        pid: int = self.children.order(
            do="start",
            role=role,
            name=name,
            sinks=base64.b64encode(pickle.dumps((self.sinks, self.source))).decode(),
            port=self.server.port,
            database=self.database,
            epoch=self.epoch,
            failpoints=failpoints,
            mutants=self.mutants,
            counts=str(self.sinks.folder / "counts"),
            log=str(self.log),
        )
        return pid

    def live(self, seconds: float) -> None:
        """Run the processes for some seconds, and disturb them."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._tend()
            self._disturb()
            time.sleep(0.01)

    def _rule(self, points: tuple[str, ...]) -> str:
        return f"{self.dice.choice(points)}#{self.dice.randint(1, 6)}=kill" if self.dice.random() < 0.6 else ""

    def _tend(self) -> None:
        """Note the processes that have died, and start the missing ones."""
        if self.capture is not None and self._ended(self.capture):
            self.capture = None
        if self.capture is None:
            if self.dice.random() < 0.3:
                discard(self.sinks.directory)
                self.happened["logs lost"] += 1
            self.epoch += 1
            self.capture = self.start("capture", failpoints=self._rule(CAPTURE_POINTS))
        for name in self.sinks.names:
            if name in self.running and self._ended(self.running[name]):
                del self.running[name]
            if name not in self.running and self.dice.random() < 0.1:
                self.running[name] = self.start("sink", name, failpoints=self._rule(SINK_POINTS))

    def _ended(self, pid: int) -> bool:
        status = self.children.order(do="poll", pid=pid)
        assert not self.log.exists(), self.log.read_text()
        if status == -9:
            self.happened["kills"] += 1
        return status is not None

    def _kill(self, pid: int) -> None:
        self.children.order(do="kill", pid=pid)
        self.happened["kills"] += 1

    def _disturb(self) -> None:
        """Kill a process now and then."""
        if self.capture is not None and self.dice.random() < 0.01:
            self._kill(self.capture)
            self.capture = None
        if self.running and self.dice.random() < 0.01:
            self._kill(self.running.pop(self.dice.choice(sorted(self.running))))
        if self.restarts:
            self._disturb_more()

    def _disturb_more(self) -> None:
        if self.capture is not None and self.dice.random() < 0.01:
            self.children.order(do="stop", pid=self.capture)
            self.stopped.append(self.capture)
            self.capture = None
            self.happened["captures stopped"] += 1
        if self.stopped and self.dice.random() < 0.03:  # another capture has the log by now
            self.awake.append(self.stopped.pop(0))
            self.children.order(do="continue", pid=self.awake[-1])
        if self.dice.random() < 0.004:
            how = self.dice.choice(sorted(_STOPS))
            self.server.restart(_STOPS[how])
            self.happened[how] += 1

    def end(self) -> None:
        """Kill all processes that remain."""
        captures = [self.capture] if self.capture is not None else []
        for pid in [*self.running.values(), *captures, *self.stopped, *self.awake]:
            self.children.order(do="kill", pid=pid)
        self.running.clear()
        self.stopped.clear()
        self.awake.clear()
        self.capture = None

    def settle(self, patience: float) -> float:
        """Run undisturbed up to the server's end; return how many seconds this took."""
        began = time.monotonic()
        self.end()
        self.epoch += 1
        self.capture = self.start("capture")
        try:
            for name in self.sinks.names:
                while (status := self._run(name, began + patience)) == 3:
                    pass
                assert status == 0, self.log.read_text()
        finally:
            self.children.order(do="kill", pid=self.capture)
            self.capture = None
        for path in (self.sinks.folder / "counts").glob("*"):
            self.happened[path.name] += path.stat().st_size
        return time.monotonic() - began

    def _run(self, name: str, until: float) -> int:
        """Run a sink until it ends, and return its exit status."""
        pid = self.start("sink", name)
        while (status := self.children.order(do="poll", pid=pid)) is None:
            if time.monotonic() > until:
                where = f"sink {name} does not end; {self._where(pid)}"
                self.children.order(do="kill", pid=pid)
                raise AssertionError(where)
            time.sleep(0.01)
        return int(status)

    def _where(self, sink: int) -> str:
        """Return the errors of the processes, the stacks of the capture and a sink, and the end of the log."""
        assert self.capture is not None
        told = [self.log.read_text() if self.log.exists() else ""]
        for what, pid in (("capture", self.capture), ("sink", sink)):
            ended = self.children.order(do="poll", pid=pid)
            if ended is not None:
                told.append(f"the {what} ended: {ended}")
                continue
            self.children.order(do="tell", pid=pid)
            file, deadline = self.log.with_name(f"{self.log.name}.{pid}"), Deadline()
            while deadline.left() and not file.read_text().endswith("\n"):
                time.sleep(0.01)
            told.append(f"the {what} is at\n{file.read_text()}")
        place = self.sinks.directory
        told += [f"entry {number}: {place.entry(number)}" for number in place.numbers()[-3:]]
        return "\n".join(told)


# --- one seed ---------------------------------------------------------------------------------------------------------


def run(
    server: Postgres,
    children: Children,
    folder: Path,
    seed: int,
    *,
    mutants: tuple[str, ...] = (),
    restarts: bool = False,
    patience: float = 60.0,
) -> Counter[str]:
    """Run a seed, and compare two tables with the server's; return how often each event happened.

    Raise WrongError if a table is wrong at the end. Raise another AssertionError if a sink has not finished `patience`
    seconds after the last write.
    """
    dice, database = random.Random(seed), server.database()
    keys = dice.choice([30, 200, 1000])
    identity = "ALTER TABLE t REPLICA IDENTITY FULL;" if seed % 4 == 3 else ""
    server.execute(
        f"CREATE TABLE t (id int PRIMARY KEY, v int, long text); {identity} CREATE PUBLICATION p FOR TABLE t;"
        f"ALTER TABLE t ALTER long SET STORAGE EXTERNAL;"
        f"INSERT INTO t SELECT i, i, CASE WHEN i % 3 = 0 THEN repeat(md5(i::text), 90) ELSE 'x' END "
        f"FROM generate_series(1, {keys}, 2) AS i",
        database,
    )
    source = CapturedSource(str(uuid.uuid4()), "s", "postgres", None, {"publication": "p", "tuning": {}})
    sinks = ServerSinks(folder, ("a", "b"), of=tables(server, database)["t"], id=source.id)
    for name in sinks.names:  # in sequence, like a process that runs several sinks
        sinks.loop(name).writer.open()
    world = World(server, database, children, sinks, source, dice, mutants, restarts)
    try:
        seconds = _compared(world, Writing(server, database, keys), seed, patience)
    finally:
        world.end()
        forget(login(server, database), source, failure)
        server.drop(database)
    return world.happened + Counter({"milliseconds to settle": int(seconds * 1000)})


def _compared(world: World, writing: Writing, seed: int, patience: float) -> float:
    server, sinks = world.server, world.sinks
    with standby_that_comes_and_goes(server, seed), writing.by([seed * 10 + number for number in range(2)]):
        world.live(world.dice.uniform(2.0, 5.0))
    seconds = world.settle(patience)
    expected = {row[0]: row for row in server.execute("SELECT id, v, long FROM t", world.database)}
    for name in sinks.names:
        found = sinks.table(name)
        wrong = sorted(key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key))
        if wrong:
            raise WrongError(f"seed {seed}, sink {name}: {len(wrong)} wrong rows, {wrong[:5]}")
    return seconds
