"""What a capture asks of a connector: a server's changes in the order of their commits, and chunks of its tables.

A connector plans each table of such a source with the options that `table_options` returns, and the source itself with
those of `source_options`; its `SourceKind` has a `stream`, and `sinkql.capture.open_reader` as its reader. Each sink
then reads the log that a capture keeps, and nothing but a capture talks to the server. What is kept for the source on
the server, such as a replication slot, is made by `Stream.create`, when the first sink that reads the source runs, and
not by CREATE SOURCE: a source that nobody reads holds nothing. It is taken away by `SourceKind.forget` after DROP
SOURCE, by the process that drops it or by the next one that opens the catalog.

A position is a text that sorts as the server's commits do, such as a log sequence number in sixteen hexadecimal digits;
the empty text is before all of them. A transaction's id is the connector's own: whether a snapshot sees it is asked of
the snapshot.
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
"""Values of a table's key columns, JSON-able, as the connector writes and reads them."""
SKIP = (
    "Run ALTER SOURCE … SKIP: upsert sinks of the source then compute their rows again, others go on without the rest."
)
"""The hint where the server does not have what comes next: errors whose codes are `of_loss`."""


@dataclass(frozen=True, slots=True)
class CapturedTable:
    """A table as a capture keeps it.

    `id` is unique in the source and a file's name may have it; `name` is the upstream one, with its schema. `columns`
    are all that are taken, in SinkQL's types; `key` are those of the upstream key. With a key, rows are overwritten by
    it (upsert); without one they come and go (retract), or only come where rows are `pushed`: the log alone has these,
    and a sink begins with all of them that it still has. `holes`: the server may leave values out of a change.
    `options` are the connector's own.
    """

    id: str
    name: tuple[str, ...]
    columns: tuple[physical.Column, ...]
    key: tuple[str, ...]
    holes: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    pushed: bool = False

    @property
    def typed(self) -> tuple[tuple[str, str], ...]:
        """Return the columns' names and types."""
        return tuple((each.name, str(each.type)) for each in self.columns)

    @property
    def repeatable(self) -> bool:
        """Tell whether changes that a sink has may come to it once more, all those that followed them too."""
        return bool(self.key) and not self.holes


class LogFiles(Protocol):
    """Small files of a stream that lie with the log of its source, wherever that is captured.

    Methods raise SinkqlError and OSError.
    """

    def note(self, name: str, data: bytes) -> None:
        """Put a file, durably, in the place of the one with its name."""

    def noted(self, name: str) -> bytes | None:
        """Return what a file has, None where there is none."""

    def unnote(self, name: str) -> None:
        """Delete a file."""


