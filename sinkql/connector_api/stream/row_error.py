"""Describe records that do not decode, and count the records of a read task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sinkql.connector_api.stream.write_task import WriteResult
from sinkql.errors import SinkqlError

_FIRST_ERRORS = 20
_SHOWN_BYTES = 1000
_DETAIL_BYTES = 200


@dataclass(frozen=True, slots=True)
class RowError:
    """A record that did not decode: its position in the source, its raw bytes, and the reason.

    `key` is the raw key of a message. `about` has further facts from the source as JSON, for example its time.
    """

    position: str
    code: str
    message: str
    raw: bytes
    key: bytes | None = None
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class ReadCounts:
    """The counts of one read task: `rows` records, `failed` that did not decode, and `dropped` that have no row.

    The task, not the reader, counts the decoded rows in `decoded`. `errors` has the first failed records. `letters`
    stores each failed record if the sink has a dead-letter table; at the end, `written` has the write results.
    """

    rows: int = 0
    bytes: int = 0
    failed: int = 0
    dropped: int = 0
    decoded: int = 0
    errors: list[RowError] = field(default_factory=list)
    letters: Callable[[RowError], None] | None = None
    written: list[WriteResult] = field(default_factory=list)

    def fail(self, error: RowError) -> None:
        """Count a record that did not decode."""
        self.failed += 1
        if len(self.errors) < _FIRST_ERRORS:
            self.errors.append(replace(error, raw=error.raw[:_SHOWN_BYTES]))
        if self.letters is not None:
            self.letters(error)

    def settle(self, source: str) -> None:
        """Raise SQ3392 unless each record is a row, was dropped, or failed."""
        if self.rows != self.decoded + self.dropped + self.failed:
            raise SinkqlError(
                "SQ3392",
                f'source "{source}" read {self.rows} records, and not all of them can be accounted for',
                detail=f"{self.decoded} became rows, {self.dropped} have no row, {self.failed} failed",
            )

    def add(self, other: ReadCounts) -> None:
        """Add the counts of another task."""
        self.rows += other.rows
        self.bytes += other.bytes
        self.failed += other.failed
        self.dropped += other.dropped
        self.decoded += other.decoded
        self.errors.extend(other.errors[: max(0, _FIRST_ERRORS - len(self.errors))])
        self.written.extend(other.written)


@dataclass(frozen=True, slots=True)
class RowFailure:
    """A record that does not decode: the line on which it begins, from 1, the reason, and its bytes."""

    line: int
    message: str
    raw: bytes


def shown_record(raw: bytes) -> str:
    """Return the text of a record for an error; a long record is cut, and ends with an ellipsis."""
    text = raw[:_DETAIL_BYTES].decode(errors="replace")
    return f"{text} …" if len(raw) > _DETAIL_BYTES else text


def invalid_row_error(source: str, position: str, message: str, raw: bytes, *, hint: str) -> SinkqlError:
    """Return the error for a record that does not decode and stops the sink."""
    return SinkqlError(
        "SQ3101",
        f'invalid row of source "{source}" at {position}: {message}',
        detail=f"The row is {shown_record(raw)}",
        hint=hint,
    )


def not_replayable_error(why: str = "they are not stored as they were sent") -> SinkqlError:
    """Return the error for a source whose records cannot be decoded again."""
    return SinkqlError(
        "SQ3394",
        f"records of this source cannot be replayed: {why}",
        hint="Correct the records in the system that produces them, and send or write them again.",
    )
