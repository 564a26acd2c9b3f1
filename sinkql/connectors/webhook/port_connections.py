"""Count the connections of one port and the bytes that they hold, and choose which to close when there are too many.

A sender that opens connections and sends little must not keep other senders out. Connections that have sent almost
nothing are closed first. Connections that never sent a whole request follow, then the longest idle ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from sinkql.machine import clock

MOST_CONNECTIONS = 500
_ANSWERED_CONNECTIONS = 100
"""Connections above the limit that get an answer; more are closed immediately, or they would use up all files."""
MOST_BYTES = 64 << 20
"""The most bytes of bodies that arrive at the same time. One body may be longer if all others are short."""
_IDLE_SECONDS = 5.0
"""A connection that has sent a request is spared for that time after its last bytes."""
_SILENT_SHARE = 0.25
"""The share of silent connections that is spared while other connections have begun a request."""


class PortConnection(Protocol):
    """A connection; `seen_at` is the time of its last bytes (monotonic)."""

    seen_at: float

    @property
    def held(self) -> int:
        """Return the size of the body that is still arriving."""

    @property
    def is_waiting(self) -> bool:
        """Return whether a whole request waits for its answer."""

    def abort(self) -> None:
        """Close it immediately."""

    def shut(self) -> None:
        """Close it after pending answers were sent."""

    def close_idle(self) -> None:
        """Release the held bytes."""


@dataclass(slots=True)
class PortConnections:
    """The connections of one port."""

    members: dict[PortConnection, None] = field(default_factory=dict)
    """In the order of their arrival."""
    silent: dict[PortConnection, None] = field(default_factory=dict)
    """Connections without a complete head."""
    begun: dict[PortConnection, None] = field(default_factory=dict)
    """Connections with a head or in a TLS handshake, but without a whole request."""
    arriving: dict[PortConnection, None] = field(default_factory=dict)
    """Connections that are not served yet."""
    bytes: int = 0
    is_closed: bool = False
    """Whether the port is closed; a sender that was about to connect retries."""

    @property
    def is_full(self) -> bool:
        """Return whether more connections exist than are served."""
        return len(self.members) - len(self.arriving) > MOST_CONNECTIONS

    def arrive(self, member: PortConnection) -> None:
        """Add an accepted connection."""
        self.members[member] = self.silent[member] = self.arriving[member] = None

    def begin(self, member: PortConnection) -> None:
        """Note that an accepted connection is now being served."""
        self.silent.pop(member, None)
        self.begun[member] = None

    def enter(self, member: PortConnection) -> None:
        """Add a connection that is served."""
        self.members[member] = self.begun[member] = None

    def leave(self, member: PortConnection) -> None:
        """Remove a connection."""
        for group in (self.members, self.silent, self.begun, self.arriving):
            group.pop(member, None)

    def mark_active(self, member: PortConnection) -> None:
        """Note that a connection has sent a whole request."""
        self.begun.pop(member, None)

    def evict_one(self) -> bool:
        """Make room for another connection; return whether there is room."""
        if self.is_closed:
            return False
        if len(self.members) < MOST_CONNECTIONS:
            return True
        first = self._first_to_close()
        if first is None:
            return len(self.members) < MOST_CONNECTIONS + _ANSWERED_CONNECTIONS
        self.leave(first)
        first.abort()
        return True

    def _first_to_close(self) -> PortConnection | None:
        """Return the connection to close first.

        Few silent connections are spared: if connections with half a request fill the port, a new one still has time to
        send.
        """
        if self.silent and (len(self.silent) > MOST_CONNECTIONS * _SILENT_SHARE or not self.begun):
            return next(iter(self.silent))
        if self.begun:
            return next(iter(self.begun))
        before = clock.monotonic() - _IDLE_SECONDS
        idle = (member for member in self.members if not member.is_waiting and member.seen_at < before)
        return min(idle, key=lambda member: member.seen_at, default=None)

    def largest(self) -> PortConnection:
        """Return the connection that holds the most bytes."""
        return max(self.members, key=lambda member: member.held)
