"""What a sink proposes to commit: a claim, which takes the table under a new epoch, or a batch's files and offsets."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

from pyiceberg.table import Table

from sinkql import faults
from sinkql.connectors.iceberg.commit import marker as markers
from sinkql.connectors.iceberg.commit.conflict import hold, same_table, usable
from sinkql.connectors.iceberg.commit.landing import land
from sinkql.connectors.iceberg.commit.snapshot import FileChange, Notes, Prepared, prepare
from sinkql.connectors.iceberg.table.table import Expected, check, foreign_rows, rows
from sinkql.connectors.iceberg.table.target import TargetTable
from sinkql.errors import SinkqlError
from sinkql.extension.stream import JobOffsets, Marker, Switch, claimed


class Claim:
    """One claim of a table by a sink; a `Proposal`. `floor` is the least epoch that it may take."""

    def __init__(
        self,
        sink: str,
        initial: JobOffsets,
        expected: Expected,
        *,
        floor: int,
        keep_rows: bool,
        switch: Switch | None = None,
    ) -> None:
        self.id = uuid4().hex
        self._sink = sink
        self._initial = initial
        self._expected = expected
        self._floor = floor
        self._keep_rows = keep_rows
        self._switch = switch

    def prepare(self, table: Table) -> Prepared:
        """Write the claim on top of what the table says now; each time with a new epoch."""
        check(table, self._expected)
        kept = markers.find(table, self._sink)
        if kept is None and not self._keep_rows and rows(table):
            raise foreign_rows(table)
        marker = claimed(
            kept.marker if kept else None,
            sink=self._sink,
            claim=self.id,
            initial=self._initial,
            epoch=self._floor,
            switch=self._switch,
        )
        timestamp = kept.timestamp if kept else 0
        summary = markers.encode(table, marker, timestamp=timestamp, attempt=self.id)

        def notes(snapshot: int, sequence: int) -> Notes:
            value = markers.as_property(summary, snapshot=snapshot, sequence=sequence)
            return Notes(markers.sealed(summary, snapshot=snapshot), {markers.property_name(self._sink): value})

        return prepare(table, FileChange(), notes)

    def landed(self, table: Table) -> bool:
        """Tell whether the table has this claim."""
        return markers.landed(table, self._sink, "claim", self.id)

    def check(self, base: Table, now: Table) -> None:
        """Nothing but another table of the same name keeps a claim from being tried again."""
        same_table(base, now)


def take(target: TargetTable, table: Table, claim: Claim) -> Table:
    """Commit the claim and return the table after it."""
    faults.point("claim")
    return land(target, table, claim)


@dataclass(frozen=True, slots=True)
class BatchCommit:
    """One batch's files and marker, and the commit that the table stood at when they were made; a `Proposal`."""

    files: FileChange
    marker: Marker
    previous: str
    timestamp: int
    expected: Expected

    def prepare(self, table: Table) -> Prepared:
        """Write the snapshot's manifests."""
        summary = markers.encode(table, self.marker, timestamp=self.timestamp, attempt=self.marker.commit)

        def notes(snapshot: int, sequence: int) -> Notes:
            value = markers.as_property(summary, snapshot=snapshot, sequence=sequence)
            return Notes(markers.sealed(summary, snapshot=snapshot), {markers.property_name(self.marker.sink): value})

        return prepare(table, self.files, notes)

    def landed(self, table: Table) -> bool:
        """Tell whether the table has this commit."""
        return markers.landed(table, self.marker.sink, "commit", self.marker.commit)

    def check(self, base: Table, now: Table) -> None:
        """Raise where the batch may not be tried again: fenced, another table, other columns, or to be redone."""
        same_table(base, now)
        kept = hold(now, self.marker, self.expected)
        if kept.marker.commit != self.previous:
            # An attempt given up earlier has arrived after all: it may have had these very rows.
            raise SinkqlError(
                "SQ5207",
                f'an earlier commit of this run reached table "{".".join(now.name())}" late',
                hint="The sink continues after that commit.",
            )
        usable(base, now, upsert=self.expected.upsert)
