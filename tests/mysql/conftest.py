"""One server per worker; each test has a separate database."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from support.mariadb import MariaDb, mariadb

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb(tmp_path_factory.mktemp("maria")) as found:
        yield found


@pytest.fixture
def database(server: MariaDb) -> Iterator[str]:
    name = f"d{next(_NUMBERS)}"
    server.run(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    yield name
    server.run(f"DROP DATABASE {name}")
