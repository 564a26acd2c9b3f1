"""Where the CPU of a test run goes: by folder of tests, by file, by kind of process, and by program.

A sampling thread of each pytest process reads the CPU times of its descendants. What a process used after its last
sample is counted when its parent has waited for it, since the kernel adds it to the times of the parent's ended
children; what nobody waits for is missing. Servers that several tests share are charged to the file whose test runs
at the moment.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest

_EVERY_S = 0.25
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_SERVERS = (
    "postgres", "initdb", "pg_basebackup", "mysqld", "mariadbd", "kafka.Kafka", "kafka.tools", "/weed", "minio",
    "registry", "keycloak", "vault", "sshd",
)  # fmt: skip
_SINKQL = ("-m sinkql", "bin/sinkql", "support.fork_server", "fork_order.py")
KINDS = ("pytest", "forks", "sinkql", "Spark's Java", "Spark's Python", "servers", "Python", "other")
"""`forks` are processes of pytest that run no other program; `Python` are other programs in Python."""
_WALL, _CPU, _PROCESSES = "wall", "CPU", "processes"
_BETWEEN = "between tests"
_LISTED = 60
_JAVA_CLASS = re.compile(r"[a-z]\w*(\.\w+)*\.[A-Z]\w+")
Process: TypeAlias = tuple[int, int]
"""The id and the start time of a process."""
_Counts: TypeAlias = "defaultdict[str, defaultdict[str, float]]"


class Times(NamedTuple):
    """The parent of a process, and the CPU seconds of it and of its ended children."""

    parent: int
    own: float
    reaped: float


class Program(NamedTuple):
    """What a process runs."""

    kind: str
    name: str


def kind_of(command: str) -> str:
    """Return the kind of a process with this command line."""
    if "org.apache.spark" in command:
        return "Spark's Java"
    if "spark.daemon" in command or "pyspark.daemon" in command:
        return "Spark's Python"
    if any(server in command for server in _SERVERS):
        return "servers"
    if any(program in command for program in _SINKQL):
        return "sinkql"
    return "Python" if _file(command).startswith("python") else "other"


def name_of(command: str) -> str:
    """Return the program of a command line, with the class or the module that Java or Python runs."""
    name, words = _file(command), command.split()[1:]
    if name == "java":
        return " ".join([name, *[word for word in words if _JAVA_CLASS.fullmatch(word)][:1]])
    if name.startswith("python"):
        for place, word in enumerate(words):
            if word in ("-m", "-c"):
                return " ".join([name, *words[place : place + (2 if word == "-m" else 4)]])
            if not word.startswith("-"):
                return f"{name} {_file(word)}"
    return name


def _file(command: str) -> str:
    return command.partition(" ")[0].rpartition("/")[2].rstrip(":")


class CpuAccount:
    """A pytest plugin that prints the tables at the end of a run; in a worker of xdist it sends its part."""

    def __init__(self, config: pytest.Config) -> None:
        self._output: dict[str, Any] | None = getattr(config, "workeroutput", None)
        self._seconds: _Counts = defaultdict(_nothing)
        self._programs: _Counts = defaultdict(_nothing)
        self._file = _BETWEEN
        self._command = _command(os.getpid())
        self._seen: dict[Process, Times] = {}
        self._programs_of: dict[Process, Program] = {}
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
            self._file = _BETWEEN

    def pytest_sessionfinish(self) -> None:
        self._over.set()
        with self._lock:
            if self._output is not None:
                self._take()
                self._output["cpu"] = [{name: dict(of) for name, of in part.items()} for part in self._parts()]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:  # Any: of xdist, which may be missing
        for part, counted in zip(self._parts(), getattr(node, "workeroutput", {}).get("cpu", ()), strict=False):
            for name, counts in counted.items():
                for kind, seconds in counts.items():
                    part[name][kind] += seconds

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("CPU seconds by folder and kind of process")
        folders: defaultdict[str, defaultdict[str, float]] = defaultdict(_nothing)
        for file, counts in self._seconds.items():
            for kind, seconds in counts.items():
                folders[file.partition("/")[0]][kind] += seconds
        for line in table(folders):
            terminalreporter.write_line(line)
        terminalreporter.section(f"the {_LISTED} files that use the most CPU")
        for line in table(self._seconds)[: _LISTED + 1]:
            terminalreporter.write_line(line)
        terminalreporter.section(f"the {_LISTED} programs of a file that use the most CPU")
        for line in programs(self._programs)[: _LISTED + 1]:
            terminalreporter.write_line(line)

    def _parts(self) -> tuple[_Counts, _Counts]:
        return self._seconds, self._programs

    def _sample(self) -> None:
        while not self._over.wait(_EVERY_S):
            with self._lock:
                self._take()

    def _take(self) -> None:
        """Charge what the descendants used since the last sample to the present file."""
        found = processes()
        own = os.getpid()
        parents = {pid: times.parent for (pid, _), times in found.items()}
        ours = {each: times for each, times in found.items() if each in self._seen or descends(each[0], own, parents)}
        ended = self._ended_since(ours)
        for process, times in ours.items():
            before = self._seen.get(process)
            program = self._program(process)
            if program != self._programs_of.get(process):  # a fork may have become another program
                self._programs[f"{self._file} {program.name}"][_PROCESSES] += 1
                self._programs_of[process] = program
            if before is None:
                before = Times(0, 0.0, times.reaped if process[0] == own else 0.0)
            self._charge(program, times.own - before.own)
            children = ended.get(process[0], [])
            unseen = times.reaped - before.reaped - sum(seconds for _, seconds in children)
            if unseen >= _TICK_S:
                last = children[0][0] if children else Program("other", f"short children of {program.name}")
                self._charge(last, unseen)
        self._seen = ours

    def _ended_since(self, living: Mapping[Process, Times]) -> dict[int, list[tuple[Program, float]]]:
        """Return the programs of the processes that have ended, and what was seen of each, by parent."""
        gone: defaultdict[int, list[tuple[Program, float]]] = defaultdict(list)
        for process in sorted(set(self._seen) - set(living), reverse=True):  # children come before their parents
            times = self._seen[process]
            seconds = times.own + times.reaped + sum(seconds for _, seconds in gone.get(process[0], []))
            gone[times.parent].append((self._programs_of.pop(process), seconds))
        return gone

    def _program(self, process: Process) -> Program:
        if process[0] == os.getpid():
            return Program("pytest", "pytest")
        command = _command(process[0])
        if not command and process in self._programs_of:  # it has ended
            return self._programs_of[process]
        if command == self._command:
            return Program("forks", "fork of pytest")
        return Program(kind_of(command), name_of(command))

    def _charge(self, program: Program, seconds: float) -> None:
        self._seconds[self._file][program.kind] += seconds
        self._programs[f"{self._file} {program.name}"][_CPU] += seconds


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def descends(pid: int, ancestor: int, parents: Mapping[int, int]) -> bool:
    """Return whether a process is another one, or descends from it."""
    while pid > 1:
        if pid == ancestor:
            return True
        pid = parents.get(pid, 0)
    return False


def processes() -> dict[Process, Times]:
    """Return the times of all processes."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                fields = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
                own, reaped = (sum(map(int, fields[place : place + 2])) * _TICK_S for place in (11, 13))
                found[int(name), int(fields[19])] = Times(int(fields[1]), own, reaped)
    return found


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


def programs(counts: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return the lines of the table of programs: a file and a program in each, the most expensive first."""
    rows = sorted(counts.items(), key=lambda item: -item[1].get(_CPU, 0.0))
    return [f"{'of':<96}{_CPU:>8}{_PROCESSES:>12}"] + [
        f"{name:<96}{each.get(_CPU, 0.0):>8.1f}{each.get(_PROCESSES, 0.0):>12.0f}"
        for name, each in rows
        if not name.endswith(" pytest")
    ]
