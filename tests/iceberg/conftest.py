"""Catalogs for the tests of the Iceberg sink: local ones per test, and one real REST server per session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4
from zlib import crc32

import pytest

from support.lake import Lake
from support.seaweed import Seaweed, seaweed


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark two thirds of the tests with the REST server for `make soak`; all of them run with the local catalog."""
    given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    if given.get("any_lake") == "rest" and crc32(item.nodeid.partition("[")[0].encode()) % 3:
        item.add_marker(pytest.mark.soak)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    with seaweed(tmp_path_factory.mktemp("seaweed")) as running:
        yield running


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


@pytest.fixture(params=["sql", pytest.param("rest", marks=pytest.mark.server)])
def any_lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return Lake(tmp_path, request.getfixturevalue("server") if request.param == "rest" else None)


@pytest.fixture
def name() -> str:
    """Return a table name unique to this test, because the REST server is shared."""
    return f"t{uuid4().hex[:12]}"
