"""Record the last transactions that a capture read, to detect a server that was restored from a backup.

Such a server reaches the same positions again, with other changes. So a stream requests the last recorded transaction
once more, and compares it.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from sinkql import codec
from sinkql.connector_api.cdc import LogFiles
from sinkql.errors import SinkqlError

_FILE = "standing.json"
_MOST_RECEIVED, _MOST_RECORDED = 65_536, 16


class PositionedTransaction(Protocol):
    """A transaction of a server."""

    @property
    def end(self) -> Any:
        """The position after the transaction; positions of one server can be compared."""


_Transaction = TypeVar("_Transaction", bound=PositionedTransaction)


@dataclass(slots=True)
class ReadHistory(Generic[_Transaction]):
    """The transactions that a stream received, and the recorded ones in the `notes`: the last one at each `save`.

    `kind` is the struct of a transaction.
    """

    kind: type[_Transaction]
    notes: LogFiles | None
    received: deque[_Transaction] = field(default_factory=lambda: deque(maxlen=_MOST_RECEIVED))
    _recorded: list[_Transaction] | None = None

    def last(self, position: Any) -> _Transaction | None:
        """Return the last recorded transaction up to a position, if there is one."""
        return next((transaction for transaction in reversed(self._load()) if transaction.end <= position), None)

    def save(self) -> None:
        """Record the last received transaction durably.

        A failed write is repeated by the next call: only a comparison is lost until then. A fenced log raises.
        """
        if self.notes is None or not self.received:
            return
        with suppress(SinkqlError, OSError):
            recorded, last = self._load(), self.received[-1]
            if not recorded or recorded[-1].end < last.end:
                present = [*recorded, last][-_MOST_RECORDED:]
                self.notes.note(_FILE, msgspec.json.encode(present))
                self._recorded = present
            self.received.clear()

    def _load(self) -> list[_Transaction]:
        if self._recorded is None:
            data = self.notes.noted(_FILE) if self.notes is not None else None
            try:
                decoder = codec.decoder(list[self.kind])  # type: ignore[name-defined]  # the struct at run time
                self._recorded = [] if data is None else decoder.decode(data)
            except msgspec.MsgspecError:
                self._recorded = []
        return self._recorded

    def clear(self) -> None:
        """Delete all transactions, after the user accepted a loss."""
        self.received.clear()
        self._recorded = []
        if self.notes is not None:
            self.notes.unnote(_FILE)
