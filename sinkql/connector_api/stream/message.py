"""Decoders and encoders of messages: bytes ↔ rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


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
