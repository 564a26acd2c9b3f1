"""Options of the test run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what the golden files' commands give into the files, instead of comparing",
    )


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start one local Spark session, as sinks have it, for all tests that need one."""
    from sinkql.runtime.spark import Settings, start, stop

    folder = tmp_path_factory.mktemp("spark")
    session = start(Settings(master="local[2]", conf={"spark.sql.shuffle.partitions": "2"}, folder=folder))
    yield session
    stop(session)
