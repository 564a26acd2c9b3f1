"""Batches change between this process and the real Spark, which rests and is killed: each row is in the table once."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from crash.placed_program import LARGE_BYTES
from support.command import Running, launch
from support.leftover import left, marked, processes
from support.running import rows

pytestmark = pytest.mark.slow

_TESTS = Path(__file__).parents[1]
_OLD = (1_700_000_000, 1_700_000_000)
"""The time of a file that no process writes to."""


class _Case:
    """A running program, and the ids that it has been given."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.mark = marked()
        self.random = random.Random(seed)
        self.ids: set[int] = set()
        self.files = 0
        (folder / "in").mkdir()
        path = os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")])
        program = str(_TESTS / "crash" / "placed_program.py")
        environment = {**self.mark, "PYTHONPATH": path}
        self.running: Running = launch(program, str(folder), folder=folder, environment=environment)

    def java(self) -> list[int]:
        """Return the ids of the Java processes of the program."""
        return [pid for pid, command in processes(self.mark).items() if "java" in command.partition(" ")[0]]

    def write(self, *, large: bool) -> int:
        """Write a file, and return the number of its records."""
        ids = [self.random.randrange(1, 500) for _ in range(20)]
        self.ids.update(ids)
        text = "".join(f"{each}\n" for each in ids)
        repeated = LARGE_BYTES // len(text) + 1 if large else 1
        new = self.folder / "in" / "new"
        new.write_text("id\n" + text * repeated)
        os.utime(new, _OLD)
        new.rename(self.folder / "in" / f"{self.files:04}.csv")
        self.files += 1
        return len(ids) * repeated

    def commit(self, *, large: bool) -> None:
        """Write a file and wait until it is committed, in the place for its size."""
        records = self.write(large=large)
        self.running.wait_for_line(lambda line: line == f"SinkCommitted {records} {large}\n")

    def kill_java(self) -> None:
        """Kill Spark as the system does when memory is short."""
        (pid,) = self.java()
        os.kill(pid, signal.SIGKILL)

    def check(self) -> None:
        """Stop the program, and check the table."""
        assert self.running.interrupt() == 0
        assert left(self.mark) == []
        assert rows(self.folder) == [(each,) for each in sorted(self.ids)]


@pytest.fixture
def case(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[_Case]:
    found = _Case(tmp_path, getattr(request, "param", 0))
    yield found
    found.running.kill()


def test_spark_runs_only_from_the_first_large_batch_until_it_is_idle(case: _Case) -> None:
    for _ in range(3):
        case.commit(large=False)
    assert case.java() == []
    case.commit(large=True)
    assert len(case.java()) == 1
    case.commit(large=False)
    case.running.wait_for_line(lambda line: line.startswith("SparkRested"))
    assert case.java() == []
    case.commit(large=False)
    assert case.java() == []
    case.check()


@pytest.mark.soak
@pytest.mark.parametrize("case", range(3), indirect=True)
def test_batches_go_on_although_spark_is_killed(case: _Case) -> None:
    case.commit(large=True)
    for _ in range(12):
        if case.java() and case.random.random() < 0.5:
            case.kill_java()
        case.commit(large=case.random.random() < 0.5)
    case.check()
