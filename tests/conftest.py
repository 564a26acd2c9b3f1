"""Options of the test run."""

from __future__ import annotations

import gc
import itertools
import os
import resource
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.postgres import Postgres

pytest_plugins = ["pytester"]
_REPOSITORY = Path(__file__).parents[1]
_KINDS = ("spark", "slow", "long", "")
_MEMORY = Path("/dev/shm")
_SOAK_S = 1700
"""Less than `faulthandler_timeout`."""
_FILES = 16_384
_FROZEN_EVERY = 300
_finished = itertools.count(1)
_cases: Counter[str] = Counter()
"""How many cases of each test were collected."""
_ROOM = 4 << 30
"""Bytes; a run's folders hold a tenth of it, where those of tests that passed go."""


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
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
    parser.addoption(
        "--lower", action="store_true", help="lower the ceilings of tests/prose to what the texts and names have now"
    )
    parser.addoption("--cover", action="store_true", help="print which lines of sinkql ran, and fail if they are few")
    config = pluginmanager.get_plugin("pytestconfig")
    assert isinstance(config, pytest.Config)
    # before the folders' own conftest.py import what is measured; a worker has its options before it reads any
    if "--cover" in config.invocation_params.args or config.getoption("cover", False):
        from support.covered import Measured

        pluginmanager.register(Measured(config))


def pytest_configure() -> None:
    gc.disable()  # while tests are collected: hardly anything goes then
    _let_programs_be_interrupted()
    _let_files_be_open()
    _have_the_same_examples()
    _have_folders_in_memory()
    _have_spark_start_fast()


def _let_programs_be_interrupted() -> None:
    """Have Ctrl-C reach what tests start also where a shell runs them in the background, which ignores it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _let_files_be_open() -> None:
    """Have room for what tests leave open that end sinks in their midst, as if they were killed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and soft < min(hard, _FILES):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, _FILES), hard))


def _have_the_same_examples() -> None:
    """Have Hypothesis make the same examples in each run; others with the profile "random", as `make soak` has it."""
    timeless = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a machine may be slow
    settings.register_profile("same", timeless, derandomize=True)
    settings.register_profile("random", timeless, derandomize=False)
    settings.load_profile("same")


def _have_folders_in_memory() -> None:
    """Have the tests' folders in memory, if it may be: half of their time would go by waiting for a disk to sync."""
    if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK):
        found = os.statvfs(_MEMORY)
        if found.f_bavail * found.f_frsize >= _ROOM and not found.f_flag & os.ST_NOEXEC:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


def _have_spark_start_fast() -> None:
    """Leave out what pays after minutes only; no test leaves a process that makes an archive of classes."""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
    os.environ.setdefault("SINKQL_ARCHIVE", "off")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Leave to `make soak` all cases of a test but a share: the first, and one in so many, in turn of each value."""
    share = item.get_closest_marker("share")
    if share is not None:
        test = item.nodeid.partition("[")[0]
        block, place = divmod(_cases[test], share.args[0])
        _cases[test] += 1
        if place != block % share.args[0]:
            item.add_marker(pytest.mark.soak)


@pytest.hookimpl(trylast=True)  # after -k and -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order tests for the workers; those of `make soak` have twice the time."""
    for item in items:
        if item.get_closest_marker("soak") is not None:
            item.add_marker(pytest.mark.timeout(_SOAK_S))
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    items[:] = [item for share in _shares(items, workers) for item in share]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave what all tests share out of Python's collections of garbage: a tenth of the time went by looking there."""
    gc.freeze()
    gc.enable()


def pytest_runtest_logfinish() -> None:
    """Do so now and then with what has come since, as modules of libraries."""
    if next(_finished) % _FROZEN_EVERY == 0:
        gc.collect()
        gc.freeze()


