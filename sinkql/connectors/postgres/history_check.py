"""Transactions that were read last → whether a server still has them: one that was put back from a copy has others.

Its log has the same places after a while, with other changes. So the last transaction is asked for once more where the
slot would give it, and what comes is compared: where it commits, its number and its time.
"""

from __future__ import annotations

import struct
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from sinkql import codec
from sinkql.connector_api.cdc import LogFiles
from sinkql.errors import SinkqlError

_FILE = "standing.json"
_RECEIVED, _KEPT = 65_536, 16


class ReadHistory(msgspec.Struct, frozen=True, array_like=True):
    """A transaction: where its commit begins and ends in the server's log, when that was, and its number."""

    commit: int
    end: int
    at: int
    number: int


@dataclass(slots=True)
class ReadHistories:
    """What was received last, and what of it the `notes` have: the last one of each time that it is kept."""

    notes: LogFiles | None
    received: deque[ReadHistory] = field(default_factory=lambda: deque(maxlen=_RECEIVED))
    _noted: list[ReadHistory] | None = None

    def last(self, place: int) -> ReadHistory | None:
        """Return the last one up to a place, as far as it is known."""
        return next((each for each in reversed(self._known()) if each.end <= place), None)

    def save(self) -> None:
        """Take note of the last one that was received, durably; where that fails, the next time does it.

        Nothing but a comparison is lost by then. That another capture has taken over is told.
        """
        if self.notes is None or not self.received:
            return
        with suppress(SinkqlError, OSError):
            known, last = self._known(), self.received[-1]
            if not known or known[-1].end < last.end:
                noted = [*known, last][-_KEPT:]
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


class OtherServerError(Exception):
    """What stands at a place is not what was read there."""


_BEGIN, _COMMIT, _RELATION, _TYPE = b"BCRY"


@dataclass(slots=True)
class HistoryCheck:
    """Take messages from `wanted` on, and leave out what was read before `place`; `at` is where messages begin."""

    wanted: ReadHistory
    place: int
    at: int
    seen: bool = False
    _within: bool = False

    def accepts(self, data: bytes | memoryview) -> bool:
        """Tell whether a message is new; raises OtherServerError."""
        kind = data[self.at]
        if kind == _BEGIN:
            commit, at, number = struct.unpack_from(">qqI", data, self.at + 1)
            wanted = self.wanted
            if not self.seen and (commit, at, number) != (wanted.commit, wanted.at, wanted.number):
                raise OtherServerError
            self.seen = True
            self._within = commit < self.place
        if not self._within:
            return True
        self._within = kind != _COMMIT
        return kind in (_RELATION, _TYPE)  # which are sent once, for all that follows

    @property
    def is_skipping(self) -> bool:
        """Whether the last message is of a transaction that was read before."""
        return self._within

    def on_position(self, place: int) -> None:
        """Take note that the server has sent all up to a place; raises OtherServerError."""
        if not self.seen and place >= self.wanted.end:
            raise OtherServerError

    @property
    def is_done(self) -> bool:
        """Whether only new messages come."""
        return self.seen and not self._within
