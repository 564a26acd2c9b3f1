"""What a stateful task left behind, bucket by bucket → the new runs of a batch, and how many rows went through."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sinkql import durable, faults
from sinkql.errors import SinkqlError
from sinkql.runtime.state.arrangement import Arrangements
from sinkql.runtime.state.run import Entry

FOLDER = "side"

LiveRuns = Mapping[str, Mapping[str, Sequence[Entry]]]
"""All live runs, oldest first, by arrangement and bucket (as text)."""


@dataclass(frozen=True, slots=True)
class Flow:
    """How many rows an operator took and gave. Of the rows taken, `superseded` ones have a later one of their key."""

    taken: int = 0
    given: int = 0
    superseded: int = 0

    def __add__(self, other: Flow) -> Flow:
        """Return that of two tasks."""
        return Flow(self.taken + other.taken, self.given + other.given, self.superseded + other.superseded)


@dataclass(frozen=True, slots=True)
class Collected:
    """What the stateful operators of a batch left: their new runs, and the rows of each by its name."""

    runs: LiveRuns
    flows: Mapping[str, Flow]


def write_report(
    folder: Path,
    *,
    epoch: int,
    commit: str,
    operator: str,
    bucket: int,
    attempt: str,
    runs: Mapping[str, list[Entry]],
    flow: Flow,
) -> None:
    """Leave word of one complete task attempt in a side file of its own."""
    side = folder / FOLDER
    body = json.dumps({"bucket": bucket, "runs": runs, "flow": asdict(flow)}, sort_keys=True)
    durable.write(side / f"{_prefix(epoch, commit, operator, bucket)}{attempt}.json", body.encode())
    faults.point("state-report")


def collect(arrangements: Arrangements, operators: Mapping[str, int]) -> Collected:
    """Return what a batch's stateful operators left, given the number of buckets of each.

    A task may have run more than once; its attempts must have come to the same. SQ3405: a bucket has no complete
    report; SQ3406: its reports differ.
    """
    found: dict[str, dict[str, Sequence[Entry]]] = {}
    flows: dict[str, Flow] = {}
    names = _names(arrangements.folder / FOLDER)
    for operator, buckets in operators.items():
        for bucket in range(buckets):
            prefix = _prefix(arrangements.epoch, arrangements.commit, operator, bucket)
            report = _one(arrangements.folder / FOLDER, [name for name in names if name.startswith(prefix)], prefix)
            for arrangement, runs in report.runs.items():
                found.setdefault(arrangement, {})[str(bucket)] = runs
            flows[operator] = flows.get(operator, Flow()) + report.flow
    return Collected(found, flows)


def forget(arrangements: Arrangements, attempt: str) -> None:
    """Take back what the tasks of an attempt that is given up have reported."""
    for name in _names(arrangements.folder / FOLDER):
        if name.endswith(f"-{attempt}.json"):
            (arrangements.folder / FOLDER / name).unlink()


@dataclass(frozen=True, slots=True)
class _Report:
    runs: Mapping[str, Sequence[Entry]]
    flow: Flow


def _prefix(epoch: int, commit: str, operator: str, bucket: int) -> str:
    return f"{epoch}-{commit}-{operator}-b{bucket}-"


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def _one(folder: Path, names: Iterable[str], prefix: str) -> _Report:
    reports = [_read(folder / name) for name in names]
    if not reports:
        raise SinkqlError("SQ3405", f'state task "{prefix.rstrip("-")}" left no complete report', detail=str(folder))
    if len({_content(report) for report in reports}) > 1:
        raise SinkqlError(
            "SQ3406",
            f'attempts of state task "{prefix.rstrip("-")}" gave different results',
            detail="The batch is not committed; its input or its SQL is not the same each time it is read.",
        )
    return reports[0]


def _read(path: Path) -> _Report:
    report: dict[str, Any] = json.loads(path.read_bytes())
    return _Report(report["runs"], Flow(**report["flow"]))


def _content(report: _Report) -> tuple[str, Flow]:
    """Return what a report says but for file names, which every attempt has its own of."""
    plain = {name: [(run["rows"], run["digest"]) for run in runs] for name, runs in report.runs.items()}
    return json.dumps(plain, sort_keys=True), report.flow