@dataclass(frozen=True, slots=True)
class CapturedSource:
    """A source that a capture reads: `id` is its own for ever, `name` the full name that it has now.

    `connection` has secrets by name alone, as has `log`, which reaches the store of its log, None for a folder.
    `options` are the connector's own, those of the source. Its stream may keep what is its own in `folder`, and what
    is to be known on other hosts in `notes`; only a capture has them.
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
    """A place of logs in an object store, and the full name of the connection that reaches it."""

    path: str
    connection: str


class LogRetention(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a source's WITH (…) says of its log: sizes in bytes, `log` a place other than the state folder.

    `keep`: the server keeps what sinks have not committed, or the log does. Above `max_retained` bytes on the server
    the log does in any case; None is the server's own bound, or 10 GB. Above `max_log` the capture waits for the sinks.
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
    """Return what a connector's `SourcePlan.options` are.

    `source_id` is that of the statement's facts (`facts.get("source_id")`, None where a script is compiled), `name` the
    source's full name, `options` what the connector needs of the source itself; a value that decides no rows may stand
    in them under "tuning".
    """
    own = {key: value for key, value in options.items() if key != "tuning"}
    tuning = {"source": name, "keeping": msgspec.to_builtins(keeping), "options": dict(options.get("tuning", {}))}
    return {"source_id": source_id, "source": own, "tuning": tuning}


def table_options(source: Mapping[str, Any], table: CapturedTable) -> dict[str, Any]:
    """Return what the options of a `logical.SourceTable` are, by those of its source (`source_options`).

    The columns are those of the table's shape, whose change is UPSERT with the key, RETRACT without one, APPEND where
    rows are pushed. Of the
    table's own options, too, a value that decides no rows may stand under "tuning".
    """
    options = {key: value for key, value in table.options.items() if key != "tuning"}
    own = {"id": table.id, "name": list(table.name), "key": list(table.key), "options": options}
    tuning = {**source["tuning"], "table": dict(table.options.get("tuning", {}))}
    return {**source, "tuning": tuning, "table": own, **({"holes": True} if table.holes else {})}


def log_connection(options: Mapping[str, Any]) -> str | None:
    """Return the full name of the connection that reaches the log of a planned source; None for other sources too."""
    found = options.get("tuning", {}).get("keeping", {}).get("log")
    return found["connection"] if found is not None else None


def captured_source(
    kind: str,
    options: Mapping[str, Any],
    connection: physical.Connection | None,
    log: physical.Connection | None = None,
) -> tuple[CapturedSource, LogRetention]:
    """Return the source of planned options, of the source or of one of its tables, and how its log is kept."""
    tuning = options["tuning"]
    own = {**options["source"], "tuning": tuning["options"]}
    source = CapturedSource(options["source_id"] or "", tuning["source"], kind, connection, own, log=log)
    return source, codec.convert(tuning["keeping"], LogRetention)


def captured_table(read: physical.Read) -> CapturedTable:
    """Return the table that a job reads."""
    own = read.options["table"]
    holes = bool(read.options.get("holes"))
    options = {**own["options"], "tuning": read.options["tuning"].get("table", {})}
    pushed = read.change == "append"
    return CapturedTable(own["id"], tuple(own["name"]), read.columns, tuple(own["key"]), holes, options, pushed)


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of one table in the order of their changes, and the records of it that did not decode.

    `rows` have the table's columns, then, unless they are pushed, `$diff` (int64: with a key 1 for a row that the key
    has now, -1 for a key that is gone, other columns NULL; without one 1 for a row that came, -1 for one that went),
    `$at` (timestamp[us, UTC], of the commit), and where the table may have values that the server does not send,
    `$hole` (binary, a bit a column from the lowest of the first byte on, NULL for none) and `$from` (a struct of the
    key columns: the key that the row had before, whose values its holes have; NULL where the key is the same).
    `transactions` are the ids of the rows' transactions, as `Transactions` has them, of a table without a key: with
    them its first snapshot need not wait for a moment in which nothing changes. None where they are not told.
    """

    rows: pa.RecordBatch
    errors: Sequence[RowError] = ()
    transactions: NDArray[np.int64] | NDArray[np.object_] | None = None


@dataclass(frozen=True, slots=True)
class Transactions:
    """Transactions in the order of their commits: the position after each, and its id."""

    ends: Sequence[Position]
    ids: Sequence[Any]


@dataclass(frozen=True, slots=True)
class RowsChanged:
    """Rows of whole transactions up to `to`, by a table's id.

    A table in `emptied` lost all its rows before these. With `open`, the last of them go on in what comes next, `to` is
    the end of the last whole one, and nothing may be published up to there but what is whole.
    """

    to: Position
    tables: Mapping[str, Sequence[TableRows]]
    transactions: Transactions
    emptied: frozenset[str] = frozenset()
    open: bool = False


@dataclass(frozen=True, slots=True)
class SchemaChanged:
    """A table has other columns from here on; `problem` says for a user what a sink cannot go on with.

    `lost`: changes of the table before here may be missing, so that sinks of it stop, whatever columns they need.
    """

    table: CapturedTable
    problem: str | None = None
    lost: bool = False


@dataclass(frozen=True, slots=True)
class PositionAdvanced:
    """The server is at `to`, and nothing of what is captured changed up to there."""

    to: Position


Event = RowsChanged | SchemaChanged | PositionAdvanced


class Snapshot(Protocol):
    """What one look at the server saw; taken without waiting."""

    def unseen(self, ids: Sequence[Any]) -> int | None:
        """Return the place of the first of these transactions that it does not see; None where it sees all."""

    def certain(self, ids: Sequence[Any]) -> bool:
        """Tell whether it sees those of these transactions that `unseen` says it does, and no others."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of a table in the order of its key: as `TableRows` with `$diff` 1; gone through once, before the read ends.

    `last` is the key of the last one; None where nothing follows. Changes up to `high` may be in them already. Where
    the server's table has lost columns since the first chunk, `reshaped` says which of them the rows have.
    """

    rows: Iterable[TableRows]
    last: Key | None
    high: Position
    reshaped: SchemaChanged | None = None


class ChunkRead(Protocol):
    """One transaction of the server in which parts of a table are read, all as `snapshot` saw them; a context."""

    snapshot: Snapshot

    def __enter__(self) -> ChunkRead:
        """Begin the transaction, with the table locked against being emptied or rewritten."""

    def __exit__(self, *error: object) -> None:
        """End it."""

    def count(self) -> int | None:
        """Return about how many rows the table has, without reading them; None where the server does not tell."""

    def read(self, after: Key | None, size: int) -> Chunk:
        """Return the rows after a key, about `size` bytes; without a key in the table all of them, `after` None.

        A read that begins raises TableError for a table that has not all of its columns; one that goes on does without.
        """


