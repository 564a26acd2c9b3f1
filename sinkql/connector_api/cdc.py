"""Define what a capture asks of a connector: a server's changes in commit order, and chunks of its tables.

A connector plans a captured source with the options of `source_options`, and its tables with `table_options`. Its
`SourceKind` has a `stream`, and `sinkql.capture.open_reader` as its reader. Only the capture connects to the server;
sinks read the capture log.

`Stream.create` creates what the server keeps for the source, for example a replication slot. That is when the first
sink of the source runs, not in CREATE SOURCE, so a source without a sink retains nothing. `SourceKind.forget` removes
it after DROP SOURCE: in the process that drops the source, or in the next process that opens the catalog.

A position is a text that sorts in the order of the server's commits, for example a log sequence number in 16
hexadecimal digits. The empty text is before all positions. The id of a transaction has the connector's own type; only
a `Snapshot` tells whether it sees a transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import msgspec

from sinkql import codec, physical
from sinkql.connector_api.stream import RowError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

Position = str
Key = tuple[Any, ...]
"""The values of a table's key columns, as JSON, in the connector's representation."""
SKIP = (
    "Run ALTER SOURCE … SKIP. Upsert sinks of the source then compute their rows again. Other sinks continue without "
    "the lost changes."
)
"""The hint if the server no longer has the next changes: for errors whose codes are `of_loss`."""


@dataclass(frozen=True, slots=True)
class CapturedTable:
    """A table of a captured source.

    * `id` is unique in the source and valid in file names. `name` is the upstream name with its schema.
    * `columns` are the captured columns, in SinkQL's types. `key` has the columns of the upstream key.
    * With a key, later rows overwrite earlier ones (upsert). Without one, rows are added and retracted (retract).
      `pushed` rows are only added: only the log has them, and a new sink begins with all rows in the log.
    * `has_unchanged_values`: the server may leave unchanged values out of a change.
    * `options` are the connector's.
    """

    id: str
    name: tuple[str, ...]
    columns: tuple[physical.Column, ...]
    key: tuple[str, ...]
    has_unchanged_values: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    pushed: bool = False

    @property
    def typed(self) -> tuple[tuple[str, str], ...]:
        """Return the names and types of the columns."""
        return tuple((column.name, str(column.type)) for column in self.columns)

    @property
    def repeatable(self) -> bool:
        """Return whether a sink may receive changes again, followed by all later changes."""
        return bool(self.key) and not self.has_unchanged_values


class LogFiles(Protocol):
    """Small files that a stream stores beside the capture log, so that every host with the log has them.

    Methods raise SinkqlError and OSError.
    """

    def note(self, name: str, data: bytes) -> None:
        """Write or replace a file durably."""

    def noted(self, name: str) -> bytes | None:
        """Return the content of a file; None if it does not exist."""

    def unnote(self, name: str) -> None:
        """Delete a file."""


@dataclass(frozen=True, slots=True)
class CapturedSource:
    """A source that a capture reads. Its `id` never changes; `name` is its present full name.

    * `connection` and `log` contain the names of secrets, not their values. `log` is the object store of the capture
      log; None for a folder.
    * `options` are the connector's for the source.
    * `folder` and `notes` are for the stream: files of this machine, and files that other hosts see. Only a capture
      sets them.
    """

    id: str
    name: str
    kind: str
    connection: physical.Connection | None
    options: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None
    log: physical.Connection | None = None
    notes: LogFiles | None = None


class LogPath(msgspec.Struct, frozen=True):
    """A path of capture logs in an object store, and the full name of the connection to it."""

    path: str
    connection: str


class LogRetention(msgspec.Struct, frozen=True, omit_defaults=True):
    """The options of a capture log in a source's WITH (…). Sizes are in bytes.

    * `keep` is what retains the changes that sinks have not committed: the server, or the log.
    * Above `max_retained` bytes on the server, the log retains them in any case. None for the server's limit or 10 GB.
    * Above `max_log` bytes, the capture waits for the sinks.
    * `log` is a path in an object store; None for the state folder.
    """

    keep: Literal["server", "log"] = "server"
    max_retained: int | None = None
    max_log: int = 20 << 30
    on_truncate: Literal["apply", "fail"] = "apply"
    on_error: Literal["fail", "skip", "dead letter"] = "fail"
    log: LogPath | None = None


def source_options(
    source_id: str | None, name: str, options: Mapping[str, Any], keeping: LogRetention
) -> dict[str, Any]:
    """Return the `SourcePlan.options` of a captured source.

    `source_id` is in the facts of the statement; None if a script is compiled. `name` is the source's full name.
    `options` are the connector's; a value that does not affect rows may be under "tuning".
    """
    source, source_tuning = _split_tuning(options)
    tuning = {"source": name, "keeping": msgspec.to_builtins(keeping), "options": source_tuning}
    return {"source_id": source_id, "source": source, "tuning": tuning}


def table_options(source: Mapping[str, Any], table: CapturedTable) -> dict[str, Any]:
    """Return the options of a `logical.SourceTable`; `source` has the options of its source (`source_options`).

    The shape of the table has the columns. Its change is UPSERT with a key, RETRACT without one, and APPEND for pushed
    rows. In the table's options, too, a value that does not affect rows may be under "tuning".
    """
    options, table_tuning = _split_tuning(table.options)
    planned = {"id": table.id, "name": list(table.name), "key": list(table.key), "options": options}
    tuning = {**source["tuning"], "table": table_tuning}
    return {**source, "tuning": tuning, "table": planned, **({"holes": True} if table.has_unchanged_values else {})}


def _split_tuning(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options without those under "tuning", and the latter."""
    return {key: value for key, value in options.items() if key != "tuning"}, dict(options.get("tuning", {}))


