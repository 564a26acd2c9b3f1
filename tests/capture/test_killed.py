"""Captures and sinks are killed at any point, and logs are lost: in the end the tables equal the server."""

from __future__ import annotations

import random
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from capture.pipeline import Sinks
from capture.server import Change, Server
from sinkql.capture.runner import discard
from sinkql.connector_api.cdc import LogRetention
from support.forking import Children
from support.patience import Deadline
from support.seaweed import Seaweed

_CHUNK = "a capture within a chunk"
_CAPTURE = {
    "a capture before its entry exists": ("publish", "publish-files", "entry-before"),
    "a capture after the entry, before the server is told": ("entry-made", "confirm"),
    _CHUNK: ("chunk-read", "chunk-written"),
    "a capture that forgets": ("forget", "entry-deleted"),
}
_PUT = "a capture after the entry, before it knows that the log is still its own"
_SINK = {
    "a sink before its commit": ("read-marker", "data-files"),
    "a sink after its commit": ("committed", "released", "status"),
}
_CAPTURE_ANYWHERE, _SINK_ANYWHERE = "a capture anywhere", "a sink anywhere"
_DEATHS = (*_CAPTURE, _PUT, *_SINK, _CAPTURE_ANYWHERE, _SINK_ANYWHERE)
_ZOMBIES, _LOST, _DAMAGED = "captures that woke up after another took over", "logs lost", "files damaged"
_KEYS = 60
_READING = 4
"""The number of captures that die during the first snapshot, which is short."""


