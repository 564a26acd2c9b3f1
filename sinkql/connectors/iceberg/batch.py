"""One batch's files and offsets → the snapshot that makes them the table's: an `Attempt`."""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.table import Table

from sinkql.connector.stream import Marker
from sinkql.connectors.iceberg import marker as markers
from sinkql.connectors.iceberg.conflict import hold, same_table, usable
from sinkql.connectors.iceberg.datafile import FileEntry
from sinkql.connectors.iceberg.snapshot import Change, Notes, Prepared, prepare
from sinkql.connectors.iceberg.table import Wanted
from sinkql.errors import SinkqlError


@dataclass(frozen=True, slots=True)
class Batch:
    """Hold what one batch commits: its files, its marker, and the commit that the table stood at when it was made."""

    entries: tuple[FileEntry, ...]
    marker: Marker
    previous: str
    timestamp: int
    wanted: Wanted

    def prepare(self, table: Table) -> Prepared:
        """Write the snapshot's manifests."""
        summary = markers.encode(table, self.marker, timestamp=self.timestamp, attempt=self.marker.commit)

        def notes(snapshot: int, sequence: int) -> Notes:
            value = markers.as_property(summary, snapshot=snapshot, sequence=sequence)
            return Notes(summary, {markers.property_name(self.marker.sink): value})

        return prepare(table, Change(self.entries), notes)

    def landed(self, table: Table) -> bool:
        """Tell whether the table has this commit."""
        return markers.landed(table, self.marker.sink, "commit", self.marker.commit)

    def check(self, base: Table, now: Table) -> None:
        """Raise where the batch may not be tried again: fenced, another table, other columns, or to be redone."""
        same_table(base, now)
        kept = hold(now, self.marker, self.wanted)
        if kept.marker.commit != self.previous:
            # An attempt given up earlier has arrived after all: it may have had these very rows.
            raise SinkqlError(
                "SQ5207",
                f'an earlier commit of this run reached table "{".".join(now.name())}" late',
                hint="The sink goes on after that commit.",
            )
        usable(base, now, upsert=self.wanted.upsert)
