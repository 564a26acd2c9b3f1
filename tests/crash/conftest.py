"""Processes that are killed, stopped or failed on demand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import pytest

from crash import verify
from crash.pipeline import Pipeline, write_input, write_stream
from support.patience import PATIENCE_S

Again = Literal["never", "claim", "batch"]
KILLED = -9


@dataclass(frozen=True)
class Ended:
    """How a process ended: exit code or "stopped", error code, failed batches, and passes of each failpoint."""

    status: int | str
    code: str | None = None
    message: str = ""
    failures: int = 0
    passes: dict[str, int] = field(default_factory=dict)
    log: str = ""


@dataclass
class Children:
    """A server that forks a process for each pipeline, one at a time; a stopped one waits for `resume`."""

    process: subprocess.Popen[str]

    def run(self, pipeline: Pipeline, failpoints: str = "", *, again: Again = "never") -> Ended:
        """Run a pipeline with failpoints until it is caught up."""
        told = pipeline.folder / f"told-{uuid4().hex}.json"
        plain = {name: value for name, value in asdict(pipeline).items() if name not in ("folder", "glob")}
        order = {"folder": str(pipeline.folder), "pipeline": plain, "failpoints": failpoints, "again": again}
        return self._answer(told, order)

    def stop(self, pipeline: Pipeline, failpoints: str) -> Path:
        """Run a pipeline until a failpoint stops it; return the argument for `resume`."""
        told = pipeline.folder / f"told-{uuid4().hex}.json"
        plain = {name: value for name, value in asdict(pipeline).items() if name not in ("folder", "glob")}
        order = {"folder": str(pipeline.folder), "pipeline": plain, "failpoints": failpoints, "again": "never"}
        assert self._answer(told, order).status == "stopped"
        return told

    def resume(self, told: Path) -> Ended:
        """Resume a stopped process and wait for its end."""
        return self._answer(told, {"resume": True})

    def _answer(self, told: Path, order: dict[str, Any]) -> Ended:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({**order, "told": str(told)}) + "\n")
        self.process.stdin.flush()
        assert wait([self.process.stdout.fileno()], PATIENCE_S), f"{order} did not end in {PATIENCE_S:.0f} seconds"
        status = json.loads(self.process.stdout.readline())
        log = Path(f"{told}.log")
        assert not log.exists(), log.read_text()
        return Ended(status, **json.loads(told.read_text())) if told.exists() else Ended(status)


@pytest.fixture(scope="session")
def children() -> Iterator[Children]:
    tests = Path(__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tests), *sys.path])}
    with subprocess.Popen(
        [sys.executable, "-m", "crash.child"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Children(process)
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture(scope="session")
def undisturbed(children: Children, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that runs a kind undisturbed and returns failpoint passes and state digests."""

    @cache
    def run(kind: str, **settings: Any) -> tuple[Counter[str], Any]:
        folder = tmp_path_factory.mktemp(kind)
        write_input(folder)
        write_stream(folder)
        pipeline = Pipeline(folder, kind, **settings)
        ended = children.run(pipeline)
        assert ended.status == 0, ended
        verify.check_rows(pipeline)
        return Counter(ended.passes), verify.check_state(pipeline)

    return run