def _shares(items: list[pytest.Item], workers: int) -> list[list[pytest.Item]]:
    """Order tests as `--dist worksteal` hands them out: a worker has one of equal shares, then takes of another's end.

    The first begins with all tests of the shared Spark session, the last with all that start Spark processes, so that
    there are never two of either; after them come long ones, and each file's tests stay together.
    """
    kinds = {item: _kind(item) for item in items}
    shares: list[list[pytest.Item]] = [[] for _ in range(workers)]
    ordered = sorted(items, key=lambda item: _KINDS.index(kinds[item]))
    for (kind, _), group in itertools.groupby(ordered, key=lambda item: (kinds[item], item.path)):
        match kind:
            case "spark":
                share = shares[0]
            case "slow":
                share = shares[-1]
            case _:
                share = min(shares, key=len)
        share.extend(group)
    sizes = [(len(items) + number) // workers for number in range(workers)]
    spare = [item for share, size in zip(shares, sizes, strict=True) for item in share[size:]]
    filled = []
    for share, size in zip(shares, sizes, strict=True):
        room = max(size - len(share), 0)
        filled.append(share[:size] + spare[:room])
        del spare[:room]
    return filled


def _kind(item: pytest.Item) -> str:
    return next((kind for kind in _KINDS if item.get_closest_marker(kind) is not None), "")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run of CI in which a test was skipped."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="module", autouse=True)
def _clients_of_stopped_brokers() -> Iterator[None]:
    """Let go of Kafka's clients, which try to reach their brokers for as long as they are there."""
    yield
    for module, kept in (("admin", "_admin"), ("consumer", "_consumers")):
        known = sys.modules.get(f"sinkql.connectors.kafka.{module}")
        if known is not None and getattr(known, kept).cache_info().currsize:
            getattr(known, kept).cache_clear()
            gc.collect()


@pytest.fixture(scope="session", autouse=True)
def folder_of_temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have what processes leave in the temporary folder, killed ones above all, go with the run's own folders.

    Its name is short: servers have sockets in it, whose paths have at most 107 bytes.
    """
    folder = tmp_path_factory.getbasetemp() / "t"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", None)
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start one local Spark session, as sinks have it, for all tests that need one."""
    from sinkql.runtime.spark.session import SparkSettings, start, stop

    folder = tmp_path_factory.mktemp("spark")
    theirs = folder / "theirs.conf"
    theirs.write_text("spark.sql.caseSensitive false\nspark.ui.showConsoleProgress true\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "PYSPARK_SUBMIT_ARGS",
            f"--properties-file {theirs} --conf spark.sql.ansi.enabled=false --master yarn --deploy-mode cluster "
            "pyspark-shell",
        )
        session = start(SparkSettings(master="local[2]", conf={"spark.sql.shuffle.partitions": "2"}, folder=folder))
    yield session
    stop(session)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Run one Postgres server for all tests; each makes a database of its own in it."""
    from support.postgres import postgres

    with postgres() as server:
        yield server


@pytest.fixture
def postgres_database(postgres: Postgres) -> Iterator[str]:
    """Make a database of this test's own, which goes with its replication slots."""
    name = postgres.database()
    yield name
    postgres.drop(name)


@pytest.fixture(autouse=True)
def no_spark_left() -> Iterator[None]:
    """Fail a test that leaves a Spark running: the shared session could not start after it."""
    yield
    found = sys.modules.get("pyspark")
    context = None if found is None else found.SparkContext._active_spark_context
    assert context is None or context.appName == "sinkql", f"{context.appName} is left running"


@pytest.fixture(autouse=True)
def no_file_left() -> Iterator[None]:
    """Fail a test that leaves a file in the repository, or a catalog: what it makes goes into its own folder."""
    before = _files()
    yield
    assert _files() == before


def _files() -> list[str]:
    return sorted(name for name in os.listdir(_REPOSITORY) if name == ".sinkql" or not name.startswith("."))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the scores that tests give, and at last how many tests did not run, and why."""
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            if name == "score":
                terminalreporter.write_line(str(value))
    why = Counter(str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", []))
    for reason, number in sorted(why.items()):
        tests = "test" if number == 1 else "tests"
        terminalreporter.write_line(f"{number} {tests} did not run. {reason.removeprefix('Skipped: ')}", yellow=True)
