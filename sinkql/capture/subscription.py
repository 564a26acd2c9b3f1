"""A sink's view of a captured source: one table, and the source's log."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from sinkql import physical
from sinkql.capture.log import Entry, LogDirectory, TableEntry
from sinkql.capture.position import LogPosition, needs_chunk
from sinkql.capture.sink_messages import SinkMessages
from sinkql.connector_api.cdc import CapturedTable, LogRetention
from sinkql.connector_api.source_options import RecordErrorPolicy
from sinkql.errors import DamagedFileError, SinkqlError
from sinkql.machine import clock

_Error = TypeVar("_Error", bound=SinkqlError)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A table of a captured source as a sink reads it. `name` is the source's, `sink_id` the sink's.

    `used_columns` are the columns that the sink's job uses; None if unknown, that is, all. Rows may have
    `unchanged_values`: values that the server leaves out of an update.
    """

    name: str
    sink_id: str
    log: LogDirectory
    table: CapturedTable
    options: LogRetention
    change: physical.Change = "upsert"
    unchanged_values: bool = False
    used_columns: frozenset[str] | None = None
    since: float = field(default_factory=clock.time, compare=False)
    """When the reader was created. Errors of the capture from before count as fixed."""

    @property
    def folder(self) -> Path:
        """Return the folder of the source."""
        return self.log.folder

    @property
    def messages(self) -> SinkMessages:
        """Return the messages between the sink and the capture."""
        return SinkMessages(self.name, self.sink_id, self.log, self.table, self.since)

    @property
    def error_policy(self) -> RecordErrorPolicy:
        """Return the policy for records that did not decode."""
        as_text = "To read the column's values as text, create the source WITH (TEXT COLUMNS (schema.table.column))."
        return RecordErrorPolicy(self.name, self.options.on_error, "" if self.table.pushed else as_text)

    def part(self, position: LogPosition, entry: Entry) -> TableEntry | None:
        """Return the part of an entry that a sink at a position reads, None for an empty part."""
        match entry.kind:
            case "changes":
                if self.change == "retract" and not position.done:
                    return None  # the table's one chunk, still to come, contains them
                return entry.tables.get(self.table.id) if entry.to > position.to else None
            case "chunk":
                return entry.tables.get(self.table.id) if needs_chunk(position, entry.generation) else None
            case _:
                return None

    def is_snapshot_alone(self, start: LogPosition, end: LogPosition) -> bool:
        """Return whether a batch has only the initial snapshot of a table without a key."""
        return self.change == "retract" and end.done and not start.done

    def unreadable_error(self, detail: str) -> SinkqlError:
        """Return the error for a log that the capture must read again from the server."""
        return self._read_again_error(SinkqlError, detail)

    def damaged_error(self, log: str, file: str) -> SinkqlError:
        """Return the error for a damaged data file, which the driver reports to the capture."""
        error = self._read_again_error(DamagedFileError, f"File {file} is damaged or missing.")
        error.damaged = str(self.folder), log, file
        return error

    def _read_again_error(self, kind: type[_Error], detail: str) -> _Error:
        return kind(
            "SQ3435",
            f'the log of "{self.name}" must be read again from the server',
            detail=detail,
            hint="Wait until the capture has read it. The sink then continues.",
        )