class _PlannedTable(msgspec.Struct, frozen=True):
    id: str
    name: tuple[str, ...]
    key: tuple[str, ...]
    options: dict[str, Any]


class _PlannedTuning(msgspec.Struct, frozen=True):
    source: str
    keeping: LogRetention
    options: dict[str, Any]
    table: dict[str, Any] = {}


class _PlannedSource(msgspec.Struct, frozen=True):
    """The options that `source_options` returns; the options of a table contain them."""

    source_id: str | None
    source: dict[str, Any]
    tuning: _PlannedTuning


class _PlannedSourceTable(_PlannedSource, frozen=True):
    """The options that `table_options` returns."""

    table: _PlannedTable
    holes: bool = False


def is_captured(options: Mapping[str, Any]) -> bool:
    """Return whether planned options are of a captured source or one of its tables."""
    return "source_id" in options


def log_connection(options: Mapping[str, Any]) -> str | None:
    """Return the full name of the connection to the capture log of a planned source; None if the log is in a folder."""
    log = codec.convert(options, _PlannedSource).tuning.keeping.log if is_captured(options) else None
    return log.connection if log is not None else None


def captured_source(
    kind: str,
    options: Mapping[str, Any],
    connection: physical.Connection | None,
    log: physical.Connection | None = None,
) -> tuple[CapturedSource, LogRetention]:
    """Return the source and the retention of its log; `options` are planned, of the source or of one of its tables."""
    planned = codec.convert(options, _PlannedSource)
    tuning = planned.tuning
    source_options = {**planned.source, "tuning": tuning.options}
    source = CapturedSource(planned.source_id or "", tuning.source, kind, connection, source_options, log=log)
    return source, tuning.keeping


