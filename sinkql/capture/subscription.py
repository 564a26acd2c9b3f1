"""What a sink reads of a captured source: a table, from the source's log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sinkql import physical
from sinkql.capture import messages
from sinkql.capture.log import Entry, LogDirectory, TableEntry
from sinkql.capture.position import LogPosition, takes_chunk
from sinkql.connector_api.cdc import CapturedTable, LogRetention
from sinkql.connector_api.source_options import RecordErrorPolicy
from sinkql.errors import DamagedFileError, SinkqlError
from sinkql.storage.key_value import KeyValueStore

_Error = TypeVar("_Error", bound=SinkqlError)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A table of a captured source, as a sink reads it. `name` is the source's, `sink_id` who reads.

    `used` are the columns that the sink's job uses; None where that is not known: all.
    """

    name: str
    sink_id: str
    log: LogDirectory
    table: CapturedTable
    keeping: LogRetention
    change: physical.Change = "upsert"
    holes: bool = False
    used: frozenset[str] | None = None

    @property
    def folder(self) -> Path:
        """Return the folder of all that is kept of the source."""
        return self.log.folder

    @property
    def reader(self) -> str:
        """Return the name by which the sink and the capture tell each other of the table."""
        return messages.reader_name(self.sink_id, self.table.id)

    @property
    def notes(self) -> KeyValueStore:
        """Return what the sink and the capture tell each other."""
        return self.log.notes

    @property
    def at(self) -> str:
        """Return the name of the note that says how far the sink is."""
        return f"at/{self.reader}"

    @property
    def wish(self) -> str:
        """Return the name of the one that says that the sink waits for a generation of its table."""
        return f"want/{self.reader}"

    @property
    def skip(self) -> str:
        """Return the name of the one that says that a user accepts what this sink has lost."""
        return f"skip/{self.reader}"

    @property
    def accepted(self) -> messages.LossAcceptance | None:
        """Return what a user accepts that this sink has lost."""
        found: messages.LossAcceptance | None = messages.receive(self.notes, self.skip, messages.LossAcceptance)
        return found

    @property
    def bad(self) -> RecordErrorPolicy:
        """Return what is done with records that did not decode."""
        as_text = "A source with TEXT COLUMNS (schema.table.column) reads the column as text, with all its values."
        return RecordErrorPolicy(self.name, self.keeping.on_error, "" if self.table.pushed else as_text)

    def part(self, place: LogPosition, entry: Entry) -> TableEntry | None:
        """Return what an entry has for a sink at a place."""
        match entry.kind:
            case "changes":
                if self.change == "retract" and not place.done:
                    return None  # they are in the one chunk that is to come
                return entry.tables.get(self.table.id) if entry.to > place.to else None
            case "chunk":
                return entry.tables.get(self.table.id) if takes_chunk(place, entry.generation) else None
            case _:
                return None

    def snapshot_alone(self, start: LogPosition, end: LogPosition) -> bool:
        """Tell whether all that is between two places are the rows that a table without a key had at first."""
        return self.change == "retract" and end.done and not start.done

    def unreadable(self, detail: str) -> SinkqlError:
        """Return the error that says that the log has to be read again from the server."""
        return self._unreadable(SinkqlError, detail)

    def damaged(self, log: str, file: str) -> SinkqlError:
        """Return that of a data file that is damaged, for the capture to be told."""
        error = self._unreadable(DamagedFileError, f"file {file} is damaged or gone")
        error.damaged = str(self.folder), log, file
        return error

    def _unreadable(self, kind: type[_Error], detail: str) -> _Error:
        return kind(
            "SQ3435",
            f'the log of "{self.name}" has to be read again from the server',
            detail=detail,
            hint="The sink continues by itself once that is done.",
        )
