"""Captures and sinks that die wherever they are, logs that are lost: the tables are what the server has, in the end."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from capture.pipeline import Sinks
from capture.server import Change, Server
from sinkql.capture.process import discard
from sinkql.extension.capture import Keeping
from support.patience import Deadline

CAPTURE_POINTS = (
    "publish", "publish-files", "entry-before", "entry-made", "chunk-read", "chunk-written", "confirm", "forget",
    "entry-deleted",
)  # fmt: skip
SINK_POINTS = ("read-marker", "data-files", "committed", "released", "status")
_KEYS = 60


@dataclass
class Children:
    """The program that forks captures and sinks."""

    program: subprocess.Popen[str]

    def order(self, **order: Any) -> Any:
        """Give an order, and return the answer."""
        assert self.program.stdin is not None
        assert self.program.stdout is not None
        self.program.stdin.write(json.dumps(order) + "\n")
        self.program.stdin.flush()
        return json.loads(self.program.stdout.readline())


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    tests = Path(__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tests), *sys.path])}
    with subprocess.Popen(
        [sys.executable, "-m", "capture.child"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        yield Children(program)
        assert program.stdin is not None
        program.stdin.close()


@dataclass
class World:
    """A server that is written to, a capture and two sinks that die; `dice` decide all of it."""

    children: Children
    sinks: Sinks
    server: Server
    dice: random.Random
    epoch: int = 0
    kills: int = 0
    deaths: Counter[str] = field(default_factory=Counter)
    capture: int | None = None
    running: dict[str, int] = field(default_factory=dict)

    def start(self, role: str, name: str = "", *, faults: str = "") -> int:
        """Start a process."""
        pid: int = self.children.order(
            do="start",
            role=role,
            name=name,
            names=self.sinks.names,
            folder=str(self.sinks.folder),
            keeping=msgspec.to_builtins(self.sinks.keeping),
            epoch=self.epoch,
            faults=faults,
            log=str(self._log),
        )
        return pid

    @property
    def _log(self) -> Path:
        return self.sinks.folder / "failed.log"

    def _rule(self, points: tuple[str, ...]) -> str:
        return f"{self.dice.choice(points)}#{self.dice.randint(1, 4)}=kill" if self.dice.random() < 0.8 else ""

    def tend(self) -> None:
        """Start what does not run, and take note of what died."""
        if self.capture is not None and self._ended(self.capture):
            self.capture = None
        if self.capture is None:
            if self.sinks.keeping.keep == "server" and self.dice.random() < 0.2:
                discard(self.sinks.place)
                self.deaths["log"] += 1
            self.epoch += 1
            self.capture = self.start("capture", faults=self._rule(CAPTURE_POINTS))
        for name in self.sinks.names:
            if name in self.running and self._ended(self.running[name]):
                del self.running[name]
            if name not in self.running and self.dice.random() < 0.3:
                self.running[name] = self.start("sink", name, faults=self._rule(SINK_POINTS))

    def _ended(self, pid: int) -> bool:
        status = self.children.order(do="poll", pid=pid)
        assert not self._log.exists(), self._log.read_text()
        if status == -9:
            self.kills += 1
            self.deaths["at a point"] += 1
        return status is not None

    def disturb(self) -> None:
        """Kill something, now and then."""
        if self.capture is not None and self.dice.random() < 0.02:
            self.children.order(do="kill", pid=self.capture)
            self.capture = None
            self.kills += 1
            self.deaths["anywhere"] += 1
        if self.running and self.dice.random() < 0.02:
            name = self.dice.choice(sorted(self.running))
            self.children.order(do="kill", pid=self.running.pop(name))
            self.kills += 1
            self.deaths["anywhere"] += 1

    def write(self) -> None:
        """Commit something."""
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
        """Let all go on undisturbed up to the end of the server's log."""
        for pid in [*self.running.values(), *([self.capture] if self.capture is not None else [])]:
            self.children.order(do="kill", pid=pid)
        self.running.clear()
        self.server.see_all()
        self.epoch += 1
        self.capture = self.start("capture")
        deadline = Deadline()
        for name in self.sinks.names:
            while (status := self._run(name, deadline)) == 3:
                pass
            assert status == 0, self._log.read_text()
        self.children.order(do="kill", pid=self.capture)

    def _run(self, name: str, deadline: Deadline) -> int:
        """Run a sink to its end; return how it ended."""
        pid = self.start("sink", name)
        while (status := self.children.order(do="poll", pid=pid)) is None:
            deadline.check(f"the end of sink {name}")
            time.sleep(0.01)
        return int(status)


def _check(folder: Path, children: Children, seed: int, kills: int, keeping: Keeping) -> Counter[str]:
    server = Server.make(folder / "server.db")
    server.commit([("t", key, "first") for key in range(0, _KEYS, 2)])
    world = World(children, Sinks(folder, ("a", "b"), keeping), server, random.Random(seed))
    for name in world.sinks.names:  # one after the other, as a process does that runs several
        world.sinks.loop(name).writer.open()
    deadline = Deadline()
    while world.kills < kills:
        world.write()
        world.tend()
        world.disturb()
        deadline.check(f"{kills} kills")
        time.sleep(0.01)
    world.settle()
    for name in world.sinks.names:
        assert world.sinks.rows(name) == server.rows(), f"seed {seed}, sink {name}"
    return world.deaths


@pytest.mark.parametrize("keep", ["server", "log"])
def test_tables_are_right_whatever_dies(tmp_path: Path, children: Children, keep: Any) -> None:
    deaths = _check(tmp_path, children, seed=7, kills=15, keeping=Keeping(keep))
    assert deaths["at a point"]


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_tables_are_right_whatever_dies_often(tmp_path: Path, children: Children, seed: int) -> None:
    keeping = Keeping("log" if seed % 3 == 0 else "server", max_retained=2000 if seed % 4 == 0 else None)
    _check(tmp_path, children, seed, kills=30, keeping=keeping)
