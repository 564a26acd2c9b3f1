"""Ports of this machine that stay a server's own while it is away: nobody else is given them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def held_ports(number: int) -> Iterator[list[int]]:
    """Give ports until the block ends, to servers that set SO_REUSEADDR, as most do.

    They are bound all the time, and nothing listens on them but such a server: as what a client connects from, or as
    another server's port, the system would give a free one away between a server's end and its next start.
    """
    with ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in held:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("127.0.0.1", 0))
        yield [each.getsockname()[1] for each in held]


def free_ports(number: int) -> list[int]:
    """Return ports that nothing listens on."""
    with held_ports(number) as found:
        return found
