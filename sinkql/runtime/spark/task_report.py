"""What tasks tell of a batch, wherever they run → the process that runs it: by an accumulator of Spark's.

An accumulator has what tasks added that succeeded, of each attempt once. Nothing is left in a folder, so executors need
none in common with this process.
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
    """Wait as `select` does, of which pyspark's receiver makes use: for files with numbers above 1023 too.

    A process with many sinks has so many, and what tasks say would not arrive.
    """

    @staticmethod
    def select(
        reading: Sequence[Any], writing: Sequence[Any], failing: Sequence[Any], seconds: float
    ) -> tuple[list[Any], list[Any], list[Any]]:
        poll = select.poll()
        for each in reading:
            poll.register(each, select.POLLIN)
        ready = {number for number, _ in poll.poll(1000 * seconds)}
        return [each for each in reading if each.fileno() in ready], [], []


accumulators.select = _AnyNumber


@dataclass(slots=True)
class _Desk:
    """What tasks said, by the batch that they are of; of a batch that is over nobody asks any more."""

    batches: dict[str, list[object]] = field(default_factory=dict)

    def take(self, words: list[tuple[str, bytes]]) -> None:
        """Take what a task said."""
        for batch, word in words:
            kept = self.batches.get(batch)
            if kept is not None:
                kept.append(pickle.loads(word))


class _Words:
    """In a task a list of words; in this process they go to the desk."""

    def zero(self, value: Any) -> Any:
        return []

    def addInPlace(self, value1: Any, value2: Any) -> Any:  # noqa: N802  # pyspark's name for it
        if isinstance(value1, _Desk):
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
    """Give how tasks of a batch leave word, and what they have said, which grows; no other batch has the name."""
    with _MADE:
        words = vars(context).get("_sinkql_words")
        if words is None:
            words = vars(context)["_sinkql_words"] = context.accumulator(_Desk(), _Words())
    desk: _Desk = words.value
    kept = desk.batches[batch] = []
    try:
        yield _Leaving(batch, words), kept
    finally:
        del desk.batches[batch]
