"""Count the records of one read of a split, and store the records that do not decode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sinkql import physical
from sinkql.connector_api.source_options import has_dead_letter_table
from sinkql.connector_api.stream import ReadCounts, WriteTask
from sinkql.runtime.batch.dead_letter import DeadLetterBuffer


@contextmanager
def count_split(read: physical.Read, task: WriteTask | None, attempt: str) -> Iterator[ReadCounts]:
    """Yield the counts of one read of a split; at the end, write its dead letters and check that all records count."""
    letters = DeadLetterBuffer(task, read.name, attempt) if task is not None and has_dead_letter_table(read) else None
    read_counts = ReadCounts(letters=letters)
    yield read_counts
    read_counts.letters = None
    if letters is not None:
        letters.flush()
        read_counts.written = letters.written
    read_counts.settle(read.name)
