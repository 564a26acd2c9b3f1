"""Reports of tasks about a batch to the process that runs it, by an accumulator of Spark.

An accumulator contains the additions of successful tasks, each once. It needs no folder, so executors and this process
need none in common.
"""

from __future__ import annotations

import pickle
import select
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark import Accumulator, SparkContext, accumulators

from sinkql.runtime.state.report import Leave

_MADE = threading.Lock()


class _AnyNumber:
    """Waits like `select`, which pyspark's receiver calls, but accepts file descriptors above 1023 too.

    A process with many sinks has more open files than that, and would otherwise receive no reports.
    """

    @staticmethod
    def select(
        reading: Sequence[Any], writing: Sequence[Any], failing: Sequence[Any], seconds: float
    ) -> tuple[list[Any], list[Any], list[Any]]:
        poll = select.poll()
        for stream in reading:
            poll.register(stream, select.POLLIN)
        ready = {number for number, _ in poll.poll(1000 * seconds)}
        return [stream for stream in reading if stream.fileno() in ready], [], []


accumulators.select = _AnyNumber


@dataclass(slots=True)
class _Inbox:
    """Reports of tasks by batch; reports of a batch that has ended are dropped."""

    batches: dict[str, list[object]] = field(default_factory=dict)

    def take(self, words: list[tuple[str, bytes]]) -> None:
        """Accept the reports of a task."""
        for batch, word in words:
            reports = self.batches.get(batch)
            if reports is not None:
                reports.append(pickle.loads(word))


class _Words:
    """A list of reports in a task; in this process, they go to the inbox."""

    def zero(self, value: Any) -> Any:
        return []

    def addInPlace(self, value1: Any, value2: Any) -> Any:  # noqa: N802  # pyspark's name for it
        if isinstance(value1, _Inbox):
            value1.take(value2)
        else:
            value1.extend(value2)
        return value1


@dataclass(frozen=True, slots=True)
class _Leaving:
    batch: str
    words: Accumulator[Any]

    def __call__(self, word: object) -> None:
        self.words.add([(self.batch, pickle.dumps(word))])


@contextmanager
def task_reports(context: SparkContext, batch: str) -> Iterator[tuple[Leave, list[object]]]:
    """Yield a function by which tasks report, and the growing list of their reports; `batch` is a unique name."""
    with _MADE:
        words = vars(context).get("_sinkql_words")
        if words is None:
            words = vars(context)["_sinkql_words"] = context.accumulator(_Inbox(), _Words())
    inbox: _Inbox = words.value
    reports = inbox.batches[batch] = []
    try:
        yield _Leaving(batch, words), reports
    finally:
        del inbox.batches[batch]
