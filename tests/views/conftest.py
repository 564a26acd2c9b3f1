"""The Postgres server that checks the results of random queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from views.random_case import Oracle

if TYPE_CHECKING:
    from support.postgres import Postgres


@pytest.fixture
def oracle(postgres: Postgres) -> Iterator[Oracle]:
    """Yield a connection; the tests create only temporary tables on it."""
    with postgres.connect() as connection:
        yield connection
