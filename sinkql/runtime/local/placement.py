"""Decide where batches run, in this process or in Spark, by their size and by what earlier batches of a job cost.

Without Spark, a batch runs in process as long as that costs less than a start of Spark: the cold limit. If Spark runs
anyway, a batch stays in process only if it hardly delays others there: the warm limit. Times are seconds of any
monotonic clock, given by the caller.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from sinkql.connector_api.stream import Size
from sinkql.lowering.placement import COLD, ROW_SECONDS, WARM, Allowance
from sinkql.runtime.batch.engine import Place

_WINDOW_S = 60
"""The seconds over which the load is averaged."""
_HIGH, _LOW = 0.4, 0.2
"""The shares of one core: above the first one Spark starts, below the second one it may rest."""
_TELLING_ROWS = 10_000
"""With fewer rows, a batch tells what a batch costs rather than what a row costs."""
_ASSUMED_ROWS = 100_000
"""The weight of `ROW_SECONDS` in a job's first mean: its first batch also imports modules."""
_LEAST_ROW_SECONDS = 1e-8
_KEPT = 0.8
"""The weight of earlier batches in a mean."""
_REMEMBERED_S = 3600.0


@dataclass(slots=True)
class _Rate:
    """What batches of a job cost in process: `seconds` for `rows` rows, both fading, and `fixed` seconds for each.

    From `spark_rows` rows on, a batch is Spark's, as it gave up in process at `gave_up_at`.
    """

    rows: float = _ASSUMED_ROWS
    seconds: float = _ASSUMED_ROWS * ROW_SECONDS
    fixed: float = 0.0
    spark_rows: int | None = None
    gave_up_at: float = 0.0

    @property
    def row_seconds(self) -> float:
        return max(self.seconds / self.rows, _LEAST_ROW_SECONDS)

    def estimate(self, size: Size) -> float:
        return self.fixed + size.rows * self.row_seconds

    def learn(self, rows: int, seconds: float) -> None:
        if rows >= _TELLING_ROWS:
            self.rows = _KEPT * self.rows + rows
            self.seconds = _KEPT * self.seconds + max(0.0, seconds - self.fixed)
        else:
            self.fixed = _KEPT * self.fixed + (1 - _KEPT) * max(0.0, seconds - rows * self.row_seconds)


@dataclass(slots=True)
class _Load:
    """The seconds of batches that ended in each of the last seconds, oldest first; `total` is their sum."""

    ended: deque[list[float]] = field(default_factory=deque)
    total: float = 0.0

    def add(self, at: float, seconds: float) -> None:
        if not self.ended or self.ended[-1][0] < int(at):
            self.ended.append([int(at), 0.0])
        self.ended[-1][1] += seconds
        self.total += seconds

    def share(self, at: float) -> float:
        """Return the share of one core that the batches of the last minute took."""
        while self.ended and self.ended[0][0] <= at - _WINDOW_S:
            self.total -= self.ended.popleft()[1]
        return self.total / _WINDOW_S if self.ended else 0.0


class Placement:
    """The rule for one Spark application: where the batches of its jobs run, when Spark starts and when it rests.

    It rests after `idle_s` seconds without need. No method waits; one thread at a time may use it.
    """

    def __init__(self, *, idle_s: float) -> None:
        self.idle_s = idle_s
        self._rates: dict[str, _Rate] = {}
        self._in_process, self._would = _Load(), _Load()
        self._needed_at: float | None = None
        self._low_since: float | None = None

    def place(self, job: str, size: Size | None, *, at: float, spark_up: bool) -> Place:
        """Return where the next batch of a job runs. A batch of unknown size is Spark's."""
        if size is None:
            return "Spark"
        rate = self._rate(job)
        allowed = not self._gave_up(rate, size, at) and _is_allowed(rate, size, WARM if spark_up else COLD)
        return "in process" if allowed else "Spark"

    def most_rows(self, job: str, *, at: float) -> int | None:
        """Return the most rows of a batch that runs in process without Spark; None if such batches are Spark's.

        Readers guess the bytes of rows, so even a batch of cheap rows has at most as many as the cold limit assumes.
        """
        rate = self._rate(job)
        rows = min(COLD.rows(), int((COLD.seconds - rate.fixed) / rate.row_seconds))
        return None if rows <= 0 or self._gave_up(rate, Size(rows, 0), at) else rows

    def ran_in_process(self, job: str, size: Size, seconds: float, *, at: float) -> None:
        """Learn that a batch took CPU `seconds` in this process, without its commit."""
        self._rate(job).learn(size.rows, seconds)
        self._in_process.add(at, seconds)
        self._add_would(at, seconds)

    def ran_in_spark(self, job: str, size: Size | None, *, at: float) -> None:
        """Learn that a batch ended in Spark. If it would have run in process without Spark, Spark may still rest."""
        rate = self._rate(job)
        if size is None or self._gave_up(rate, size, at) or not _is_allowed(rate, size, COLD):
            self._needed_at = at
        else:
            self._add_would(at, rate.estimate(size))

    def gave_up(self, job: str, size: Size, *, at: float) -> None:
        """Learn that a batch began in process and needed Spark: for an hour, such large batches are Spark's at once."""
        rate = self._rate(job)
        least = rate.spark_rows if rate.spark_rows is not None and at < rate.gave_up_at + _REMEMBERED_S else size.rows
        rate.spark_rows, rate.gave_up_at = min(least, size.rows), at
        self._needed_at = at

    def wants_spark(self, at: float) -> bool:
        """Return whether Spark is to start although no batch needs it: batches in process take too much for long."""
        return self._in_process.share(at) > _HIGH

    def may_rest(self, at: float) -> bool:
        """Return whether Spark may end: nothing needed it for the idle time, and in process there was room for all."""
        is_low = self._would.share(at) < _LOW
        if not is_low:
            self._low_since = None
        elif self._low_since is None:
            self._low_since = at
        if self._low_since is None or at < self._low_since + self.idle_s:
            return False
        return self._needed_at is None or at >= self._needed_at + self.idle_s

    def estimate(self, job: str, size: Size) -> float:
        """Return about how many seconds a batch takes in process."""
        return self._rate(job).estimate(size)

    def forget(self, job: str) -> None:
        """Forget a job that no longer runs."""
        self._rates.pop(job, None)

    def _rate(self, job: str) -> _Rate:
        return self._rates.setdefault(job, _Rate())

    def _gave_up(self, rate: _Rate, size: Size, at: float) -> bool:
        if rate.spark_rows is not None and at >= rate.gave_up_at + _REMEMBERED_S:
            rate.spark_rows = None
        return rate.spark_rows is not None and size.rows >= rate.spark_rows

    def _add_would(self, at: float, seconds: float) -> None:
        self._would.add(at, seconds)
        if self._would.share(at) >= _LOW:
            self._low_since = None


def _is_allowed(rate: _Rate, size: Size, allowance: Allowance) -> bool:
    return rate.estimate(size) <= allowance.seconds and size.bytes <= allowance.bytes
