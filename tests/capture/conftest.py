"""Processes of captures and sinks, forked from a process with all imports, and an object store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.forking import Children, children_of
from support.seaweed import Seaweed, seaweed


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    with children_of("capture.child") as found:
        yield found


@pytest.fixture(scope="package")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    with seaweed(tmp_path_factory.mktemp("seaweed")) as running:
        yield running
