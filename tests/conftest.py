"""Options of the test run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest_plugins = ["pytester"]
_REPOSITORY = Path(__file__).parents[1]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what the golden files' commands give into the files, instead of comparing",
    )
    parser.addoption(
        "--rewrite-plans",
        action="store_true",
        help="write the hashes that plans have into tests/planner/plans.txt, instead of comparing",
    )


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests of the shared Spark session on one worker, and those that start whole processes on one.

    Long ones run without the coverage's tracer, which would make them three times as long.
    """
    for item in items:
        if item.get_closest_marker("long") is not None:
            item.add_marker(pytest.mark.no_cover)
        for mark, group in (("spark", "spark"), ("slow", "process")):
            if item.get_closest_marker(mark) is not None:
                item.add_marker(pytest.mark.xdist_group(group))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run of CI in which a test was skipped."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start one local Spark session, as sinks have it, for all tests that need one."""
    from sinkql.runtime.spark.session import SparkSettings, start, stop

    folder = tmp_path_factory.mktemp("spark")
    session = start(SparkSettings(master="local[2]", conf={"spark.sql.shuffle.partitions": "2"}, folder=folder))
    yield session
    stop(session)


@pytest.fixture(autouse=True)
def no_spark_left() -> Iterator[None]:
    """Fail a test that leaves a Spark running: the shared session could not start after it."""
    yield
    found = sys.modules.get("pyspark")
    context = None if found is None else found.SparkContext._active_spark_context
    assert context is None or context.appName == "sinkql", f"{context.appName} is left running"


@pytest.fixture(autouse=True)
def no_file_left() -> Iterator[None]:
    """Fail a test that leaves a file in the repository: what it makes goes into its own folder."""
    before = _files()
    yield
    assert _files() == before


def _files() -> list[str]:
    return sorted(name for name in os.listdir(_REPOSITORY) if not name.startswith("."))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the scores that tests give."""
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            if name == "score":
                terminalreporter.write_line(str(value))
