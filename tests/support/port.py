"""Ports of this machine that stay reserved for a server while it is down."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def held_ports(number: int) -> Iterator[list[int]]:
    """Reserve ports until the block ends, for servers that set SO_REUSEADDR, as most do.

    They stay bound, but only the server listens on them. Otherwise the system could give them to a client's connection
    or to another server while the server restarts.
    """
    with ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in held:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("127.0.0.1", 0))
        yield [each.getsockname()[1] for each in held]


def free_ports(number: int) -> list[int]:
    """Return unused ports."""
    with held_ports(number) as found:
        return found
