"""Ports that are reserved for one test, and senders of requests to them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.port import held_ports
from webhook.sending import Sender


@pytest.fixture
def sender() -> Iterator[Sender]:
    with held_ports(1) as (port,):
        yield Sender(port)


@pytest.fixture
def other() -> Iterator[Sender]:
    """Yield a sender to another port."""
    with held_ports(1) as (port,):
        yield Sender(port)
