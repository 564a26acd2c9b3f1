"""One broker for all tests of a worker; each test uses different topics."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from kafka.pipeline import Pipeline
from support.forking import Children, children_of
from support.kafka import Kafka, kafka


@pytest.fixture(scope="session")
def broker() -> Iterator[Kafka]:
    with kafka() as found:
        yield found


@pytest.fixture(scope="session")
def children() -> Iterator[Children]:
    """Start the process that forks for each run of a sink."""
    with children_of("kafka.child") as found:
        yield found


@pytest.fixture
def pipeline(broker: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipeline]:
    """Return a catalog with connections to the broker and to a lake."""
    monkeypatch.chdir(tmp_path)
    with Pipeline.at(broker, tmp_path) as found:
        yield found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the state of the broker to the report of a failed test, which has often waited for the broker."""
    report = yield
    server = getattr(item, "funcargs", {}).get("broker")
    if report.failed and isinstance(server, Kafka):
        report.sections.append(("broker", server.account()))
    return report
