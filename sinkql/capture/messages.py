"""What sinks and a capture tell each other, in notes of the source: in its folder, or where other hosts see them.

* `at/<reader>`: how far a sink has read a table; written after its commits.
* `want/<reader>`: a sink waits for a generation of a table.
* `ask/<id>`: somebody asks for the server's end as of now; `answer/<id>` has it.
* `word`: what the capture is doing, and the error that it cannot get over.
* `again`: who came after that wishes that the capture tries again at once.
* `skip`: a user accepts the loss that `word` reports; `skip/<reader>`: the one that a sink reports.
* `era`: the last loss that was accepted, and where what came after it begins.
* `snapshots`: how far the first snapshots of tables are.
* `damaged`: a reader found a data file damaged.

A reader is a sink and a table: a sink may read several tables of a source, each up to another place.

None of them but `era` is waited for by fsync: one that is lost makes the capture keep more, or is written again.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from sinkql import codec
from sinkql.connector_api.cdc import Position
from sinkql.errors import SinkqlError, from_data
from sinkql.storage.key_value import KeyValueStore

_LOOK_SECONDS = 0.02
_VALID_SECONDS = 5.0


class ReaderPosition(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a sink is, as `sinkql.capture.position.LogPosition` has it."""

    table: str
    to: Position
    log: str = ""
    entry: int = -1
    generation: int | None = None
    last: list[Any] | None = None
    chunks: int = 0
    done: bool = True
    high: Position = ""
    run: str = ""
    era: int = 0
    rows: int = 0


