"""What a capture asks of a connector: a server's changes in the order of their commits, and chunks of its tables.

A position is a text that sorts as the server's commits do, such as a log sequence number in sixteen hexadecimal digits;
the empty text is before all of them. A transaction's id is the connector's own: whether a snapshot sees it is asked of
the snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from sinkql import physical
from sinkql.extension.stream import RowError

if TYPE_CHECKING:
    import pyarrow as pa

Position = str
Key = tuple[Any, ...]
"""Values of a table's key columns, JSON-able, as the connector writes and reads them."""


@dataclass(frozen=True, slots=True)
class CapturedTable:
    """A table as a capture keeps it.

    `id` is unique in the source and a file's name may have it; `name` is the upstream one, with its schema. `columns`
    are all that are taken, in SinkQL's types; `key` are those of the upstream key. With a key, rows are overwritten by
    it (upsert); without one they come and go (retract). `options` are the connector's own.
    """

    id: str
    name: tuple[str, ...]
    columns: tuple[physical.Column, ...]
    key: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of one table in the order of their changes, and the records of it that did not decode.

    `rows` have the table's columns, then `$diff` (int64: with a key 1 for a row that the key has now, -1 for a key that
    is gone, other columns NULL; without one 1 for a row that came, -1 for one that went), `$at` (timestamp[us, UTC], of
    the commit), and where the table may have values that the server does not send, `$hole` (binary, a bit a column
    from the lowest of the first byte on, NULL for none) and `$from` (a struct of the key columns: the key that the row
    had before, whose values its holes have; NULL where the key is the same).
    """

    rows: pa.RecordBatch
    errors: Sequence[RowError] = ()


@dataclass(frozen=True, slots=True)
class Transactions:
    """Transactions in the order of their commits: the position after each, and its id."""

    ends: Sequence[Position]
    ids: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Changed:
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
class Reshaped:
    """A table has other columns from here on; `problem` says for a user what a sink cannot go on with."""

    table: CapturedTable
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """The server is at `to`, and nothing of what is captured changed up to there."""

    to: Position


Event = Changed | Reshaped | Moved


class Snapshot(Protocol):
    """What one look at the server saw."""

    def unseen(self, ids: Sequence[Any]) -> int | None:
        """Return the place of the first of these transactions that it does not see; None where it sees all."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of a table in the order of its key: as `TableRows` with `$diff` 1.

    `last` is the key of the last one; None where nothing follows. Changes up to `high` may be in them already.
    """

    rows: Sequence[TableRows]
    last: Key | None
    high: Position


class ChunkRead(Protocol):
    """One transaction of the server in which parts of a table are read, all as `snapshot` saw them; a context."""

    snapshot: Snapshot

    def __enter__(self) -> ChunkRead:
        """Begin the transaction, with the table locked against being emptied or rewritten."""

    def __exit__(self, *error: object) -> None:
        """End it."""

    def read(self, after: Key | None, size: int) -> Chunk:
        """Return the rows after a key, about `size` bytes; without a key in the table all of them, `after` None."""


class Stream(Protocol):
    """A connector's reading of one server for one source. Only the capture's process has one.

    All methods raise SinkqlError; one that is `retryable` is tried again with a new stream, others stall the source.
    """

    def check(self) -> Position:
        """Check that the server still is the one that was read, and has what is needed; return its present end."""

    def begin(self, after: Position) -> None:
        """Start to receive what comes after a position, which is one that `confirm` got, or a later one."""

    def receive(self, seconds: float) -> Sequence[Event]:
        """Wait up to so long, and return what came: up to about 8 MB, whole transactions where they are shorter."""

    def confirm(self, position: Position) -> None:
        """Let the server forget what is up to a position."""

    def retained(self) -> int:
        """Return how many bytes the server keeps for this reader."""

    def chunk(self, table: CapturedTable) -> ChunkRead:
        """Return a read of a table, that has not begun; it goes through a connection of its own."""

    def flush(self) -> None:
        """Have the server's log reach the last `high`, also where nobody writes."""

    def complete(self, table: CapturedTable, rows: TableRows, ids: Sequence[Any]) -> tuple[TableRows, Position | None]:
        """Fill the holes of rows whose key changed from the server, by the new key; called while chunks are read.

        The look waits until it sees the transactions `ids`. The position is the server's end where a row was not
        found, None where all were.
        """

    def close(self) -> None:
        """Leave the server."""
