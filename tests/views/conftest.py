"""What judges random queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from views.random_case import Judge

if TYPE_CHECKING:
    from support.postgres import Postgres


@pytest.fixture
def judge(postgres: Postgres) -> Iterator[Judge]:
    """Connect to a database of which nothing stays."""
    with postgres.connect() as connection:
        yield connection