class CaptureEpoch(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came after a loss that a user accepted: the positions of an era mean nothing in another one.

    It begins at position `begin`, empty as long as that is not known; `why` is what was lost before it. Where rows are
    pushed, positions go on: up to `end` they are those of the era before, no further than where it says so already as
    the loss is accepted.
    """

    number: int = 0
    begin: Position = ""
    why: str = ""
    end: Position = ""

    def place(self, to: Position) -> Position:
        """Return where in this era a sink goes on that was at a position of an earlier one."""
        return max(self.begin, min(to, self.end))


class LossAcceptance(msgspec.Struct, frozen=True):
    """A user accepts a loss that was reported with this code: its message may tell more each time."""

    code: str

    def accepts(self, error: SinkqlError) -> bool:
        """Tell whether an error is of that loss."""
        return error.of_loss and self == LossAcceptance(error.code)


class SnapshotRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A sink waits for a generation of a table with some columns, or is to begin with `all` that the log has."""

    table: str
    all: bool = False
    columns: tuple[tuple[str, str], ...] = ()


class EndRequest(msgspec.Struct, frozen=True):
    """Somebody asks for the server's end, of a capture that captures a table."""

    table: str


class EndReply(msgspec.Struct, frozen=True):
    """The server's end `to`, when the capture had gone to entry `entry` of log `log`, up to `at`, in an era."""

    to: Position
    log: str
    entry: int
    at: Position
    era: int = 0


class CaptureError(msgspec.Struct, frozen=True):
    """An error that was met in a try that began at `tried`, and in all others since `failing`."""

    error: dict[str, Any]
    tried: float
    failing: float


class CaptureStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a capture is doing: `trouble` is what it cannot get over, `tables` what keeps it from reading some of them.

    `confirmed` is what the server may have forgotten; `joinable` are the entries where generations begin that sinks may
    join, by the readers' names: of those that it knows to wait, for which it keeps all that follows, on the server too.
    `where` is the machine that alone has the log, if one has.
    """

    epoch: int
    at: float
    log: str = ""
    entry: int = -1
    confirmed: Position = ""
    joinable: dict[str, int] = {}
    where: str = ""
    trouble: CaptureError | None = None
    tables: dict[str, CaptureError] = {}

    def of(self, table: str) -> CaptureError | None:
        """Return what keeps it from reading a table, as long as the capture repeats it.

        One that has ended says nothing any more.
        """
        return (self.trouble or self.tables.get(table)) if abs(time.time() - self.at) < _VALID_SECONDS else None


class Snapshot(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much of a table is read: so many chunks, and rows of about `of_rows`, in `seconds` of the `run`.

    None where nobody knows.
    """

    chunks: int
    rows: int
    of_rows: int | None = None
    seconds_left: float | None = None
    done: bool = False

    @property
    def of_chunks(self) -> int | None:
        """Return about how many chunks there will be."""
        if self.done or self.of_rows is None or not self.chunks or not self.rows:
            return self.chunks if self.done else None
        return max(self.chunks, round(self.chunks * self.of_rows / self.rows))


class Snapshots(msgspec.Struct, frozen=True):
    """How far the last snapshots of tables are, by the tables' ids."""

    tables: dict[str, Snapshot]


class RetryRequest(msgspec.Struct, frozen=True):
    """Somebody wishes that the capture tries again."""

    at: float


class DamagedFileReport(msgspec.Struct, frozen=True):
    """A data file of a log is damaged."""

    log: str
    file: str


def reader_name(sink_id: str, table: str) -> str:
    """Return the name of what a sink tells of a table, and is told."""
    return f"{sink_id}.{table}"


def sink_of(reader: str) -> str:
    """Return the id of the sink that a reader's name is of."""
    return reader.partition(".")[0]


def send(notes: KeyValueStore, name: str, mark: msgspec.Struct) -> None:
    """Write a note, which readers see whole."""
    notes.write(name, msgspec.json.encode(mark), sync=False)


def receive(notes: KeyValueStore, name: str, type_: type[Any]) -> Any | None:
    """Return what a note says, None where it is not there or not whole."""
    return _said(notes.read(name), type_)


def all_of(notes: KeyValueStore, what: str, type_: type[Any]) -> Iterator[tuple[str, Any]]:
    """Yield names and contents of the notes of the folder `what`."""
    for name, note in notes.all(what).items():
        found = _said(note, type_)
        if found is not None:
            yield name, found


def _said(note: bytes | None, type_: type[Any]) -> Any | None:
    with suppress(msgspec.MsgspecError):
        return codec.decoder(type_).decode(note) if note is not None else None
    return None


def latest_epoch(notes: KeyValueStore) -> CaptureEpoch:
    """Return the era that began last, as far as it is known."""
    found: CaptureEpoch | None = receive(notes, "era", CaptureEpoch)
    return found or CaptureEpoch()


def begin_epoch(notes: KeyValueStore, era: CaptureEpoch) -> None:
    """Begin an era, durably."""
    notes.write("era", msgspec.json.encode(era))


def status(notes: KeyValueStore) -> CaptureStatus | None:
    """Return what the capture is doing, as far as it said."""
    found: CaptureStatus | None = receive(notes, "word", CaptureStatus)
    return found


def failure(notes: KeyValueStore, table: str, since: float) -> tuple[SinkqlError, float] | None:
    """Return what keeps the capture from reading a table, and since when; one that met it before is to try again.

    What does not pass by itself, and was met before, is not returned: a user may have mended what was wrong.
    """
    said = status(notes)
    trouble = said.of(table) if said is not None else None
    if trouble is None:
        return None
    found = from_data(trouble.error)
    if not found.retryable and trouble.tried < since:
        before: RetryRequest | None = receive(notes, "again", RetryRequest)
        if before is None or before.at < since:
            send(notes, "again", RetryRequest(since))
        return None
    return found, trouble.failing


def retry_requested(notes: KeyValueStore, since: float) -> bool:
    """Tell whether somebody wishes, since a time, that the capture tries again."""
    found: RetryRequest | None = receive(notes, "again", RetryRequest)
    return found is not None and found.at > since


def request_end(notes: KeyValueStore, table: str, *, patience: float) -> EndReply | None:
    """Return the server's end as a capture tells it; None where none does in so many seconds."""
    name = secrets.token_hex(8)
    send(notes, f"ask/{name}", EndRequest(table))
    since, until = time.time(), time.monotonic() + patience
    try:
        while time.monotonic() < until:
            found: EndReply | None = receive(notes, f"answer/{name}", EndReply)
            if found is not None:
                return found
            found_failing = failure(notes, table, since)
            if found_failing is not None and not found_failing[0].retryable:
                raise found_failing[0]
            time.sleep(_LOOK_SECONDS)
        return None
    finally:
        notes.remove(f"answer/{name}", f"ask/{name}")
