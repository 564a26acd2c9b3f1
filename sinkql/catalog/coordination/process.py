"""Identify a process across restarts and hosts, and format times for the catalog."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from sinkql.machine import clock


def now() -> str:
    """Return the current time in UTC as text that sorts by time and that SQLite's date functions accept."""
    return clock.now().isoformat(sep=" ", timespec="microseconds")


@dataclass(frozen=True, slots=True)
class Process:
    """The identity of a process; `start` distinguishes processes with the same pid, and pid namespaces."""

    host: str
    pid: int
    start: str

    def has_ended(self, *, elsewhere: bool) -> bool:
        """Return whether the process has certainly ended; a process that cannot be observed counts as running."""
        return self.is_observable(elsewhere=elsewhere) and _start_time(self.pid) != self.start.partition(" ")[0]

    def is_observable(self, *, elsewhere: bool) -> bool:
        """Return whether the current process can observe this one: it was on the same host.

        With `elsewhere`, different hosts and containers may have the same name. Pids then only count within one boot of
        a machine and one pid namespace.
        """
        if self.host != socket.gethostname():
            return False
        return not elsewhere or self.start.partition(" ")[2] == _pid_namespace() != ""


def this_process() -> Process:
    """Return the identity of this process."""
    return Process(socket.gethostname(), os.getpid(), f"{_start_time(os.getpid())} {_pid_namespace()}")


def _pid_namespace() -> str:
    """Return an identifier of the pid namespace; empty if the system does not provide it."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _start_time(pid: int) -> str:
    """Return the start time of a process, as the system counts it.

    The result is "gone" if the process does not exist, and empty if the system does not provide it.
    """
    try:
        # The command's name is in parentheses and may contain any character. Fields are counted after it.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):  # the process may end while it is read
        return _without_proc(pid)
    return "gone" if fields[0] in "ZX" else fields[19]


def _without_proc(pid: int) -> str:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "gone"
    except PermissionError:
        return ""
    return ""