def captured_table(read: physical.Read) -> CapturedTable:
    """Return the captured table that a job reads."""
    planned = codec.convert(read.options, _PlannedSourceTable)
    table = planned.table
    options = {**table.options, "tuning": planned.tuning.table}
    pushed = read.change == "append"
    return CapturedTable(table.id, table.name, read.columns, table.key, planned.holes, options, pushed)


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of one table in the order of their changes, and its records that did not decode.

    `rows` has the table's columns, and then, unless rows are pushed:

    * `$diff` (int64). With a key: 1 for the row that the key has now, -1 for a deleted key, with all other columns
      NULL. Without a key: 1 for an added row, -1 for a retracted row.
    * `$at` (timestamp[us, UTC]): the time of the commit.
    * `$hole` and `$from`, if the server may leave out unchanged values. `$hole` (binary) has a bit for each column,
      from the lowest bit of the first byte on, set if the value is unchanged; NULL for none. `$from` (a struct of the
      key columns) is the row's previous key, from which the unchanged values come; NULL if the key is the same.

    `transactions` has the id of each row's transaction, for a table without a key. With the ids, its initial snapshot
    need not wait for a time without changes. None if the connector does not know them.
    """

    rows: pa.RecordBatch
    errors: Sequence[RowError] = ()
    transactions: NDArray[np.int64] | NDArray[np.object_] | None = None


@dataclass(frozen=True, slots=True)
class Transactions:
    """Transactions in commit order: the position after each, and its id."""

    ends: Sequence[Position]
    ids: Sequence[Any]


@dataclass(frozen=True, slots=True)
class RowsChanged:
    """The rows of complete transactions up to `to`, by the id of a table.

    A table in `emptied` was truncated before these rows. With `open`, the last transaction continues in the next event:
    `to` is the end of the last complete one, and only complete transactions may be published.
    """

    to: Position
    tables: Mapping[str, Sequence[TableRows]]
    transactions: Transactions
    emptied: frozenset[str] = frozenset()
    open: bool = False


@dataclass(frozen=True, slots=True)
class SchemaChanged:
    """From here on, a table has other columns. `problem` is the reason for the user if sinks cannot continue.

    `capture.log_scan` decides which sinks stop. If `lost`, earlier changes of the table may be missing, so all its
    sinks stop, regardless of the columns they use.
    """

    table: CapturedTable
    problem: str | None = None
    lost: bool = False


@dataclass(frozen=True, slots=True)
class PositionAdvanced:
    """The server is at `to`, and no captured table has changed before that position."""

    to: Position


Event = RowsChanged | SchemaChanged | PositionAdvanced


class Snapshot(Protocol):
    """A snapshot of the server's transactions, taken without waiting."""

    def unseen(self, ids: Sequence[Any]) -> int | None:
        """Return the index of the first of these transactions that it does not see; None if it sees all."""

    def certain(self, ids: Sequence[Any]) -> bool:
        """Return whether `unseen` separates exactly the visible from the invisible transactions."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of a table in key order, as `TableRows` with `$diff` 1. Iterate once, before the read ends.

    * `last` is the key of the last row; None if no row follows.
    * `high` is the high watermark: the rows may already contain changes before that position.
    * `reshaped` has the columns of the rows, if the server's table has lost columns since the first chunk.
    """

    rows: Iterable[TableRows]
    last: Key | None
    high: Position
    reshaped: SchemaChanged | None = None


class ChunkRead(Protocol):
    """A transaction of the server that reads chunks of a table, all as `snapshot` sees them; a context manager."""

    snapshot: Snapshot

    def __enter__(self) -> ChunkRead:
        """Begin the transaction, and lock the table against truncation and rewriting."""

    def __exit__(self, *error: object) -> None:
        """End the transaction."""

    def count(self) -> int | None:
        """Return the approximate number of rows without reading them; None if the server does not know it."""

    def read(self, after: Key | None, size: int) -> Chunk:
        """Return the rows after a key, about `size` bytes. For a table without a key, return all rows; `after` is None.

        If the table lacks a column, the first chunk raises TableError, and later chunks leave the column out.
        """


_UNBOUNDED = 1 << 62


