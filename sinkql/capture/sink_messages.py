"""The messages between one sink and the capture of its table: requests and positions, the capture's errors."""

from __future__ import annotations

from dataclasses import dataclass

from sinkql.capture import messages
from sinkql.capture.log import LogDirectory
from sinkql.connector_api.cdc import CapturedTable
from sinkql.connector_api.stream import FirstSnapshot
from sinkql.errors import SinkqlError
from sinkql.machine import clock

_PATIENCE_SECONDS = 60.0
_OTHER_HOST_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class SinkMessages:
    """What a sink sends to the capture of its table, and what the capture replies.

    `name` is the source's. Errors of the capture from before `since` count as fixed.
    """

    name: str
    sink_id: str
    log: LogDirectory
    table: CapturedTable
    since: float

    @property
    def reader(self) -> str:
        """Return the name of the sink and table in messages."""
        return messages.reader_name(self.sink_id, self.table.id)

    # --- the sink's position -----------------------------------------------------------------------------------------

    def position(self) -> messages.ReaderPosition | None:
        """Return the position that the sink sent last."""
        position: messages.ReaderPosition | None = messages.receive(
            self.log.messages, f"at/{self.reader}", messages.ReaderPosition
        )
        return position

    def send_position(self, position: messages.ReaderPosition) -> None:
        """Send the sink's position."""
        messages.send(self.log.messages, f"at/{self.reader}", position)

    # --- snapshots ---------------------------------------------------------------------------------------------------

    def has_request(self) -> bool:
        """Return whether the sink waits for a generation of its table."""
        return self.log.messages.read(f"want/{self.reader}") is not None

    def request_snapshot(self, columns: tuple[tuple[str, str], ...]) -> None:
        """Request a generation of the table with some columns, or the whole log if rows are pushed."""
        request = messages.SnapshotRequest(self.table.id, self.table.pushed, columns)
        if messages.receive(self.log.messages, f"want/{self.reader}", messages.SnapshotRequest) != request:
            messages.send(self.log.messages, f"want/{self.reader}", request)

    def remove_request(self) -> None:
        """Remove the request for a generation."""
        self.log.messages.remove(f"want/{self.reader}")

    def joinable_entry(self) -> int | None:
        """Return the entry at which the capture lets the sink join a generation."""
        status = messages.status(self.log.messages)
        return status.joinable.get(self.reader) if status is not None else None

    def snapshot_progress(self) -> FirstSnapshot:
        """Return the progress of the table's initial snapshot."""
        message = messages.receive(self.log.messages, "snapshots", messages.Snapshots)
        progress = message.tables.get(self.table.id) if message is not None else None
        if progress is None:
            return FirstSnapshot()
        return FirstSnapshot(
            progress.rows,
            progress.of_rows,
            progress.chunks,
            progress.of_chunks,
            seconds_left=progress.seconds_left,
        )

    # --- losses ------------------------------------------------------------------------------------------------------

    def accepted_loss(self) -> messages.LossAcceptance | None:
        """Return the user's acceptance of what this sink has lost."""
        acceptance: messages.LossAcceptance | None = messages.receive(
            self.log.messages, f"skip/{self.reader}", messages.LossAcceptance
        )
        return acceptance

    def remove_request_and_acceptance(self) -> None:
        """Remove the request and the accepted loss after a commit."""
        self.log.messages.remove(f"want/{self.reader}", f"skip/{self.reader}")

    def report_damage(self, log: str, file: str) -> None:
        """Report a damaged data file of a log."""
        messages.send(self.log.messages, "damaged", messages.DamagedFileReport(log, file))

    # --- the capture's state -----------------------------------------------------------------------------------------

    def request_end(self) -> messages.EndReply:
        """Return the server's end. Raises the capture's error, or SQ3431 if it does not reply."""
        reply = messages.request_end(self.log.messages, self.table.id, patience=_PATIENCE_SECONDS)
        if reply is not None:
            return reply
        failing = messages.failure(self.log.messages, self.table.id, self.since)
        if failing is not None:
            raise failing[0]
        raise SinkqlError(
            "SQ3431",
            f'the process that captures the source of "{self.name}" does not answer',
            hint="Check whether the machine or the server is overloaded. The sink keeps retrying.",
        )

    def check_capture(self, *, is_patient: bool) -> None:
        """Raise the capture's error; if `is_patient`, a retryable one only after a minute."""
        failing = messages.failure(self.log.messages, self.table.id, self.since)
        if failing is None:
            return
        error, failing_since = failing
        patience = _PATIENCE_SECONDS if is_patient else 0.0
        if not error.retryable or clock.time() >= failing_since + patience:
            raise error

    def check_location(self) -> None:
        """Raise SQ3444 if another machine has had the log for a while."""
        status = messages.status(self.log.messages)
        if status is None or status.where in ("", self.log.location):
            return
        if clock.time() < self.since + _OTHER_HOST_SECONDS or self.log.numbers():
            return
        raise SinkqlError(
            "SQ3444",
            f'the log of "{self.name}" is on another host',
            detail=f"The log is in {status.where}.",
            hint="Run the sink on that host, or stop the processes there. To share the log between hosts, create the "
            "source WITH (LOG = …), or IN CLUSTER of a cluster with STATE.",
        )