class Stream(Protocol):
    """A connector's reading of one server for one source. Only the capture's process has one.

    All methods raise SinkqlError; one that is `retryable` is tried again with a new stream, others stall the source.
    `unit` is of what positions count, for users: bytes, transactions, requests.
    """

    unit: str

    def known(self) -> Position:
        """Return about where the server is now, for users: it is asked nothing that it would have to write."""

    def number(self, position: Position) -> int:
        """Return how many of the unit the server has had up to a position."""

    def check(self) -> None:
        """Check that the server still is the one that was read, and has what is needed."""

    def create(self) -> Position:
        """Have the server keep changes for this source from now on, unless it does, and return from where on.

        Called where nothing of the source is in the log, and no sink has read it. What a server keeps nothing for
        returns its present end. It returns when whatever committed before is seen by every later snapshot.
        """

    def follows(self, after: Position) -> bool:
        """Tell whether the server still has all that follows a position, though that may have been confirmed.

        Called before `begin`, where a log is lost that alone was to keep it.
        """

    def begin(self, after: Position, tables: Sequence[CapturedTable], stops: Sequence[Position] = ()) -> None:
        """Start to receive what comes after a position: that of `create`, one that `confirm` got, or a later one.

        Changes of these tables alone are received. A `RowsChanged` that would go past one of `stops`, in their order,
        ends there. Called once; other tables need another stream. Raises where the server no longer has what follows.
        """

    def end(self) -> Position:
        """Return the server's present end: what has committed by now is received up to there."""

    def look(self) -> Snapshot:
        """Return what a snapshot sees now."""

    def receive(self, seconds: float) -> Sequence[Event]:
        """Wait up to so long, and return what came: up to about 8 MB, whole transactions where they are shorter."""

    def looked_since(self, moment: float) -> bool:
        """Tell whether what was received says of tables what holds at a time of `time.monotonic`, or later.

        Where it does not yet, the next calls of `receive` see to it. What says so in its log itself always does.
        """

    def confirm(self, position: Position) -> None:
        """Let the server forget what is up to a position."""

    def retained(self) -> int:
        """Return how many bytes the server keeps for this reader; 0 where it keeps nothing."""

    def most_retained(self) -> int:
        """Return how many bytes it may keep before that harms the server: Keeping.max_retained, unless it is set."""

    def chunk(self, table: CapturedTable) -> ChunkRead:
        """Return a read of a table, that has not begun; it goes through a connection of its own."""

    def flush(self) -> None:
        """Have the server's log reach the last `high`, also where nobody writes."""

    def complete(self, table: CapturedTable, rows: TableRows, ids: Sequence[Any]) -> tuple[TableRows, Position | None]:
        """Fill the holes of rows whose key changed from the server, by the new key; called while chunks are read.

        The look waits until it sees the transactions `ids`. The position is the server's end after it, up to which
        rows that were found may have changed, and others have moved on; None where the server sends all values. Raises
        TableError for a table that is there, and cannot be read.
        """

    def renew(self) -> None:
        """Give up what the server keeps for this source, a part of which is lost; another stream's `create` comes next.

        Nothing to do where the server keeps nothing.
        """

    def close(self) -> None:
        """Leave the server."""


@runtime_checkable
class PushStream(Stream, Protocol):
    """A stream of rows that are pushed: those that were accepted are kept on this machine until the log has them."""

    def keeper(self) -> str:
        """Return the id of what keeps them here: it goes where they are moved or copied."""

    def follow(self, after: Position, keeper: str | None) -> Position:
        """Go on after all that the log has; return where, later than that where rows before it are not kept any more.

        Called between `check` and `begin`. Rows that follow may be kept by `keeper`: raises where that is another one.
        None where nothing was accepted since, or what was is given up.
        """

    def shut(self) -> None:
        """Accept nothing more; what was accepted is still received."""


Reveal = Callable[[str], str]
"""Full name of a secret to its value."""


class OpenStream(Protocol):
    def __call__(self, source: CapturedSource, secret: Reveal) -> Stream:
        """Return a stream that has not begun, and may connect; raises SinkqlError."""


class DropSlot(Protocol):
    def __call__(self, source: CapturedSource, secret: Reveal) -> None:
        """Take away what a dropped source has on its server; nothing where there is nothing. Raises SinkqlError."""