class Stream(Protocol):
    """A connection to a server that reads its changes for one source. Only the capture has one.

    All methods raise SinkqlError. After a `retryable` error the capture retries with a new stream; other errors stall
    the source. `unit` is what positions count, for users: bytes, transactions, requests.
    """

    unit: str

    def approximate_position(self) -> Position:
        """Return the approximate position of the server, for users; the query makes the server write nothing."""

    def number(self, position: Position) -> int:
        """Return the number of units up to a position."""

    def check(self) -> None:
        """Check that this is still the server that was read, and that its settings suffice."""

    def create(self) -> Position:
        """Make the server retain changes for this source from now on, if it does not yet; return the first position.

        Called if the log has nothing of the source and no sink has read it. If servers of the kind retain nothing for a
        reader, return the present end. When this returns, every later snapshot sees all transactions before the
        position.
        """

    def follows(self, after: Position) -> bool:
        """Return whether the server still has all changes after a position, even if they were confirmed.

        Called before `begin`, if a log is lost that alone had to retain the changes.
        """

    def begin(self, after: Position, tables: Sequence[CapturedTable], stops: Sequence[Position] = ()) -> None:
        """Start to receive the changes of tables after a position: of `create`, of `confirm`, or a later one.

        A `RowsChanged` that would pass one of `stops`, which are in order, ends there. Called once; other tables need
        another stream. Raises if the server no longer has the changes.
        """

    def end(self) -> Position:
        """Return the server's present end: everything committed by now comes before it."""

    def look(self) -> Snapshot:
        """Return a snapshot of the present transactions."""

    def receive(self, seconds: float) -> Sequence[Event]:
        """Wait up to some seconds and return the received events: whole transactions, or about 8 MB of a longer one."""

    def looked_since(self, moment: float) -> bool:
        """Return whether the received definitions of tables are valid at a time of `time.monotonic`, or later.

        If not yet, the next calls of `receive` look them up. A server whose log contains the definitions always
        returns True.
        """
        return True

    def confirm(self, position: Position) -> None:
        """Allow the server to delete the changes up to a position."""

    def retained(self) -> int:
        """Return the number of bytes that the server retains for this source; 0 if it retains nothing."""
        return 0

    def most_retained(self) -> int:
        """Return the most bytes that the server may retain, if `LogRetention.max_retained` is not set."""
        return _UNBOUNDED

    def chunk(self, table: CapturedTable) -> ChunkRead:
        """Return a read of a table through a separate connection; it has not begun."""

    def flush(self) -> None:
        """Advance the server's log past the last high watermark, even on an idle server."""

    def complete(self, table: CapturedTable, rows: TableRows, ids: Sequence[Any]) -> tuple[TableRows, Position | None]:
        """Query the server for the unchanged values of rows whose key changed, by the new key.

        Called while chunks are read. The query waits until it sees the transactions `ids`. Return the rows and the
        server's end after the query. Before that position, returned rows may have changed, and others may have another
        key. The position is None if the server sends all values. Raises TableError if the table exists but cannot be
        read.
        """

    def renew(self) -> None:
        """Drop what the server retains for this source, because a part is lost. `create` of a new stream comes next."""

    def close(self) -> None:
        """Close the connection."""


@runtime_checkable
class PushStream(Stream, Protocol):
    """A stream of pushed rows: this machine stores accepted rows until the log has them."""

    def keeper(self) -> str:
        """Return the id of the store of accepted rows on this machine; a moved or copied store has the same id."""

    def follow(self, after: Position, keeper: str | None) -> Position:
        """Continue after the last position of the log; return a later one if the rows before it are no longer stored.

        Called between `check` and `begin`. `keeper` is the id of the store that may have the next rows; raises if it is
        another store. None if no row was accepted since, or their loss was accepted.
        """

    def shut(self) -> None:
        """Stop accepting rows; accepted rows are still received."""


Reveal = Callable[[str], str]
"""Return the value of a secret by its full name."""


class OpenStream(Protocol):
    def __call__(self, source: CapturedSource, secret: Reveal) -> Stream:
        """Return a stream that has not begun; it may connect. Raises SinkqlError."""


class DropSlot(Protocol):
    def __call__(self, source: CapturedSource, secret: Reveal) -> None:
        """Remove what a dropped source left on its server, if anything; raises SinkqlError."""
