"""A captured table of the fake server of `tests/capture`, with a sink into the pipeline's Iceberg catalog."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from capture.pipeline import Running, Sinks, registry
from capture.server import Change, Server
from sinkql import physical
from sinkql.connector_api.stream import Context
from sinkql.runtime.batch.events import Progress
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.session import Session
from support.running import loop_of

TABLE = "captured"
_KEYS = 40


@dataclass(frozen=True)
class CapturedTable(Sinks):
    """The sink of one table; its folder also has the server's file. `lake` is the connection of the sink's table."""

    names: tuple[str, ...] = (TABLE,)
    session: Session | None = None
    lake: physical.Connection | None = None
    namespace: str = ""

    def job(self, name: str = TABLE, *, max_rows: int = 50) -> physical.Job:
        made = super().job(name, max_rows=max_rows)
        assert self.lake is not None
        options = {**made.write.options, "namespace": self.namespace}
        write = msgspec.structs.replace(made.write, connection=self.lake, options=options)
        return msgspec.structs.replace(made, write=write)

    def context(self, made: physical.Job) -> Context:
        assert self.session is not None
        access = self.session.access
        return replace(super().context(made), secret=access.secret, store=access.job_store)

    def step(self, number: int, run: Callable[[physical.Job, BatchLoop], None] | None, progress: Progress) -> None:
        """Commit a step's changes on the server, and capture them; with `run`, run the sink too."""
        if not self.server.path.exists():
            self.folder.mkdir(exist_ok=True)
            Server.make(self.server.path)
        self.server.commit(_changes(number))
        with Running(self) as running:
            if run is not None:
                made = self.job()
                context = self.context(made)
                context.folder.mkdir(parents=True, exist_ok=True)
                run(made, loop_of(made, context, registry(), progress=progress))
            else:
                end = self.server.end()
                running.until(lambda: running.captured() >= end)

    def rows(self, name: str = "t") -> dict[int, str]:
        """Return the present rows of the server's table."""
        return self.server.rows(name)


def captured(folder: Path, session: Session, lake: physical.Connection, namespace: str) -> CapturedTable:
    """Return the captured table of a project's folder."""
    return CapturedTable(folder / "server", session=session, lake=lake, namespace=namespace)


def _changes(step: int) -> list[Change]:
    chance = random.Random(f"server {step}")
    changes: list[Change] = []
    for _ in range(25):
        gone = step > 1 and chance.random() < 0.3
        changes.append(("t", chance.randrange(_KEYS), None if gone else f"{step}-{chance.randrange(1000)}"))
    return changes
