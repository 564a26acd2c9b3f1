"""Ports that are a test's own, for those who send to sources that listen there."""

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
    """Return one who sends to another port."""
    with held_ports(1) as (port,):
        yield Sender(port)
