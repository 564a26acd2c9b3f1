"""Maintain a sink's Iceberg table between its batches: compact, expire snapshots, delete orphan files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sinkql.connector_api.stream import Compacted, Maintainable
from sinkql.connectors.iceberg.commit.committer import held
from sinkql.connectors.iceberg.commit.maintenance import OrphanFiles, expire, expired
from sinkql.connectors.iceberg.storage import storage_errors
from sinkql.connectors.iceberg.write.claimed_table import ClaimedTable
from sinkql.connectors.iceberg.write.compaction import CompactionSchedule
from sinkql.connectors.iceberg.write.mode import WriteMode

_SHARE = 15.0
"""Percent."""
_SWEEP_EVERY = 20
"""Batches between two sweeps."""


@dataclass(slots=True)
class _Claim:
    """The maintenance of one claim. `batches` counts from the epoch: a sink with one batch a claim sweeps too."""

    mode: WriteMode
    schedule: CompactionSchedule
    orphans: OrphanFiles
    batches: int


class IcebergMaintenance(Maintainable):
    """Maintains the table of one sink. `begin_claim` comes first."""

    def __init__(self, claimed: ClaimedTable) -> None:
        self._claimed = claimed
        self._planned = claimed.planned
        self._claim: _Claim | None = None

    def begin_claim(self, mode: WriteMode) -> None:
        """Begin the maintenance of a new claim."""
        target, (_, stored) = self._claimed.target, self._claimed.current
        schedule = CompactionSchedule(target, mode.compactor, self._claimed.expected)
        epoch = stored.checkpoint.epoch
        orphans = OrphanFiles(
            self._claimed.load, schedule.running_id, sink=stored.checkpoint.sink, epoch=epoch, sql=target.hint_file
        )
        self._claim = _Claim(mode, schedule, orphans, epoch)

    @property
    def schedule(self) -> CompactionSchedule:
        """Return the compactions of the present claim."""
        return self._present.schedule

    @property
    def orphans(self) -> OrphanFiles:
        """Return the search for orphan files of the present claim."""
        return self._present.orphans

    @property
    def _present(self) -> _Claim:
        assert self._claim is not None, "not claimed"
        return self._claim

    def maintenance_share(self) -> float:
        """Return the share of time that MAINTENANCE SHARE allows `maintain`."""
        share = self._planned.maintenance_share
        return (_SHARE if share is None else share) / 100

    def maintain(
        self, go_on: Callable[[bool], bool] = lambda begun: True, *, interval: timedelta | None = None
    ) -> Sequence[Compacted]:
        """Compact files, expire snapshots and delete orphan files that are due; call it between batches."""
        compactions: Sequence[Compacted] = ()
        if self._planned.maintenance:
            compactions = self.compact(go_on)
            if self.schedule.has_unknown_commit(self._claimed.loaded):
                return compactions
        if self._planned.maintenance or self.orphans.asked:
            self.orphans.run(lambda: go_on(False))
        self.tidy(interval)
        return compactions

    def optimize(
        self, go_on: Callable[[], bool] = lambda: True, *, interval: timedelta | None = None
    ) -> tuple[Sequence[Compacted], bool]:
        """Compact all files, also with MAINTENANCE = false, then expire snapshots; return whether all is done."""
        compactions = self.compact(lambda begun: go_on(), whole=True)
        schedule = self.schedule
        finished = schedule.finished
        if finished and not schedule.has_unknown_commit(self._claimed.loaded):
            self.tidy(interval, whole=True)
            self.orphans.run(go_on, now=True)  # `maintain` continues it
        return compactions, finished

    def files_to_optimize(self) -> int:
        """Return the number of files when `optimize` began; 0 before that."""
        return self._claim.schedule.files if self._claim is not None else 0

    def compact(self, go_on: Callable[[bool], bool], *, whole: bool = False) -> Sequence[Compacted]:
        """Run the compactions that are due, or compact the whole table, while `go_on` allows it."""
        table, stored = self._claimed.current
        with storage_errors(self._claimed.name):
            table, stored, compactions = self.schedule.compact_next(table, stored, go_on=go_on, whole=whole)
        self._claimed.adopt(table, stored)
        return compactions

    def tidy(self, interval: timedelta | None = None, *, whole: bool = False) -> None:
        """Expire snapshots, and from time to time sweep the files of the mode; `whole` does both now."""
        table, stored = self._claimed.current
        held(table, stored.checkpoint)  # no proposal checks it here: the table may be another process's by now
        snapshots = expired(table, self._planned, interval, whole=whole)
        claim = self._present
        with storage_errors(self._claimed.name):
            if snapshots:
                expire(self._claimed.target, table, snapshots, interval)
            claim.batches += 1
            if whole or claim.batches % _SWEEP_EVERY == 0:
                claim.mode.sweep(table, stored)
