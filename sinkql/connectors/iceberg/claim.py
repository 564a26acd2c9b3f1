"""Take a table: an empty snapshot with the sink's marker under a new epoch, so that an older run's commit fails."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

from pyiceberg.table import Table

from sinkql import faults
from sinkql.connector.stream import JobOffsets, Marker, Switch
from sinkql.connectors.iceberg import marker as markers
from sinkql.connectors.iceberg.commit import land
from sinkql.connectors.iceberg.conflict import same_table
from sinkql.connectors.iceberg.snapshot import Change, Notes, Prepared, prepare
from sinkql.connectors.iceberg.table import Wanted, check, foreign_rows, rows
from sinkql.connectors.iceberg.target import Target


class Claim:
    """One claim of a table by a sink; an `Attempt`. `floor` is the least epoch that it may take."""

    def __init__(
        self,
        sink: str,
        initial: JobOffsets,
        wanted: Wanted,
        *,
        floor: int,
        keep_rows: bool,
        switch: Switch | None = None,
    ) -> None:
        self.id = uuid4().hex
        self._sink = sink
        self._initial = initial
        self._wanted = wanted
        self._floor = floor
        self._keep_rows = keep_rows
        self._switch = switch

    def prepare(self, table: Table) -> Prepared:
        """Write the claim on top of what the table says now; the epoch is taken anew each time."""
        check(table, self._wanted)
        kept = markers.find(table, self._sink)
        if kept is None and not self._keep_rows and rows(table):
            raise foreign_rows(table)
        marker = self._marker(kept)
        timestamp = kept.timestamp if kept else 0
        summary = markers.encode(table, marker, timestamp=timestamp, attempt=self.id)

        def notes(snapshot: int, sequence: int) -> Notes:
            value = markers.as_property(summary, snapshot=snapshot, sequence=sequence)
            return Notes(summary, {markers.property_name(self._sink): value})

        return prepare(table, Change(), notes)

    def landed(self, table: Table) -> bool:
        """Tell whether the table has this claim."""
        return markers.landed(table, self._sink, "claim", self.id)

    def check(self, base: Table, now: Table) -> None:
        """Nothing but another table of the same name keeps a claim from being tried again."""
        same_table(base, now)

    def _marker(self, kept: markers.Kept | None) -> Marker:
        if kept is not None:
            return self._switched(replace(kept.marker, epoch=max(self._floor, kept.marker.epoch + 1), claim=self.id))
        return Marker(
            sink=self._sink,
            epoch=max(self._floor, 1),
            claim=self.id,
            commit=self.id,
            start=self._initial,
            end=self._initial,
            plan="none",
            index=None,
            state=None,
        )

    def _switched(self, marker: Marker) -> Marker:
        if self._switch is None or marker.plan not in self._switch.follows:
            return marker
        end = {source: marker.end.get(source, begin) for source, begin in self._initial.items()}
        return replace(marker, start=end, end=end, plan=self._switch.plan, state=None)


def take(target: Target, table: Table, claim: Claim) -> Table:
    """Commit the claim and return the table after it."""
    faults.point("claim")
    return land(target, table, claim)
