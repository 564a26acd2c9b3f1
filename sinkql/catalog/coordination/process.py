"""The clock → a time as the catalog writes it; this process → what tells it from every other one."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path


def now() -> str:
    """Return the current time in UTC as text that sorts by time and that SQLite's date functions read."""
    return datetime.now(UTC).isoformat(sep=" ", timespec="microseconds")


@dataclass(frozen=True, slots=True)
class Process:
    """What identifies a process: `start` tells it from an earlier one of the same pid, and where its pid is one."""

    host: str
    pid: int
    start: str

    def gone(self, *, elsewhere: bool) -> bool:
        """Tell whether the process has certainly ended; nothing is known of one that is not near."""
        return self.near(elsewhere=elsewhere) and _start(self.pid) != self.start.partition(" ")[0]

    def near(self, *, elsewhere: bool) -> bool:
        """Tell whether this process may judge it: it was on this host.

        Where it may have been `elsewhere` hosts and containers of one name are told apart: pids are those of a boot of
        a machine, and of a namespace in it.
        """
        if self.host != socket.gethostname():
            return False
        return not elsewhere or self.start.partition(" ")[2] == _pids() != ""


def this_process() -> Process:
    """Return the identity of this process."""
    return Process(socket.gethostname(), os.getpid(), f"{_start(os.getpid())} {_pids()}")


def _pids() -> str:
    """Return what is the same for all who see the same pids; empty where the system does not tell."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _start(pid: int) -> str:
    """Return when a process started, as the system counts it; "gone" for none, "" where the system does not tell."""
    try:
        # The command's name stands in parentheses and may hold anything; fields are counted from behind it.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):  # it may end while it is looked at
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
