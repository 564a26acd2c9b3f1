"""One broker for all tests of a worker, whose topics have names of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka.pipeline import Pipeline
from support.kafka import Kafka, kafka


@pytest.fixture(scope="session")
def broker() -> Iterator[Kafka]:
    with kafka() as found:
        yield found


@pytest.fixture
def pipeline(broker: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipeline]:
    """Return a catalog with connections to the broker and to a lake."""
    monkeypatch.chdir(tmp_path)
    with Pipeline.at(broker, tmp_path) as found:
        yield found
