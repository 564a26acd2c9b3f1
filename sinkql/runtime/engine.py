"""What one batch's work is, and the engine that runs it: Spark in use, plain Python in the quick tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from sinkql import physical
from sinkql.connector.stream import Reader, Split, Tally, WriteResult, WriteTask


@dataclass(frozen=True, slots=True)
class Arrangements:
    """Hold the state that a batch starts from and where its new runs go.

    `folder` is the sink's state folder; `manifest` the loaded state manifest (see `runtime.arrangement`), shared by all
    operators; `epoch` and `commit` go into the names of new runs and side files.
    """

    folder: Path
    manifest: Mapping[str, Any]
    epoch: int
    commit: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """Hold one attempt at one batch: what to read, with which state, and the task that writes."""

    task: WriteTask
    splits: Mapping[str, Sequence[Split]]
    readers: Mapping[str, Reader]
    arrangements: Arrangements


@dataclass(frozen=True, slots=True)
class Outcome:
    """Hold what an attempt gave: write results, a tally a source, and the new runs by arrangement and bucket."""

    results: Sequence[WriteResult]
    tallies: Mapping[str, Tally]
    runs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class Engine(Protocol):
    """Run a job's operators over one batch. `bucketing` names how rows find their bucket; it belongs to the state."""

    bucketing: str
    buckets: int

    def run(self, job: physical.Job, attempt: Attempt) -> Outcome:
        """Run reads, operators and the write task; nothing is durable but files until the commit names them."""
