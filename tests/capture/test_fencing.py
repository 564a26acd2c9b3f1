"""Several captures of a source are stopped and resumed at any point; its log has each change once, in order."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from capture.leased import LeasedHost
from capture.pipeline import QUICK, Running, Sinks
from capture.server import FakeStream, Server
from sinkql.capture.log import Entry
from sinkql.capture.runner import CaptureRunner
from support.forking import Children
from support.namespace import is_stopped
from support.patience import Deadline, joined

_POINTS = ("publish", "publish-files", "entry-before", "entry-made", "chunk-read", "chunk-written", "confirm")
_CAPTURES, _KEYS = 3, 20
_KEEPING = replace(QUICK, kept_seconds=1000.0)


@dataclass
class Rivals:
    """Captures that compete for the lease; `dice` decide which one stops, continues or dies, and where."""

    children: Children
    sinks: Sinks
    dice: random.Random
    living: list[int] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)
    entries: dict[int, Entry] = field(default_factory=dict)

    def start(self, role: str = "capture", name: str = "", *, rules: str = "") -> int:
        pid: int = self.children.order(
            do="start",
            role=role,
            name=name,
            names=self.sinks.names,
            folder=str(self.sinks.folder),
            keeping=msgspec.to_builtins(self.sinks.keeping),
            storage=self.sinks.storage,
            lease=0.1,
            failpoints=rules,
            log=str(self._log),
        )
        return pid

    @property
    def _log(self) -> Path:
        return self.sinks.folder / "failed.log"

    def turn(self) -> None:
        """Cause one event, and check the log."""
        for pid in list(self.living):
            if self.children.order(do="poll", pid=pid) is not None:
                assert not self._log.exists(), self._log.read_text()
                self.living.remove(pid)
                self.happened["died at a point"] += 1
        while len(self.living) < _CAPTURES:
            how = self.dice.choice(["stop", "stop", "kill", ""])
            self.living.append(self.start(rules=how and f"{self.dice.choice(_POINTS)}#{self.dice.randint(1, 9)}={how}"))
        pid, what = self.dice.choice(self.living), self.dice.random()
        stopped = is_stopped(pid)
        if stopped and what < 0.15:
            self.children.order(do="continue", pid=pid)
            self.happened["woke up"] += 1
        elif not stopped and what < 0.05:
            self.children.order(do="stop", pid=pid)
        elif what > 0.98:
            self.children.order(do="kill", pid=pid)
            self.living.remove(pid)
            self.happened["died anywhere"] += 1
        self.look()

    def wake(self) -> None:
        """Resume all captures."""
        for pid in self.living:
            if is_stopped(pid):
                self.children.order(do="continue", pid=pid)
                self.happened["woke up"] += 1

    def look(self) -> None:
        """Record new entries; assert that recorded ones have not changed."""
        for number in self.sinks.directory.numbers():
            entry = self.sinks.directory.entry(number)
            assert entry is not None
            assert self.entries.setdefault(number, entry) == entry

    def end(self) -> None:
        """Kill all captures."""
        while self.living:
            self.children.order(do="kill", pid=self.living.pop())


def _check(entries: list[Entry]) -> int:
    """Assert that entries follow each other, none with an older lease; return the number of leases."""
    assert [each.entry for each in entries] == list(range(len(entries)))
    assert len({each.log for each in entries}) == 1
    for before, after in pairwise(entries):
        assert before.to == after.start <= after.to
        assert before.epoch <= after.epoch
    transactions = sum(each.transactions for each in entries)
    assert transactions == int(entries[-1].to, 16) - int(entries[0].to, 16)
    return len({each.epoch for each in entries})


def _live(folder: Path, children: Children, seed: int, wakes: int) -> Counter[str]:
    server = replace(Server.make(folder / "server.db"), patience=0.5)
    server.commit([("t", key, "first") for key in range(0, _KEYS, 2)])
    sinks = Sinks(folder)
    sinks.loop("a").writer.open()
    rivals = Rivals(children, sinks, random.Random(seed))
    deadline = Deadline()
    try:
        while rivals.happened["woke up"] < wakes:
            try:
                server.commit([("t", rivals.dice.randrange(_KEYS), str(rivals.dice.random()))])
            except sqlite3.OperationalError:  # a stopped process has locked the server's file
                rivals.wake()
            rivals.turn()
            deadline.check(f"{wakes} captures that wake up")
            time.sleep(0.01)
        rivals.end()
        rivals.living.append(rivals.start())
        sink = rivals.start("sink", "a")
        while (status := children.order(do="poll", pid=sink)) is None:
            deadline.check("the end of the sink")
            time.sleep(0.01)
        assert status == 0
    finally:
        rivals.end()
    rivals.look()
    rivals.happened["leases that wrote"] = _check([rivals.entries[number] for number in sorted(rivals.entries)])
    assert sinks.rows() == server.rows()
    return rivals.happened


@dataclass
class Slow(LeasedHost):
    """A capture that is suspended after it acquired the lease until another one has it."""

    other: Running | None = None
    asked: int = 0

    def acquire(self) -> int | None:
        epoch = super().acquire()
        self.asked += 1
        if self.other is None:
            self.other = Running(self.sinks, _KEEPING)
            self.other.host = LeasedHost(self.sinks, seconds=1000.0)
            self.other.capture.host = self.other.host
            self.other.__enter__()
            self.other.until(self.sinks.directory.numbers)
        return epoch


def test_a_capture_with_an_older_lease_does_not_continue_the_log(tmp_path: Path) -> None:
    Server.make(tmp_path / "server.db").commit([("t", 1, "one")])
    sinks = Sinks(tmp_path)
    sinks.loop("a").writer.open()
    host = Slow(sinks)
    late = CaptureRunner(sinks.directory, lambda: FakeStream(sinks.server), sinks.keeping, host, _KEEPING)
    running = threading.Thread(target=late.run, daemon=True)
    running.start()
    deadline = Deadline()
    while host.asked < 2 or host.other is None:
        deadline.check("the end of its lease")
        time.sleep(0.01)
    numbers = sinks.directory.numbers()
    late.stopping.set()
    joined(running)
    host.other.__exit__()
    assert {entry.epoch for number in numbers if (entry := sinks.directory.entry(number)) is not None} == {2}


def test_a_log_is_written_by_one_capture_at_a_time(tmp_path: Path, children: Children) -> None:
    happened = _live(tmp_path, children, seed=1, wakes=10)
    assert happened["leases that wrote"] > 2


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 125))
def test_a_log_is_written_by_one_capture_at_a_time_over_many_stops(
    tmp_path: Path, children: Children, seed: int
) -> None:
    happened = _live(tmp_path, children, seed, wakes=20)
    assert happened["leases that wrote"] > 2
