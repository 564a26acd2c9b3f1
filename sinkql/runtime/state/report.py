"""What stateful tasks tell of each bucket → the new runs of a batch, and how many rows went through."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sinkql.errors import SinkqlError
from sinkql.runtime.state.run import Entry

LiveRuns = Mapping[str, Mapping[str, Sequence[Entry]]]
"""All live runs, oldest first, by arrangement and bucket (as text)."""


@dataclass(frozen=True, slots=True)
class RowCounts:
    """How many rows an operator took and gave. Of the rows taken, `superseded` ones have a later one of their key."""

    taken: int = 0
    given: int = 0
    superseded: int = 0

    def __add__(self, other: RowCounts) -> RowCounts:
        """Return that of two tasks."""
        return RowCounts(self.taken + other.taken, self.given + other.given, self.superseded + other.superseded)


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What the stateful operators of a batch left: their new runs, and the rows of each by its name.

    `fetched` has how many bytes tasks fetched for them, by the folders of files.
    """

    runs: LiveRuns
    flows: Mapping[str, RowCounts]
    fetched: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BucketReport:
    """What one complete attempt at a task tells: the live runs of its bucket, by arrangement, and how many rows came.

    `fetched` has how many bytes it had to fetch, by the folders of files.
    """

    operator: str
    bucket: int
    attempt: str
    runs: Mapping[str, Sequence[Entry]]
    flow: RowCounts
    fetched: Mapping[str, int] = field(default_factory=dict)


Leave = Callable[[object], None]
"""How a task leaves word for the one who runs the batch: what it says counts if the attempt at it succeeds."""


def collect(words: Iterable[object], operators: Mapping[str, int]) -> BatchReport:
    """Return what a batch's stateful operators left, of what tasks told, given the number of buckets of each.

    A task may have run more than once; its attempts must have come to the same. SQ3405: a bucket has no complete
    report; SQ3406: its reports differ.
    """
    told: dict[tuple[str, int], list[BucketReport]] = {}
    fetched: Counter[str] = Counter()
    for each in words:
        if isinstance(each, BucketReport):
            told.setdefault((each.operator, each.bucket), []).append(each)
            fetched.update(each.fetched)
    found: dict[str, dict[str, Sequence[Entry]]] = {}
    flows: dict[str, RowCounts] = {}
    for operator, buckets in operators.items():
        for bucket in range(buckets):
            report = _one(told.get((operator, bucket), []), f"{operator}, bucket {bucket}")
            for arrangement, runs in report.runs.items():
                found.setdefault(arrangement, {})[str(bucket)] = runs
            flows[operator] = flows.get(operator, RowCounts()) + report.flow
    return BatchReport(found, flows, fetched)


def _one(reports: Sequence[BucketReport], task: str) -> BucketReport:
    if not reports:
        raise SinkqlError("SQ3405", f'state task "{task}" left no complete report')
    if len({_content(report) for report in reports}) > 1:
        raise SinkqlError(
            "SQ3406",
            f'attempts of state task "{task}" gave different results',
            detail="The batch is not committed; its input or its SQL is not the same each time it is read.",
        )
    return reports[0]


def _content(report: BucketReport) -> tuple[str, RowCounts]:
    """Return what a report says but for file names, which every attempt has its own of."""
    plain = {name: [(run["rows"], run["digest"]) for run in runs] for name, runs in report.runs.items()}
    return json.dumps(plain, sort_keys=True), report.flow
