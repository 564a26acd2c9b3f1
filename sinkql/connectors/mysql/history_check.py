"""Transactions that were read last → whether a server still has them: one that was put back from a copy has others.

Its transactions have the same numbers after a while, with other changes. So the log is asked for the last transaction
once more, and its id and time are compared.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from sinkql import codec
from sinkql.connector_api.cdc import LogFiles, Position
from sinkql.errors import SinkqlError

_FILE = "standing.json"
_RECEIVED, _KEPT = 65_536, 16


class ReadHistory(msgspec.Struct, frozen=True, array_like=True):
    """A transaction: the positions before and after it, its id, when it was, and the server that told that."""

    before: Position
    after: Position
    id: str
    at: int
    server: str = ""


@dataclass(slots=True)
class ReadHistories:
    """What was received last, and what of it the `notes` have: the last one of each time that it is kept."""

    notes: LogFiles | None
    received: deque[ReadHistory] = field(default_factory=lambda: deque(maxlen=_RECEIVED))
    _noted: list[ReadHistory] | None = None

    def last(self, position: Position) -> ReadHistory | None:
        """Return the last one up to a position, as far as it is known."""
        return next((each for each in reversed(self._known()) if each.after <= position), None)

    def save(self, server: str) -> None:
        """Take note of the last one that was received, durably; where that fails, the next time does it.

        Nothing but a comparison is lost by then. That another capture has taken over is told.
        """
        if self.notes is None or not self.received:
            return
        with suppress(SinkqlError, OSError):
            known, last = self._known(), self.received[-1]
            if not known or known[-1].after < last.after:
                noted = [*known, msgspec.structs.replace(last, server=server)][-_KEPT:]
                self.notes.note(_FILE, msgspec.json.encode(noted))
                self._noted = noted
            self.received.clear()

    def _known(self) -> list[ReadHistory]:
        if self._noted is None:
            data = self.notes.noted(_FILE) if self.notes is not None else None
            try:
                self._noted = [] if data is None else codec.decoder(list[ReadHistory]).decode(data)
            except msgspec.MsgspecError:
                self._noted = []
        return self._noted

    def clear(self) -> None:
        """Forget all: a user accepts what is lost."""
        self.received.clear()
        self._noted = []
        if self.notes is not None:
            self.notes.unnote(_FILE)
