"""Measure a command's whole process tree: CPU seconds, wall seconds, peak memory."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: orphans of the command become this process's children, so their CPU counts


ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""The environment of measured processes. Modules are compiled once, as for a user, and not by each process."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a command; memory is the peak of the tree's summed proportional set sizes, sampled."""

    cpu_s: float
    wall_s: float
    peak_mb: float


def measure(command: Sequence[str], *, folder: Path, environment: dict[str, str] | None = None) -> Cost:
    """Run a command and return its cost; raise RuntimeError if it fails.

    The output goes to `log` in the folder.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0)
    before, others, began = _children_cpu(), set(_children()[os.getpid()]), time.monotonic()
    with (folder / "log").open("ab") as log, _accounted() as account:
        process = subprocess.Popen(
            account.entering(command),
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=ENVIRONMENT | (environment or {}),
        )
        sampler = _Sampler(process.pid)
        sampler.start()
        code = process.wait()
        wall = time.monotonic() - began
        sampler.done.set()
        sampler.join()
        _reap(others)
        # Without a cgroup, both sums are lower bounds, and the larger one is used. The kernel's sum omits processes
        # that were not waited for, like Spark's Python workers. The samples omit the last moments of each process.
        cpu = account.cpu_s() or max(_children_cpu() - before, sampler.cpu_s())
    if code != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {code}:\n{(folder / 'log').read_text()[-3000:]}")
    return Cost(cpu, wall, sampler.peak_mb)


@dataclass(frozen=True, slots=True)
class _Account:
    """A cgroup that counts the CPU of its processes; `group` is None if it could not be created."""

    group: Path | None

    def entering(self, command: Sequence[str]) -> Sequence[str]:
        """Return a command that joins the group, together with all processes that it starts."""
        if self.group is None:
            return command
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.group / "cgroup.procs"), *command]

    def cpu_s(self) -> float | None:
        """Return the CPU seconds of the group; None without a group."""
        if self.group is None:
            return None
        usage = self.group / "cpuacct.usage"
        if usage.exists():
            return int(usage.read_text()) / 1e9
        return int((self.group / "cpu.stat").read_text().split()[1]) / 1e6


@contextmanager
def _accounted() -> Iterator[_Account]:
    root = Path("/sys/fs/cgroup")
    parent = root / "cpuacct" if (root / "cpuacct").is_dir() else root
    group = parent / f"bench-{os.getpid()}-{time.monotonic_ns()}"  # an earlier group may still have processes
    try:
        group.mkdir()
    except OSError:
        yield _Account(None)
        return
    try:
        yield _Account(group)
    finally:
        with suppress(OSError):  # it may still have processes
            group.rmdir()


def tree_cpu(pid: int) -> float:
    """Return the CPU seconds of a live process and its descendants, including descendants that ended."""
    total = 0.0
    for each in tree(pid):
        with suppress(OSError):
            total += sum(_ticks(each))
    return total / os.sysconf("SC_CLK_TCK")


def tree_memory(pid: int) -> float:
    """Return the proportional set sizes of a live process and its descendants, in MB."""
    return sum(_pss_mb(each) for each in tree(pid))


def tree_memory_by(pid: int) -> dict[str, float]:
    """Return the same by kind of process: Java, the driver, captures, Spark's Python workers."""
    found: dict[str, float] = defaultdict(float)
    for each in tree(pid):
        with suppress(OSError):
            line = Path(f"/proc/{each}/cmdline").read_text()
            if "java" in line.split("\0")[0]:
                kind = "Java"
            elif "sinkql.runtime.spark.daemon" in line:
                kind = "Spark's Python"
            else:
                kind = "driver" if each == pid else "capture"
            found[kind] += _pss_mb(each)
    return found


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _reap(others: set[int]) -> None:
    """Wait for the orphans of a command, but not for other children of this process."""
    deadline = time.monotonic() + 20
    while (orphans := set(_children()[os.getpid()]) - others) and time.monotonic() < deadline:
        for pid in orphans:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.05)


class _Sampler(threading.Thread):
    """A thread that samples a process tree: the CPU of each process often, and their memory less often."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.done = threading.Event()
        self.peak_mb = 0.0
        self._seen: dict[int, int] = {}

    def run(self) -> None:
        looks = 0
        while not self.done.wait(0.1):
            pids = tree(self.pid)
            for pid in pids:
                with suppress(OSError):
                    self._seen[pid] = sum(_ticks(pid)[:2])
            looks += 1
            if looks % 5 == 0:
                self.peak_mb = max(self.peak_mb, sum(_pss_mb(pid) for pid in pids))

    def cpu_s(self) -> float:
        return sum(self._seen.values()) / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> list[int]:
    """Return a process's clock ticks: user and system, then the same of children that it waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [int(field) for field in fields[11:15]]


def tree(root: int) -> list[int]:
    """Return the ids of a live process and its descendants."""
    children = _children()
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting.extend(children[pid])
    return found


def _children() -> defaultdict[int, list[int]]:
    """Return the children of each process that has any."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children[parent].append(int(entry.name))
    return children


def _pss_mb(pid: int) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0
