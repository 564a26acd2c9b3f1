"""Messages between the sinks and the capture of a source, in a key-value store that all of their hosts see.

* `at/<reader>`: the position of a sink in a table, sent after each commit.
* `want/<reader>`: a sink requests a generation of a table.
* `ask/<id>`: a sink requests the server's present end; `answer/<id>` is the reply.
* `word`: the status of the capture, and the error that stops it.
* `again`: a sink that started after the error requests a retry without waiting.
* `skip`: a user accepts the loss that `word` reports; `skip/<reader>`: the loss that a sink reports.
* `era`: the last accepted loss, and the position at which the capture epoch after it begins.
* `snapshots`: the progress of the tables' initial snapshots.
* `damaged`: a reader found a damaged data file.

A reader is a pair of a sink and a table: a sink may read several tables of a source, each up to another position.

Only `era` is written with fsync. If another message is lost, the capture keeps more than needed, or the message is sent
again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from sinkql import codec
from sinkql.connector_api.cdc import Position
from sinkql.errors import SinkqlError, from_data
from sinkql.machine import clock
from sinkql.machine.randomness import new_bytes
from sinkql.storage.key_value import KeyValueStore

_POLL_SECONDS = 0.02
_VALID_SECONDS = 5.0


class ReaderPosition(msgspec.Struct, frozen=True, omit_defaults=True):
    """The position of a sink in a table, with the fields of `sinkql.capture.position.LogPosition`."""

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
    """The time after an accepted loss: positions of one capture epoch mean nothing in another.

    It begins at position `begin`, empty if that is not known yet. `why` is the loss before it. Positions of pushed rows
    continue: up to `end` they belong to the epoch before, but no later than the end known when the loss was accepted.
    """

    number: int = 0
    begin: Position = ""
    why: str = ""
    end: Position = ""

    def translate(self, to: Position) -> Position:
        """Translate a sink's position in an earlier epoch to this one."""
        return max(self.begin, min(to, self.end))


class LossAcceptance(msgspec.Struct, frozen=True):
    """A user's acceptance of a loss, by its error code: the message may differ each time."""

    code: str

    def accepts(self, error: SinkqlError) -> bool:
        """Return whether an error reports this loss."""
        return error.of_loss and self == LossAcceptance(error.code)


class SnapshotRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request for a generation of a table with some columns, or for `all` entries of the log."""

    table: str
    all: bool = False
    columns: tuple[tuple[str, str], ...] = ()


class EndRequest(msgspec.Struct, frozen=True):
    """A request for the server's end, to the capture of a table."""

    table: str


class EndReply(msgspec.Struct, frozen=True):
    """The server's end `to`, when the last entry of log `log` was `entry`, up to position `at`."""

    to: Position
    log: str
    entry: int
    at: Position
    era: int = 0


class CaptureError(msgspec.Struct, frozen=True):
    """The error of the attempt that began at `tried`, and of all attempts since `failing`."""

    error: dict[str, Any]
    tried: float
    failing: float


class CaptureStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """The status of a capture: the error `trouble` stops all tables, `tables` has the errors of single tables.

    The server may have deleted all changes up to `confirmed`. `joinable` are the entries at which sinks may join a
    generation, by the names of readers whose requests the capture knows. For them it keeps all later changes, on the
    server too. `where` is the machine that alone has the log, if any.
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

    def error_of(self, table: str) -> CaptureError | None:
        """Return the error that stops a table; None if the capture no longer repeats its status."""
        return (self.trouble or self.tables.get(table)) if abs(clock.time() - self.at) < _VALID_SECONDS else None


class Snapshot(msgspec.Struct, frozen=True, omit_defaults=True):
    """The progress of a table's initial snapshot: chunks and rows read of about `of_rows`; None if unknown."""

    chunks: int
    rows: int
    of_rows: int | None = None
    seconds_left: float | None = None
    done: bool = False

    @property
    def of_chunks(self) -> int | None:
        """Return the estimated number of chunks."""
        if self.done or self.of_rows is None or not self.chunks or not self.rows:
            return self.chunks if self.done else None
        return max(self.chunks, round(self.chunks * self.of_rows / self.rows))


