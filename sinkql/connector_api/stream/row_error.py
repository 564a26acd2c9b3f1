"""Records that are no rows: what is said of each, and how many there were."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sinkql.connector_api.stream.writer import WriteResult
from sinkql.errors import SinkqlError

_FIRST_ERRORS = 20
_SHOWN_BYTES = 1000


@dataclass(frozen=True, slots=True)
class RowError:
    """A record that did not decode: where it came from, its raw bytes, and why.

    `key` is the raw key of a message; `about` what else the source knows of it, such as its time, JSON-able.
    """

    position: str
    code: str
    message: str
    raw: bytes
    key: bytes | None = None
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Tally:
    """Count what one read task saw: `rows` are records, of which `failed` did not decode and `dropped` are no rows.

    `decoded` counts the rows that came of the others, and is not the reader's to count. `errors` keeps the first few
    records that failed; `letters` takes all of them, where they are kept, in files that are in `written` at the end.
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
        """Raise SQ3392 unless each record that was read is a row, is dropped, or failed."""
        if self.rows != self.decoded + self.dropped + self.failed:
            raise SinkqlError(
                "SQ3392",
                f'source "{source}" read {self.rows} records, and not all of them can be accounted for',
                detail=f"{self.decoded} became rows, {self.dropped} are none, {self.failed} failed",
            )

    def add(self, other: Tally) -> None:
        """Add what another task saw."""
        self.rows += other.rows
        self.bytes += other.bytes
        self.failed += other.failed
        self.dropped += other.dropped
        self.decoded += other.decoded
        self.errors.extend(other.errors[: max(0, _FIRST_ERRORS - len(self.errors))])
        self.written.extend(other.written)


@dataclass(frozen=True, slots=True)
class RowFailure:
    """A record that does not decode: the line of the stream in which it begins, from 1, why, and its bytes."""

    line: int
    message: str
    raw: bytes


def invalid_row(source: str, position: str, message: str, raw: bytes, *, hint: str) -> SinkqlError:
    """Return the error for a record that does not decode, where such stop the sinks."""
    return SinkqlError(
        "SQ3101",
        f'invalid row of source "{source}" at {position}: {message}',
        detail=f"The row is {raw[:200].decode(errors='replace')}",
        hint=hint,
    )


def not_kept(why: str = "their records are not kept as they were sent") -> SinkqlError:
    """Return the error for a source whose records cannot be decoded once more."""
    return SinkqlError(
        "SQ3394",
        f"records of this source cannot be replayed: {why}",
        hint="Correct them where they come from, and have them sent or written once more.",
    )
