"""Define decoders of files (byte stream → rows), and decoders and encoders of messages (bytes ↔ rows)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from sinkql import physical
from sinkql.connector_api.stream.row_error import RowFailure

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows of a part of a stream, and the failed records, in order.

    `records` counts both. `batch` has the requested columns in their Arrow types. `head` is the header record, if the
    format has one.
    """

    batch: pa.RecordBatch
    records: int
    failures: Sequence[RowFailure]
    head: bytes = b""


class UndecodableError(ValueError):
    """The stream has no record of the format; the text is the reason."""


class Decoder(Protocol):
    """A decoder of streams of one format."""

    def decode(self, stream: BinaryIO) -> Iterator[Decoded]:
        """Yield the rows of a stream in parts; raises UndecodableError."""


class QuotedDecoder(Decoder, Protocol):
    """A decoder of streams whose records may have line ends in quotes. It can begin at any record."""

    def decode_after(self, head: bytes, stream: BinaryIO, line: int) -> Iterator[Decoded]:
        """Yield the rows of a stream that begins with a record at a line; `head` is the header record."""


class StoredDecoder(Decoder, Protocol):
    """A decoder of files that describe their columns and where these are stored. The streams are seekable."""

    def columns(self, stream: BinaryIO) -> Sequence[tuple[str, str]]:
        """Return the names and SQL types of a file's columns; raises UndecodableError."""

    def rows(self, stream: BinaryIO) -> int:
        """Return the number of rows in the file's metadata; raises UndecodableError."""

    def decode_range(self, stream: BinaryIO, begin: int, end: int) -> Iterator[Decoded]:
        """Yield the rows that begin between two byte positions; raises UndecodableError."""


def _never(options: Mapping[str, Any]) -> bool:  # the default of `Decoding.lines`
    return False


def _unquoted(options: Mapping[str, Any]) -> bytes:  # the default of `Decoding.quote`
    return b""


@dataclass(frozen=True, slots=True)
class Decoding:
    """How a format of files is decoded: `open` receives the planned options and the columns.

    * `lines` returns whether, with these options, each record is a line. Long input is then cut at line ends.
    * `quote` returns the quote character, which occurs an even number of times in each record; empty for no character.
      Long input is then cut at line ends with an even number before them, and the decoder is a `QuotedDecoder`.
    * `stored` opens the decoder of a format whose files are seekable.
    """

    open: Callable[[Mapping[str, Any], Sequence[physical.Column]], Decoder]
    lines: Callable[[Mapping[str, Any]], bool] = _never
    stored: Callable[[Mapping[str, Any], Sequence[physical.Column]], StoredDecoder] | None = None
    quote: Callable[[Mapping[str, Any]], bytes] = _unquoted


@dataclass(frozen=True, slots=True)
class DecodedMessages:
    """The rows of a list of messages, and the reason of each failure by the message's place in the list.

    Without `places`, each message has a row, and the row of a failed message is meaningless. With `places`, each row
    has the place of its message, and a failed message has no row. `rowless` has the places of valid messages without a
    row. `batch` has the requested columns in their Arrow types.
    """

    batch: pa.RecordBatch
    failures: Mapping[int, str]
    places: np.ndarray | None = None
    rowless: Sequence[int] = ()


class WideError(Exception):
    """The values need much more memory than their texts: decode them in parts. Never raised for a single message."""


class MessageDecoder(Protocol):
    """A decoder of the keys or the values of messages. The driver opens it and tasks use it, so it is picklable."""

    def decode(self, messages: Sequence[bytes]) -> DecodedMessages:
        """Return the rows of messages; raises WideError."""


class ChangeDecoder(Protocol):
    """A decoder of message values that are changes of rows, as in ENVELOPE DEBEZIUM; picklable."""

    def decode(self, keys: pa.RecordBatch | None, values: Sequence[bytes | None]) -> DecodedMessages:
        """Return rows with `$diff` after their columns: 1 for the row that a key has now, -1 for a deleted key.

        `keys` has the key columns of each message, if they are read. None as a value is no change. The result has
        `places`. Raises WideError.
        """


class MessageEncoder(Protocol):
    """An encoder of rows as the keys or the values of messages. The driver opens it and tasks use it: picklable."""

    def encode(self, rows: pa.RecordBatch) -> Sequence[bytes | None]:
        """Return the message of each row; raises SinkqlError for a value that the format cannot represent."""
