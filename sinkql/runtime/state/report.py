"""The reports of stateful tasks: the new runs of a batch, and the numbers of rows."""

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
    """The numbers of rows that an operator read and wrote; `superseded` rows have a later one in the batch."""

    taken: int = 0
    given: int = 0
    superseded: int = 0

    def __add__(self, other: RowCounts) -> RowCounts:
        """Return the sum of two tasks' counts."""
        return RowCounts(self.taken + other.taken, self.given + other.given, self.superseded + other.superseded)


@dataclass(frozen=True, slots=True)
class BatchReport:
    """The results of the stateful operators of a batch: their new runs, and the counts of each by its name.

    `fetched` has the number of bytes that tasks fetched, by the folders of files.
    """

    runs: LiveRuns
    flows: Mapping[str, RowCounts]
    fetched: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BucketReport:
    """The report of one complete attempt at a task: the live runs of its bucket, by arrangement, and its row counts.

    `fetched` has the number of bytes that it fetched, by the folders of files.
    """

    operator: str
    bucket: int
    attempt: str
    runs: Mapping[str, Sequence[Entry]]
    flow: RowCounts
    fetched: Mapping[str, int] = field(default_factory=dict)


Leave = Callable[[object], None]
"""Sends a task's report to the process that runs the batch; it counts if the attempt succeeds."""


def collect(words: Iterable[object], operators: Mapping[str, int]) -> BatchReport:
    """Return the results of a batch's stateful operators from the tasks' reports; `operators` has their bucket counts.

    A task may run more than once; its attempts must have the same result. SQ3405: a bucket has no complete report;
    SQ3406: its reports differ.
    """
    told: dict[tuple[str, int], list[BucketReport]] = {}
    fetched: Counter[str] = Counter()
    for word in words:
        if isinstance(word, BucketReport):
            told.setdefault((word.operator, word.bucket), []).append(word)
            fetched.update(word.fetched)
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
            f'attempts of state task "{task}" returned different results',
            detail="The batch is not committed; its input or its SQL is not the same each time it is read.",
        )
    return reports[0]


def _content(report: BucketReport) -> tuple[str, RowCounts]:
    """Return a report's content without file names, which differ between attempts."""
    plain = {name: [(run["rows"], run["digest"]) for run in runs] for name, runs in report.runs.items()}
    return json.dumps(plain, sort_keys=True), report.flow
