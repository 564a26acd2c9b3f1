"""The clock: the time of a job's commits as one of its sources. It only grows; the checkpoint has its offset."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sinkql import physical
from sinkql.connector_api.stream import JobOffsets, Limit, Offsets, ReadCounts, Reader, Size, Split
from sinkql.errors import SinkqlError
from sinkql.machine import clock

if TYPE_CHECKING:
    import pyarrow as pa

CLOCK = "$clock"
"""The clock's name among the sources of a job."""
_BEHIND_MS = 60_000
"""The most that this clock may be behind the last commit, which may come from another machine."""


@dataclass(frozen=True, slots=True)
class ClockReader(Reader):
    """Reads the clock. Offsets: `at`, the time of the commit in milliseconds since 1970; 0 before the first batch.

    It advances with data and with temporal changes, and never goes back: if the machine's clock is behind, commits
    have the time of the last commit until the machine has caught up.
    """

    now_ms: Callable[[], int] = clock.time_ms

    def initial(self, *, at_end: bool) -> Offsets:
        """Return the time before the first batch."""
        return {"at": 0}

    def target(self, start: Offsets) -> Offsets:
        """Return the time now."""
        return {"at": max(start["at"], self.now_ms())}

    def target_reached(self, offsets: Offsets, target: Offsets) -> bool:
        """Return whether the target time is reached."""
        return bool(offsets["at"] >= target["at"])

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return the time now, or `until`."""
        return self.target(start) if until is None else {"at": max(start["at"], until["at"])}

    def comparable_position(self, offsets: Offsets) -> Offsets | None:
        """Return the time: a tick has the same time for all jobs."""
        return offsets

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return no split."""
        return []

    def size(self, splits: Sequence[Split]) -> Size:
        """Return zero."""
        return Size(0, 0)

    def read(self, split: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        """Yield nothing."""
        return iter(())

    def verify(self, offsets: Offsets) -> None:
        """Raise SQ3213 if the machine's clock is a minute or more behind."""
        behind = offsets["at"] - self.now_ms()
        if behind < _BEHIND_MS:
            return
        raise SinkqlError(
            "SQ3213",
            f"this machine's clock is {behind // 1000} seconds behind the time of the sink's last commit",
            detail=f"the commit was made at {_time_text(offsets['at'])}, the time here is {_time_text(self.now_ms())}",
            hint="Set the clock, for example by NTP. The sink then continues. mz_now() never goes back.",
        )


def with_clock(
    job: physical.Job, readers: Mapping[str, Reader], now_ms: Callable[[], int] = clock.time_ms
) -> dict[str, Reader]:
    """Return the readers of a job, restricted to the used columns, and the clock if rows depend on the time."""
    used = physical.columns_read(job.graph, [column.name for column in job.write.columns])
    pruned = {source: reader.using(used.get(source, frozenset())) for source, reader in readers.items()}
    return {**pruned, CLOCK: ClockReader(now_ms)} if job.timed else pruned


def step(start: JobOffsets, end: JobOffsets) -> tuple[int, int]:
    """Return the times at which a batch starts and ends; both 0 if the job has no clock."""
    return (start[CLOCK]["at"], end[CLOCK]["at"]) if CLOCK in end else (0, 0)


def _time_text(milliseconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(milliseconds / 1000))