@dataclass
class World:
    """A server with writes, and a capture and two sinks that die; `dice` decide every step."""

    children: Children
    sinks: Sinks
    server: Server
    dice: random.Random
    epoch: int = 0
    happened: Counter[str] = field(default_factory=Counter)
    """The number of deaths at each place, and of other faults."""
    capture: int | None = None
    running: dict[str, int] = field(default_factory=dict)
    stopped: list[int] = field(default_factory=list)
    awake: list[int] = field(default_factory=list)
    dying: dict[int, str] = field(default_factory=dict)
    """The place where each process will die."""

    def start(self, role: str, name: str = "", *, failpoints: str = "") -> int:
        """Start a process."""
        pid: int = self.children.order(
            do="start",
            role=role,
            name=name,
            names=self.sinks.names,
            folder=str(self.sinks.folder),
            keeping=msgspec.to_builtins(self.sinks.keeping),
            storage=self.sinks.storage,
            epoch=self.epoch,
            failpoints=failpoints,
            log=str(self._log),
        )
        return pid

    @property
    def _log(self) -> Path:
        return self.sinks.folder / "failed.log"

    @property
    def kills(self) -> int:
        """Return the number of killed processes."""
        return sum(self.happened[each] for each in _DEATHS)

    def _start(self, role: str, rows: dict[str, tuple[str, ...]], name: str = "") -> int:
        """Start a process with a failpoint of one of these rows, more likely of a row with few deaths."""
        if self.dice.random() < 0.2:
            return self.start(role, name)
        row = min(self.dice.sample(sorted(rows), min(2, len(rows))), key=lambda each: self.happened[each])
        pid = self.start(role, name, failpoints=f"{self.dice.choice(rows[row])}#{self.dice.randint(1, 3)}=kill")
        self.dying[pid] = row
        return pid

    def tend(self) -> None:
        """Start missing processes, and record deaths."""
        if self.capture is not None and self._ended(self.capture):
            self.capture = None
        if self.capture is None:
            if not self.stopped:
                self._harm()
            self.epoch += 1
            rows = {_CHUNK: _CAPTURE[_CHUNK]} if self.epoch <= _READING else _CAPTURE
            if self.sinks.storage is not None and self.epoch > _READING:
                rows = {**rows, _PUT: ("entry-put",)}
            self.capture = self._start("capture", rows)
        for name in self.sinks.names:
            if name in self.running and self._ended(self.running[name]):
                del self.running[name]
            if name not in self.running and self.dice.random() < 0.3:
                self.running[name] = self._start("sink", _SINK, name)

    def _harm(self) -> None:
        """Sometimes lose the log or a part of it, if the server has its changes."""
        for pid in self.awake:
            self.children.order(do="kill", pid=pid)
        self.awake.clear()
        place = self.sinks.directory
        kept = [each.kept for each in map(place.entry, place.numbers()) if each is not None and each.kind == "open"]
        if "log" in kept[-1:]:
            return
        if self.dice.random() < 0.15:
            discard(place)
            self.happened[_LOST] += 1
        elif self.dice.random() < 0.15 and (files := self._files()):
            place.store.write(self.dice.choice(files), b"damaged")
            self.happened[_DAMAGED] += 1

    def _files(self) -> list[str]:
        """Return the names of the log's data files."""
        place = self.sinks.directory
        entries = [entry for number in place.numbers() if (entry := place.entry(number)) is not None]
        return [each.name for entry in entries for each in entry.files()]

    def _ended(self, pid: int) -> bool:
        status = self.children.order(do="poll", pid=pid)
        assert not self._log.exists(), self._log.read_text()
        if status == -9:
            self.happened[self.dying[pid]] += 1
        return status is not None

    def disturb(self) -> None:
        """Sometimes kill or stop a process."""
        if self.capture is not None and self.dice.random() < 0.02:
            self._kill(self.capture, _CAPTURE_ANYWHERE)
            self.capture = None
        if self.running and self.dice.random() < 0.01:
            self._kill(self.running.pop(self.dice.choice(sorted(self.running))), _SINK_ANYWHERE)
        if self.capture is not None and self.dice.random() < 0.01:
            self.children.order(do="stop", pid=self.capture)
            self.stopped.append(self.capture)
            self.capture = None
        elif self.stopped and self.dice.random() < 0.03:
            self._wake()

    def _wake(self) -> None:
        self.awake.append(self.stopped.pop(0))
        self.children.order(do="continue", pid=self.awake[-1])
        self.happened[_ZOMBIES] += 1

    def _kill(self, pid: int, row: str) -> None:
        self.children.order(do="kill", pid=pid)
        self.happened[row] += 1

    def write(self) -> None:
        """Commit random changes; if a stopped process has locked the server's file, resume it."""
        try:
            self._write()
        except sqlite3.OperationalError:
            while self.stopped:
                self._wake()

    def _write(self) -> None:
        count = self.dice.choice([1, 1, 2, 8])
        changes: list[Change] = []
        for _ in range(count):
            value = None if self.dice.random() < 0.3 else f"{self.server.end()} {self.dice.random()}"
            changes.append(("t", self.dice.randrange(_KEYS), value))
        if self.dice.random() < 0.02:
            changes.insert(0, ("t", -1, None))
        self.server.commit(changes, seen=self.dice.random() < 0.8)
        if self.dice.random() < 0.1:
            self.server.see_all()

    def settle(self) -> None:
        """Run all sinks to the server's end with a capture, without faults."""
        self.end()
        self.server.see_all()
        self.epoch += 1
        self.capture = self.start("capture")
        deadline = Deadline()
        for name in self.sinks.names:
            while (status := self._run(name, deadline)) == 3:
                pass
            assert status == 0, self._log.read_text()
        self.end()

    def end(self) -> None:
        """Kill all running processes."""
        captures = [self.capture] if self.capture is not None else []
        for pid in [*self.running.values(), *captures, *self.stopped, *self.awake]:
            self.children.order(do="kill", pid=pid)
        self.capture = None
        for each in (self.running, self.stopped, self.awake):
            each.clear()

    def _run(self, name: str, deadline: Deadline) -> int:
        """Run a sink to its end; return its exit code."""
        pid = self.start("sink", name)
        while (status := self.children.order(do="poll", pid=pid)) is None:
            deadline.check(f"the end of sink {name}")
            time.sleep(0.01)
        return int(status)


