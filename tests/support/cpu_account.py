"""Where the CPU of a test run goes: by folder of tests, by file, and by kind of process.

A sampling thread of each pytest process reads the CPU times of its descendants. What a process used after its last
sample is missing, so the sums are lower bounds. Servers that several tests share are charged to the file whose test
runs at the moment.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

_EVERY_S = 0.25
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_SERVERS = ("postgres", "mysqld", "mariadbd", "kafka.Kafka", "/weed", "minio", "registry", "keycloak", "vault", "sshd")
KINDS = ("pytest", "sinkql", "Spark's Java", "Spark's Python", "servers", "other")
_WALL = "wall"
_LISTED_FILES = 60


def kind_of(command: str) -> str:
    """Return the kind of a process with this command line."""
    if "org.apache.spark" in command:
        return "Spark's Java"
    if "spark.daemon" in command or "pyspark.daemon" in command:
        return "Spark's Python"
    if any(server in command for server in _SERVERS):
        return "servers"
    if any(program in command for program in ("-m sinkql", "bin/sinkql", "support.fork_server", "fork_order.py")):
        return "sinkql"
    return "other"


class CpuAccount:
    """A pytest plugin that prints the table at the end of a run; in a worker of xdist it sends its part."""

    def __init__(self, config: pytest.Config) -> None:
        self._output: dict[str, Any] | None = getattr(config, "workeroutput", None)
        self._seconds: defaultdict[str, defaultdict[str, float]] = defaultdict(_nothing)
        self._file = "between tests"
        self._seen: dict[tuple[int, int], float] = {}
        self._kinds: dict[tuple[int, int], str] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        if self._output is not None or not config.getoption("numprocesses", None):  # the workers count themselves
            threading.Thread(target=self._sample, name="cpu", daemon=True).start()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        began = time.monotonic()
        with self._lock:
            self._take()
            self._file = item.path.relative_to(item.config.rootpath / "tests").as_posix()
        yield
        with self._lock:
            self._take()
            self._seconds[self._file][_WALL] += time.monotonic() - began
            self._file = "between tests"

    def pytest_sessionfinish(self) -> None:
        self._over.set()
        with self._lock:
            if self._output is not None:
                self._take()
                self._output["cpu"] = {file: dict(counts) for file, counts in self._seconds.items()}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:  # Any: of xdist, which may be missing
        for file, counts in getattr(node, "workeroutput", {}).get("cpu", {}).items():
            for kind, seconds in counts.items():
                self._seconds[file][kind] += seconds

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("CPU seconds by folder and kind of process")
        folders: defaultdict[str, defaultdict[str, float]] = defaultdict(_nothing)
        for file, counts in self._seconds.items():
            for kind, seconds in counts.items():
                folders[file.partition("/")[0]][kind] += seconds
        for line in table(folders):
            terminalreporter.write_line(line)
        terminalreporter.section(f"the {_LISTED_FILES} files that use the most CPU")
        for line in table(self._seconds)[: _LISTED_FILES + 1]:
            terminalreporter.write_line(line)

    def _sample(self) -> None:
        while not self._over.wait(_EVERY_S):
            with self._lock:
                self._take()

    def _take(self) -> None:
        """Charge what the descendants used since the last sample to the present file."""
        own = os.getpid()
        found = dict(processes())
        parents = {pid: parent for pid, (parent, _, _) in found.items()}
        for pid, (_, began, seconds) in found.items():
            process = pid, began
            if process not in self._kinds and not descends(pid, own, parents):
                continue
            if process not in self._kinds:
                self._kinds[process] = "pytest" if pid == own else _kind(pid)
            elif self._kinds[process] == "other":  # a fork may have become another program
                self._kinds[process] = _kind(pid)
            used = seconds - self._seen.get(process, 0.0)
            self._seen[process] = seconds
            self._seconds[self._file][self._kinds[process]] += used


def _kind(pid: int) -> str:
    with suppress(OSError):
        return kind_of(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return "other"


def descends(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    """Return whether a process is another one, or descends from it."""
    while pid > 1:
        if pid == ancestor:
            return True
        pid = parents.get(pid, 0)
    return False


def processes() -> Iterator[tuple[int, tuple[int, int, float]]]:
    """Yield the id, and the parent, start time and CPU seconds, of all processes."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                fields = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
                yield int(name), (int(fields[1]), int(fields[19]), (int(fields[11]) + int(fields[12])) * _TICK_S)


def _nothing() -> defaultdict[str, float]:
    return defaultdict(float)


def table(seconds: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return the lines of the table: a folder or file in each, the most expensive first, and the sum at the end."""

    def cpu(counts: Mapping[str, float]) -> float:
        return sum(counts.get(kind, 0.0) for kind in KINDS)

    total = {kind: sum(counts.get(kind, 0.0) for counts in seconds.values()) for kind in (_WALL, *KINDS)}
    rows = sorted(seconds.items(), key=lambda item: -cpu(item[1]))
    head = f"{'of':<48}{'CPU':>8}{'wall':>8}" + "".join(f"{kind:>15}" for kind in KINDS)
    return [head] + [
        f"{name:<48}{cpu(counts):>8.0f}{counts.get(_WALL, 0.0):>8.0f}"
        + "".join(f"{counts.get(kind, 0.0):>15.0f}" for kind in KINDS)
        for name, counts in [*rows, ("all", total)]
    ]