class Snapshots(msgspec.Struct, frozen=True):
    """The progress of the last snapshots of tables, by the tables' ids."""

    tables: dict[str, Snapshot]


class RetryRequest(msgspec.Struct, frozen=True):
    """A request to retry without waiting."""

    at: float


class DamagedFileReport(msgspec.Struct, frozen=True):
    """The name of a damaged data file, and its log."""

    log: str
    file: str


def reader_name(sink_id: str, table: str) -> str:
    """Return the name of a sink and table in messages."""
    return f"{sink_id}.{table}"


def sink_of(reader: str) -> str:
    """Return the sink's id in a reader's name."""
    return reader.partition(".")[0]


def send(store: KeyValueStore, name: str, message: msgspec.Struct) -> None:
    """Write a message; readers see all of it or nothing."""
    store.write(name, msgspec.json.encode(message), sync=False)


def receive(store: KeyValueStore, name: str, type_: type[Any]) -> Any | None:
    """Return a message, None if it is absent or incomplete."""
    return _decode(store.read(name), type_)


def all_of(store: KeyValueStore, folder: str, type_: type[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names and contents of the messages in a folder."""
    for name, data in store.all(folder).items():
        message = _decode(data, type_)
        if message is not None:
            yield name, message


def _decode(data: bytes | None, type_: type[Any]) -> Any | None:
    with suppress(msgspec.MsgspecError):
        return codec.decoder(type_).decode(data) if data is not None else None
    return None


def latest_epoch(store: KeyValueStore) -> CaptureEpoch:
    """Return the latest capture epoch; the first one if none is stored."""
    epoch: CaptureEpoch | None = receive(store, "era", CaptureEpoch)
    return epoch or CaptureEpoch()


def begin_epoch(store: KeyValueStore, epoch: CaptureEpoch) -> None:
    """Store a capture epoch durably."""
    store.write("era", msgspec.json.encode(epoch))


def status(store: KeyValueStore) -> CaptureStatus | None:
    """Return the last status of the capture, None if it sent none."""
    message: CaptureStatus | None = receive(store, "word", CaptureStatus)
    return message


def failure(store: KeyValueStore, table: str, since: float) -> tuple[SinkqlError, float] | None:
    """Return the error that keeps the capture from reading a table, and since when it fails.

    A permanent error from before `since` is not returned, as the user may have fixed its cause: the capture is asked to
    retry instead.
    """
    last = status(store)
    trouble = last.error_of(table) if last is not None else None
    if trouble is None:
        return None
    error = from_data(trouble.error)
    if not error.retryable and trouble.tried < since:
        request: RetryRequest | None = receive(store, "again", RetryRequest)
        if request is None or request.at < since:
            send(store, "again", RetryRequest(since))
        return None
    return error, trouble.failing


def retry_requested(store: KeyValueStore, since: float) -> bool:
    """Return whether a sink has requested a retry after a time."""
    request: RetryRequest | None = receive(store, "again", RetryRequest)
    return request is not None and request.at > since


def request_end(store: KeyValueStore, table: str, *, patience: float) -> EndReply | None:
    """Request the server's end; return None without a reply within `patience` seconds.

    Raises the capture's error if it is permanent.
    """
    name = new_bytes(8).hex()
    send(store, f"ask/{name}", EndRequest(table))
    since, until = clock.time(), clock.monotonic() + patience
    try:
        while clock.monotonic() < until:
            reply: EndReply | None = receive(store, f"answer/{name}", EndReply)
            if reply is not None:
                return reply
            failing = failure(store, table, since)
            if failing is not None and not failing[0].retryable:
                raise failing[0]
            clock.sleep(_POLL_SECONDS)
        return None
    finally:
        store.remove(f"answer/{name}", f"ask/{name}")
