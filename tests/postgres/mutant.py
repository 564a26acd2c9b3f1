"""Mutants of the initial snapshot's protocol, each without one part; tests must detect the wrong tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sinkql.capture.publisher import Publisher
from sinkql.capture.session import CaptureSession
from sinkql.capture.snapshot import SnapshotScheduler, TableSnapshotReader
from sinkql.capture.unchanged_values import MissingKeys
from sinkql.connectors.postgres import slot
from sinkql.connectors.postgres.stream import PostgresStream

Mutant = Callable[[pytest.MonkeyPatch], None]


def no_hold(patch: pytest.MonkeyPatch) -> None:
    """Publish changes while a chunk is read, so that it follows changes that its transaction does not see."""
    add_chunks = CaptureSession.add_chunks

    def publish_and_add(self: CaptureSession) -> bool:
        if self.publisher.is_due(self.retention.sinks):
            self.publish()
        return add_chunks(self)

    patch.setattr(CaptureSession, "add_chunks", publish_and_add)


def no_visibility_test(patch: pytest.MonkeyPatch) -> None:
    """Read a chunk in a transaction that does not see all changes in the log."""
    start = TableSnapshotReader.start
    patch.setattr(TableSnapshotReader, "start", lambda self, is_ready, unseen: start(self, is_ready, []))


def no_visible_end(patch: pytest.MonkeyPatch) -> None:
    """Confirm changes that no snapshot sees yet; after a loss of the log, no capture knows them."""
    update = Publisher.update_visible

    def all_visible(self: Publisher) -> None:
        update(self)
        self.visible = self.log.to

    patch.setattr(Publisher, "update_visible", all_visible)


def no_read_through(patch: pytest.MonkeyPatch) -> None:
    """Do not read unchanged values from the server."""
    patch.setattr(Publisher, "_complete", lambda self, table, rows, ids: (rows, None))


def no_wait(patch: pytest.MonkeyPatch) -> None:
    """Read unchanged values in a snapshot that does not see the change."""
    complete = PostgresStream.complete
    patch.setattr(PostgresStream, "complete", lambda self, table, rows, ids: complete(self, table, rows, []))


def no_later_high(patch: pytest.MonkeyPatch) -> None:
    """Regard the table as complete although a value was not found or came from a later position."""
    complete = Publisher._complete
    patch.setattr(Publisher, "_complete", lambda self, table, rows, ids: (complete(self, table, rows, ids)[0], None))


def no_missing_keys(patch: pytest.MonkeyPatch) -> None:
    """Forget the rows that the server no longer had."""
    patch.setattr(MissingKeys, "add", lambda self, table, rows, until: None)


def no_reach(patch: pytest.MonkeyPatch) -> None:
    """Read chunks before the log has reached the sinks' positions again."""
    patch.setattr(SnapshotScheduler, "is_ready", lambda self, generation: True)
    read = CaptureSession.read_chunks

    def without_stops(self: CaptureSession) -> None:
        stops, self.receiver.stops = self.receiver.stops, []
        read(self)
        self.receiver.stops = stops

    patch.setattr(CaptureSession, "read_chunks", without_stops)


def no_beginning(patch: pytest.MonkeyPatch) -> None:
    """Begin a slot without waiting until all earlier transactions are visible."""

    def found(connection: object) -> int:
        return 0

    patch.setattr(slot, "_next_transaction", found)


MUTANTS: dict[str, Mutant] = {
    each.__name__: each
    for each in (
        no_hold, no_visibility_test, no_visible_end, no_read_through, no_wait, no_later_high, no_missing_keys, no_reach,
        no_beginning,
    )
}  # fmt: skip
