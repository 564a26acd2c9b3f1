"""Options, hooks and fixtures of the test run."""

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
"""Seconds; less than `faulthandler_timeout`."""
_FILES = 16_384
_FROZEN_EVERY = 300
_COLLECTED_AFTER = (20_000, 20, 50)
"""Python's thresholds of garbage collection are (700, 10, 10)."""
_finished = itertools.count(1)
_cases: Counter[str] = Counter()
"""The number of collected cases of each test."""
_ROOM = 4 << 30
"""Bytes of free memory to require; a run's folders need a tenth of it if pytest deletes those of passed tests."""


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write the output of the golden files' commands into the files instead of comparing it",
    )
    parser.addoption(
        "--rewrite-plans",
        action="store_true",
        help="write the plan hashes into tests/planner/plans.txt instead of comparing them",
    )
    parser.addoption("--lower", action="store_true", help="lower the ceilings of tests/prose to the present counts")
    parser.addoption("--cover", action="store_true", help="print the coverage of sinkql, and fail if it is too low")
    parser.addoption("--cpu", action="store_true", help="print where the CPU of the run went, by folder of tests")
    config = pluginmanager.get_plugin("pytestconfig")
    assert isinstance(config, pytest.Config)
    # before the folders' conftest.py import the measured modules; a worker gets its options before it imports any
    if "--cover" in config.invocation_params.args or config.getoption("cover", False):
        from support.covered import Measured

        pluginmanager.register(Measured(config))


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("cpu"):
        from support.cpu_account import CpuAccount

        config.pluginmanager.register(CpuAccount(config))
    gc.disable()  # during collection, which creates hardly any garbage
    _let_programs_be_interrupted()
    _let_files_be_open()
    _have_the_same_examples()
    _have_folders_in_memory()
    _have_spark_start_fast()
    _have_bytecode_kept()


def _let_programs_be_interrupted() -> None:
    """Make Ctrl-C reach the processes of tests even if a shell runs the tests in the background and ignores it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _let_files_be_open() -> None:
    """Raise the limit of open files, since tests that stop sinks abruptly, as a crash does, leave files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and soft < min(hard, _FILES):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, _FILES), hard))


def _have_the_same_examples() -> None:
    """Make Hypothesis generate the same examples in each run; the profile "random", for `make soak`, varies them."""
    timeless = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a machine may be slow
    settings.register_profile("same", timeless, derandomize=True)
    settings.register_profile("random", timeless, derandomize=False)
    settings.load_profile("same")


def _have_folders_in_memory() -> None:
    """Put the tests' folders into memory if there is room: half of the run would be waiting for the disk to sync."""
    if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK):
        found = os.statvfs(_MEMORY)
        if found.f_bavail * found.f_frsize >= _ROOM and not found.f_flag & os.ST_NOEXEC:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


def _have_spark_start_fast() -> None:
    """Disable JVM optimizations that pay only after minutes, and the background process that archives classes."""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
    os.environ.setdefault("SINKQL_ARCHIVE", "off")


def _have_bytecode_kept() -> None:
    """Write compiled modules also where the environment disables it: hundreds of processes would compile them again."""
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark all but a share of a test's cases for `make soak`: each block of `share` cases keeps one, in turn."""
    share = item.get_closest_marker("share")
    if share is not None:
        test = item.nodeid.partition("[")[0]
        block, place = divmod(_cases[test], share.args[0])
        _cases[test] += 1
        if place != block % share.args[0]:
            item.add_marker(pytest.mark.soak)


class _Rotated(pytest.Package):
    """A folder whose files each worker of a run begins to import at another place.

    In a new checkout, each file is compiled by the worker that comes first, and not by all of them at a time.
    """

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        found = list(super().collect())
        worker = self.config.workerinput  # type: ignore[attr-defined]  # of pytest-xdist
        first = len(found) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        return found[first:] + found[:first]


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Make the workers begin at different files of a folder."""
    if hasattr(parent.config, "workerinput") and (path / "__init__.py").is_file():
        return _Rotated.from_parent(parent, path=path)
    return None


@pytest.hookimpl(trylast=True)  # after -k and -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order tests for the workers; tests of `make soak` have twice the time."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.path)  # all workers must have the same order
    for item in items:
        if item.get_closest_marker("soak") is not None:
            item.add_marker(pytest.mark.timeout(_SOAK_S))
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    items[:] = [item for share in _shares(items, workers) for item in share]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Exempt the objects that all tests share from garbage collection, and collect seldom.

    Otherwise, collections would take a seventh of the time.
    """
    gc.freeze()
    gc.set_threshold(*_COLLECTED_AFTER)
    gc.enable()


def pytest_runtest_logfinish() -> None:
    """Exempt newer long-lived objects too, such as modules of libraries, now and then."""
    if next(_finished) % _FROZEN_EVERY == 0:
        gc.collect()
        gc.freeze()


def _shares(items: list[pytest.Item], workers: int) -> list[list[pytest.Item]]:
    """Order tests for `--dist worksteal`: workers begin with equal shares, then steal from the ends of others' shares.

    The first share begins with all tests of the shared Spark session, the last with all that start Spark processes, so
    that neither kind runs twice at a time. Long tests come next, and the tests of a file stay together.
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
    """Close Kafka clients: they try to reach stopped brokers as long as they exist."""
    yield
    for module, kept in (("admin", "_admin"), ("consumer", "_consumers")):
        known = sys.modules.get(f"sinkql.connectors.kafka.{module}")
        if known is not None and getattr(known, kept).cache_info().currsize:
            getattr(known, kept).cache_clear()
            gc.collect()


@pytest.fixture(scope="session", autouse=True)
def folder_of_temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Put temporary files of all processes, even of killed ones, into the run's folders, which pytest deletes.

    The name is short: servers put sockets into the folder, and a socket's path has at most 107 bytes.
    """
    folder = tmp_path_factory.getbasetemp() / "t"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", None)
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start a local Spark session, with the settings of sinks, for all tests that need one."""
    from sinkql.runtime.spark.session import start, stop
    from sinkql.runtime.spark.settings import SparkSettings

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
    """Run one Postgres server for all tests; each test creates its own database."""
    from support.postgres import postgres

    with postgres() as server:
        yield server


@pytest.fixture
def postgres_database(postgres: Postgres) -> Iterator[str]:
    """Create a database for the test, and drop it afterwards with its replication slots."""
    name = postgres.database()
    yield name
    postgres.drop(name)


@pytest.fixture(autouse=True)
def no_spark_left() -> Iterator[None]:
    """Fail a test that leaves Spark running: the shared session could not start after it."""
    yield
    found = sys.modules.get("pyspark")
    context = None if found is None else found.SparkContext._active_spark_context
    assert context is None or context.appName == "sinkql", f"{context.appName} is left running"


@pytest.fixture(autouse=True)
def no_file_left() -> Iterator[None]:
    """Fail a test that leaves a file or a catalog in the repository: its files belong in its own folder."""
    before = _files()
    yield
    assert _files() == before


def _files() -> list[str]:
    return sorted(name for name in os.listdir(_REPOSITORY) if name == ".sinkql" or not name.startswith("."))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the scores of tests, then the number of skipped tests by reason."""
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            if name == "score":
                terminalreporter.write_line(str(value))
    why = Counter(str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", []))
    for reason, number in sorted(why.items()):
        tests = "test" if number == 1 else "tests"
        terminalreporter.write_line(f"{number} {tests} did not run. {reason.removeprefix('Skipped: ')}", yellow=True)
