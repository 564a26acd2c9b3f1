"""The time of a job's commits, as a source of it: one number that only grows, and stands in the marker like others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sinkql import physical
from sinkql.connector_api.stream import JobOffsets, Limit, Offsets, Reader, Split, Tally
from sinkql.errors import SinkqlError

if TYPE_CHECKING:
    import pyarrow as pa

CLOCK = "$clock"
"""The name that the clock has among the sources of a job."""
_BEHIND_MS = 60_000
"""By how much this machine's clock may be behind the last commit, made on another one perhaps, without a word."""


def machine_ms() -> int:
    """Return this machine's time, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class ClockReader(Reader):
    """Read the clock. Offsets: `at`, the time of the commit in milliseconds since 1970, 0 before the first batch.

    It goes on with data, and when it is time for a row to come or to go by itself, and never back: where the machine's
    clock is behind, commits have the time of the last one until it has caught up.
    """

    now_ms: Callable[[], int] = machine_ms

    def initial(self, *, at_end: bool) -> Offsets:
        """Return the time before all."""
        return {"at": 0}

    def target(self, start: Offsets) -> Offsets:
        """Return the time now."""
        return {"at": max(start["at"], self.now_ms())}

    def target_reached(self, offsets: Offsets, target: Offsets) -> bool:
        """Tell whether it is that time, or later."""
        return bool(offsets["at"] >= target["at"])

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return the time now, or `until`."""
        return self.target(start) if until is None else {"at": max(start["at"], until["at"])}

    def comparable_position(self, offsets: Offsets) -> Offsets | None:
        """Return the time: that of a tick is the same for all."""
        return offsets

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return nothing to read."""
        return []

    def read(self, split: Split, tally: Tally) -> Iterator[pa.RecordBatch]:
        """Yield nothing."""
        return iter(())

    def verify(self, offsets: Offsets) -> None:
        """Raise SQ3213 where the machine's clock is a minute or more behind."""
        behind = offsets["at"] - self.now_ms()
        if behind < _BEHIND_MS:
            return
        raise SinkqlError(
            "SQ3213",
            f"this machine's clock is {behind // 1000} seconds behind the time of the sink's last commit",
            detail=f"the commit was made at {_shown(offsets['at'])}, here it is {_shown(self.now_ms())}",
            hint="Set the clock, for instance by NTP: the sink goes on by itself. mz_now() never goes back.",
        )


def with_clock(
    job: physical.Job, readers: Mapping[str, Reader], now_ms: Callable[[], int] = machine_ms
) -> dict[str, Reader]:
    """Return the readers of a job, each told what is used of it, and the clock's where rows depend on the time."""
    used = physical.columns_read(job.graph, [column.name for column in job.write.columns])
    told = {source: reader.using(used.get(source, frozenset())) for source, reader in readers.items()}
    return {**told, CLOCK: ClockReader(now_ms)} if job.timed else told


def step(start: JobOffsets, end: JobOffsets) -> tuple[int, int]:
    """Return the times between which a batch is; both 0 of a job without a clock."""
    return (start[CLOCK]["at"], end[CLOCK]["at"]) if CLOCK in end else (0, 0)


def _shown(milliseconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(milliseconds / 1000))
