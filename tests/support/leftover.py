"""Find the processes that a test started, directly or indirectly, and that still run."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from support.patience import PATIENCE_S

_VARIABLE = "SINKQL_TEST_STARTED_BY"
_BETWEEN_LOOKS_S = 0.1


def marked() -> dict[str, str]:
    """Return an environment variable that marks a process and all processes that it starts."""
    return {_VARIABLE: uuid.uuid4().hex}


def processes(mark: Mapping[str, str]) -> dict[int, str]:
    """Return the marked processes with their commands."""
    variable = f"{_VARIABLE}={mark[_VARIABLE]}".encode()
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if variable in (process / "environ").read_bytes().split(b"\0"):
                found[int(process.name)] = (process / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue  # it has just ended, or belongs to another user
    return found


def left(mark: Mapping[str, str]) -> list[str]:
    """Wait until the marked processes have ended; return the commands of those left after the time limit."""
    until = time.monotonic() + PATIENCE_S
    looks = threading.Event()
    while (found := processes(mark)) and time.monotonic() < until:
        looks.wait(_BETWEEN_LOOKS_S)
    return list(found.values())
