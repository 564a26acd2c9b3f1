"""A real S3 for all tests that store state in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.seaweed import Seaweed, seaweed


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    with seaweed(tmp_path_factory.mktemp("seaweed")) as running:
        yield running
