"""Detect a server that was restored from a backup, by the last transaction that was read.

Its log reaches the same places after a while, with other changes. So the stream requests the last transaction once
more, if the slot still sends it, and compares the place of its commit, its id and its time.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import msgspec


class ReadTransaction(msgspec.Struct, frozen=True, array_like=True):
    """A transaction: the places before and after its commit in the server's log, its time and its id."""

    commit: int
    end: int
    at: int
    number: int


class OtherServerError(Exception):
    """The server does not have the transaction that was read at a place."""


_BEGIN, _COMMIT, _RELATION, _TYPE = b"BCRY"


@dataclass(slots=True)
class HistoryCheck:
    """Accepts messages from the `wanted` transaction on, and skips transactions that were read before `place`.

    `at` is the offset of a message in its packet.
    """

    wanted: ReadTransaction
    place: int
    at: int
    seen: bool = False
    _skips: bool = False

    def accepts(self, data: bytes | memoryview) -> bool:
        """Return whether a message is new; raise OtherServerError."""
        kind = data[self.at]
        if kind == _BEGIN:
            commit, at, number = struct.unpack_from(">qqI", data, self.at + 1)
            wanted = self.wanted
            if not self.seen and (commit, at, number) != (wanted.commit, wanted.at, wanted.number):
                raise OtherServerError
            self.seen = True
            self._skips = commit < self.place
        if not self._skips:
            return True
        self._skips = kind != _COMMIT
        return kind in (_RELATION, _TYPE)  # sent only once, for all later transactions too

    @property
    def is_skipping(self) -> bool:
        """Whether the last message belongs to a transaction that was read before."""
        return self._skips

    def on_position(self, place: int) -> None:
        """Record that the server has sent all changes up to a place; raise OtherServerError."""
        if not self.seen and place >= self.wanted.end:
            raise OtherServerError

    @property
    def is_done(self) -> bool:
        """Whether all further messages are new."""
        return self.seen and not self._skips
