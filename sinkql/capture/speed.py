"""How many rows of first snapshots were read, and when → how far they are, and when they will be whole."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from sinkql.capture.log import SnapshotGeneration
from sinkql.capture.messages import Snapshot

_LEAST_SECONDS = 1.0
"""What was read in less time says nothing of the rest."""


@dataclass(slots=True)
class _Course:
    """One generation in one run: since when it is read, and how many rows of it were there before."""

    began_at: float
    before: int
    of_rows: int | None
    reading: int = 0
    """Rows of the chunk that is being read now."""


@dataclass(slots=True)
class SnapshotRate:
    """How fast generations are read, as long as the process runs; threads that read chunks tell of their rows."""

    _courses: dict[int, _Course] = field(default_factory=dict)

    def expect(self, generation: SnapshotGeneration, of_rows: int | None) -> None:
        """Take note that a chunk of a generation begins to be read."""
        course = self._courses.get(generation.number)
        if course is None:
            self._courses[generation.number] = _Course(time.monotonic(), generation.rows, of_rows)
        else:
            course.of_rows, course.reading = of_rows, 0

    def read(self, generation: SnapshotGeneration, rows: int) -> None:
        """Take note of how many rows of the present chunk were read."""
        self._courses[generation.number].reading = rows

    def settle(self, generation: SnapshotGeneration) -> None:
        """Take note that the present chunk is in the log."""
        self._courses[generation.number].reading = 0
        if generation.done:
            del self._courses[generation.number]

    def of(self, generation: SnapshotGeneration) -> Snapshot:
        """Return how far a generation is."""
        if generation.done:
            return Snapshot(generation.chunks, generation.rows, generation.rows, 0.0, done=True)
        course = self._courses.get(generation.number)
        if course is None:
            return Snapshot(generation.chunks, generation.rows, _known(generation.of_rows, generation.rows))
        rows = generation.rows + course.reading
        of_rows = _known(course.of_rows, rows)
        return Snapshot(generation.chunks, rows, of_rows, _left(course, rows, of_rows))

    def all_of(self, generations: Iterable[SnapshotGeneration]) -> dict[str, Snapshot]:
        """Return how far the last generation of each table is."""
        return {each.table: self.of(each) for each in sorted(generations, key=lambda each: each.number)}


def _known(of_rows: int | None, rows: int) -> int | None:
    """Return an estimate that what was read has not overtaken."""
    return None if of_rows is None or of_rows < 0 else max(of_rows, rows)


def _left(course: _Course, rows: int, of_rows: int | None) -> float | None:
    took, read = time.monotonic() - course.began_at, rows - course.before
    if of_rows is None or read <= 0 or took < _LEAST_SECONDS:
        return None
    return round(took / read * (of_rows - rows), 1)
