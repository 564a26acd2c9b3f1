"""Decoders of files: a stream of bytes → batches of rows.

Decoders and encoders of messages: bytes ↔ rows.
"""

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
    """Rows of a part of a stream, and the records that failed, in order.

    `records` counts both; `batch` has the columns that were asked for, in their Arrow types. `head` is the record that
    says what is in the others, where there is one.
    """

    batch: pa.RecordBatch
    records: int
    failures: Sequence[RowFailure]
    head: bytes = b""


class UndecodableError(ValueError):
    """A stream that has no records of the format at all; the text says why."""


class Decoder(Protocol):
    """Decode streams of one format."""

    def decode(self, stream: BinaryIO) -> Iterator[Decoded]:
        """Yield the rows of a stream in parts; raises UndecodableError."""


class QuotedDecoder(Decoder, Protocol):
    """Decode streams whose records may have line ends in quotes, also from a record on that is not the first."""

    def decode_after(self, head: bytes, stream: BinaryIO, line: int) -> Iterator[Decoded]:
        """Yield the rows of a stream that begins with a record, in that line, of what begins with `head`."""


class StoredDecoder(Decoder, Protocol):
    """Decode files of a format that says itself what columns they have, and where; streams can be sought."""

    def columns(self, stream: BinaryIO) -> Sequence[tuple[str, str]]:
        """Return the names and types, as SQL, of a file's columns; raises UndecodableError."""

    def rows(self, stream: BinaryIO) -> int:
        """Return how many rows a file says that it has; raises UndecodableError."""

    def decode_range(self, stream: BinaryIO, begin: int, end: int) -> Iterator[Decoded]:
        """Yield the rows that begin from a byte on and before another one; raises UndecodableError."""


def _never(options: Mapping[str, Any]) -> bool:  # as `Decoding.lines` is called
    return False


def _unquoted(options: Mapping[str, Any]) -> bytes:  # as `Decoding.quote` is called
    return b""


@dataclass(frozen=True, slots=True)
class Decoding:
    """How a format is decoded: `open` takes the planned options and the columns.

    `lines` tells by the options whether each record is a line: long input is then cut at line ends, and a decoder gets
    whole lines. `quote` gives by the options the character of which each record has an even number, or nothing: long
    input is cut at line ends after which that is so, and a decoder is a `QuotedDecoder`. `stored` opens the decoder,
    too, of a format whose files are sought.
    """

    open: Callable[[Mapping[str, Any], Sequence[physical.Column]], Decoder]
    lines: Callable[[Mapping[str, Any]], bool] = _never
    stored: Callable[[Mapping[str, Any], Sequence[physical.Column]], StoredDecoder] | None = None
    quote: Callable[[Mapping[str, Any]], bytes] = _unquoted


@dataclass(frozen=True, slots=True)
class DecodedMessages:
    """Rows of messages, and why some messages failed, by their places in the list that was decoded.

    Without `places` there is a row for each message, and that of one that failed means nothing. Otherwise `places` has
    the place of the message of each row, and one that failed has no row; those of messages that are no row are in
    `rowless`. `batch` has the columns that were asked for, in their Arrow types.
    """

    batch: pa.RecordBatch
    failures: Mapping[int, str]
    places: np.ndarray | None = None
    rowless: Sequence[int] = ()


class WideError(Exception):
    """The values take much more room than their texts: they are to be decoded in parts. Never for a single one."""


class MessageDecoder(Protocol):
    """Decode the keys or the values of messages; picklable: it is opened in the driver, and used in tasks."""

    def decode(self, messages: Sequence[bytes]) -> DecodedMessages:
        """Return the rows of messages, one for each; raises WideError."""


class ChangeDecoder(Protocol):
    """Decode values of messages that tell how rows change, as ENVELOPE DEBEZIUM does; picklable."""

    def decode(self, keys: pa.RecordBatch | None, values: Sequence[bytes | None]) -> DecodedMessages:
        """Return rows with `$diff` behind their columns: 1 for what a key has now, -1 for a key that is gone.

        `keys` has the key columns of each message, if these are read; a value of None is no change. The result has
        `places`. Raises WideError.
        """


class MessageEncoder(Protocol):
    """Encode rows as the keys or the values of messages; picklable: it is opened in the driver, and used in tasks."""

    def encode(self, rows: pa.RecordBatch) -> Sequence[bytes | None]:
        """Return the message of each row; raises SinkqlError for a value that the format cannot hold."""
