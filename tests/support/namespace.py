"""Processes in other PID namespaces, by their ids in this one."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

_STOPPED = "T"


def child(pid: int) -> int | None:
    """Return the first child of a process; None if it has none."""
    with suppress(OSError):
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(found[0]) if found else None
    return None


def processes(first: int) -> list[int]:
    """Return all processes in the PID namespace of a process."""
    mine, found = os.readlink(f"/proc/{first}/ns/pid"), []
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.readlink(each / "ns/pid") == mine:
                found.append(int(each.name))
    return found


def stopped(first: int) -> list[int]:
    """Return the stopped processes of the namespace, which wait for SIGCONT."""
    found = []
    for pid in processes(first):
        with suppress(OSError):
            if is_stopped(pid):
                found.append(pid)
    return found


def is_stopped(pid: int) -> bool:
    """Return whether a process waits for SIGCONT; raise OSError if it has ended."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == _STOPPED


def send(pids: list[int], number: signal.Signals) -> None:
    """Send a signal to processes that still run."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
