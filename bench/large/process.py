"""Measure the memory of a process and its descendants, private memory and pages of files separately."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench.meter import tree


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of processes in MB, with each page counted once.

    `files` are mapped pages of files, which the kernel may drop.

    `private_of` splits the private memory by kind of process: the driver, Java, Spark's Python, and others.
    """

    private: float
    files: float
    private_of: dict[str, float]

    def most(self, other: Memory) -> Memory:
        """Return the maximum of each figure."""
        kinds = self.private_of.keys() | other.private_of.keys()
        of = {kind: max(self.private_of.get(kind, 0.0), other.private_of.get(kind, 0.0)) for kind in kinds}
        return Memory(max(self.private, other.private), max(self.files, other.files), of)


NOTHING = Memory(0.0, 0.0, {})


def memory_of(root: int) -> Memory:
    """Return the memory of a live process and its descendants; pages that they share count once."""
    files, of = 0.0, defaultdict[str, float](float)
    for pid in tree(root):
        with suppress(OSError):
            said = _rollup(pid)
            files += said["Pss_File"]
            of[_kind(pid, root)] += said["Pss_Anon"] + said["Pss_Shmem"]
    return Memory(sum(of.values()), files, dict(of))


def threads_of(root: int) -> int:
    """Return the number of threads of a process and its descendants."""
    return sum(_count(pid, "task") for pid in tree(root))


def files_of(root: int) -> int:
    """Return the number of open files and sockets of a process and its descendants."""
    return sum(_count(pid, "fd") for pid in tree(root))


def _count(pid: int, folder: str) -> int:
    with suppress(OSError):
        return sum(1 for _ in Path(f"/proc/{pid}/{folder}").iterdir())
    return 0


def _rollup(pid: int) -> dict[str, float]:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {name: int(value.split()[0]) / 1024 for name, _, value in (line.partition(":") for line in lines)}


def _kind(pid: int, root: int) -> str:
    line = Path(f"/proc/{pid}/cmdline").read_text()
    if "java" in line.split("\0")[0]:
        return "Java"
    if "sinkql.runtime.spark.daemon" in line:
        return "Python"
    return "driver" if pid == root else "others"
