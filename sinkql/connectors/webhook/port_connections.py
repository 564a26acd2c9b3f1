"""The connections of one port: how many there are, what they hold, and who goes when there is no room.

One sender who opens connections and says nothing, or says it slowly, must not keep others out: those go first who have
sent next to nothing, then those who have never sent a whole request, then those who have been idle longest.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol

MOST_CONNECTIONS = 500
_TOLD_CONNECTIONS = 100
"""So many more are told that there are too many; others are closed at once, or they would use up all files."""
MOST_BYTES = 64 << 20
"""Of bodies that come at the same time; one may be longer, while others are short."""
_IDLE_SECONDS = 5.0
"""Whoever has sent a request is spared for so long after the last of what came."""
_SILENT_SHARE = 0.25
"""Of all connections, who may be silent while others go that have begun a request."""


class PortConnection(Protocol):
    """A connection: `held` bytes of a body of which more is to come, and when something came last (monotonic)."""

    held: int
    seen_at: float

    @property
    def is_waiting(self) -> bool:
        """Tell whether a whole request waits for its answer."""

    def abort(self) -> None:
        """Close it at once."""

    def shut(self) -> None:
        """Close it once it has the answers that are on their way."""

    def close_idle(self) -> None:
        """Give up what it holds."""


@dataclass(slots=True)
class PortConnections:
    """The connections of one port."""

    members: dict[PortConnection, None] = field(default_factory=dict)
    """In the order in which they came."""
    silent: dict[PortConnection, None] = field(default_factory=dict)
    """Those that have not sent a whole head yet."""
    begun: dict[PortConnection, None] = field(default_factory=dict)
    """Those that have sent a head, or shake hands, and have not sent a whole request yet."""
    arriving: dict[PortConnection, None] = field(default_factory=dict)
    """Those that are not served yet."""
    bytes: int = 0
    gone: bool = False
    """Whether the port is closed: whoever was on the way to it comes again."""

    @property
    def is_full(self) -> bool:
        """Tell whether there are more than are served."""
        return len(self.members) - len(self.arriving) > MOST_CONNECTIONS

    def arrive(self, member: PortConnection) -> None:
        """Count a connection that was accepted."""
        self.members[member] = self.silent[member] = self.arriving[member] = None

    def begin(self, member: PortConnection) -> None:
        """Say that a connection that was accepted begins to be served."""
        self.silent.pop(member, None)
        self.begun[member] = None

    def enter(self, member: PortConnection) -> None:
        """Count a connection that is served."""
        self.members[member] = self.begun[member] = None

    def leave(self, member: PortConnection) -> None:
        """Count it no more."""
        for each in (self.members, self.silent, self.begun, self.arriving):
            each.pop(member, None)

    def mark_active(self, member: PortConnection) -> None:
        """Say that a connection has sent a whole request."""
        self.begun.pop(member, None)

    def evict_one(self) -> bool:
        """Close a connection where there is no room for another one; return False where the other one must go."""
        if self.gone:
            return False
        if len(self.members) < MOST_CONNECTIONS:
            return True
        first = self._first()
        if first is None:
            return len(self.members) < MOST_CONNECTIONS + _TOLD_CONNECTIONS
        self.leave(first)
        first.abort()
        return True

    def _first(self) -> PortConnection | None:
        """Return who goes first.

        Few who are silent stay: where others hold all places with half a request, whoever has just come has time for
        one.
        """
        if self.silent and (len(self.silent) > MOST_CONNECTIONS * _SILENT_SHARE or not self.begun):
            return next(iter(self.silent))
        if self.begun:
            return next(iter(self.begun))
        before = time.monotonic() - _IDLE_SECONDS
        idle = (each for each in self.members if not each.is_waiting and each.seen_at < before)
        return min(idle, key=lambda each: each.seen_at, default=None)

    def largest(self) -> PortConnection:
        """Return who holds most."""
        return max(self.members, key=lambda each: each.held)