def _check(
    folder: Path,
    children: Children,
    seed: int,
    kills: int,
    keeping: LogRetention,
    storage: Mapping[str, str] | None = None,
) -> Counter[str]:
    """Run until enough processes were killed, and compare the tables with the server; return the counts."""
    server = Server.make(folder / "server.db")
    server.commit([("t", key, "first") for key in range(0, _KEYS, 2)])
    world = World(
        children,
        Sinks(folder, ("a", "b"), keeping, storage=storage),
        replace(server, patience=0.5),
        random.Random(seed),
    )
    for name in world.sinks.names:  # in turn, as in a process with several sinks
        world.sinks.loop(name).writer.open()
    deadline = Deadline()
    try:
        while world.kills < kills:
            world.write()
            world.tend()
            world.disturb()
            deadline.check(f"{kills} kills")
            time.sleep(0.01)
        world.settle()
    finally:
        world.end()
    for name in world.sinks.names:
        assert world.sinks.rows(name) == server.rows(), f"seed {seed}, sink {name}"
    return world.happened


@pytest.mark.parametrize("keep", ["server", pytest.param("log", marks=pytest.mark.soak)])
def test_tables_are_right_if_any_process_dies(tmp_path: Path, children: Children, keep: Any) -> None:
    happened = _check(tmp_path, children, seed=7, kills=10, keeping=LogRetention(keep))
    assert len([row for row in (*_CAPTURE, *_SINK) if happened[row]]) > 1


@pytest.fixture(scope="module")
def read_counts(pytestconfig: pytest.Config) -> Iterator[Counter[str]]:
    """Count the events of all seeds, and print them at the end."""
    found = Counter[str]()
    yield found
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        print(f"\n{sum(found[row] for row in _DEATHS)} kills: {dict(sorted(found.items()))}")


_WRITING = ("chunk-written#1", "publish-files#2", "entry-before#3", "entry-made#4", "entry-deleted#1")


@pytest.mark.parametrize("point", ["entry-put#3", *(pytest.param(each, marks=pytest.mark.soak) for each in _WRITING)])
def test_capture_into_an_object_store_may_die_at_any_write(
    tmp_path: Path, children: Children, bucket: Seaweed, point: str
) -> None:
    server = Server.make(tmp_path / "server.db")
    server.commit([("t", key, "first") for key in range(_KEYS)])
    world = World(children, Sinks(tmp_path, storage=bucket.storage), server, random.Random(0), epoch=1)
    capture = world.start("capture", failpoints=f"{point}=kill")
    sink, deadline = world.start("sink", "a"), Deadline()
    while (status := children.order(do="poll", pid=capture)) is None:
        server.commit([("t", server.end() % _KEYS, "then")])
        if children.order(do="poll", pid=sink) is not None:
            sink = world.start("sink", "a")
        deadline.check(point)
        time.sleep(0.02)
    assert status == -9
    children.order(do="kill", pid=sink)
    world.settle()
    assert world.sinks.rows() == server.rows()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_tables_are_right_after_many_deaths_with_the_log_in_an_object_store(
    tmp_path: Path, children: Children, read_counts: Counter[str], bucket: Seaweed, seed: int
) -> None:
    keeping = LogRetention("log" if seed % 3 == 0 else "server")
    read_counts += _check(tmp_path, children, seed, kills=20, keeping=keeping, storage=bucket.storage)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_tables_are_right_after_many_deaths(
    tmp_path: Path, children: Children, read_counts: Counter[str], seed: int
) -> None:
    keeping = LogRetention("log" if seed % 3 == 0 else "server", max_retained=2000 if seed % 4 == 0 else None)
    read_counts += _check(tmp_path, children, seed, kills=30, keeping=keeping)
