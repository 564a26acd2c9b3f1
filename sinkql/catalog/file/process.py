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
    """What identifies a process: `start` tells it from an earlier one of the same pid."""

    host: str
    pid: int
    start: str

    def gone(self) -> bool:
        """Tell whether the process has certainly ended; nothing is known of one on another host."""
        return self.host == socket.gethostname() and _start(self.pid) != self.start


def this_process() -> Process:
    """Return the identity of this process."""
    return Process(socket.gethostname(), os.getpid(), _start(os.getpid()))


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
