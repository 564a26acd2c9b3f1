"""Which processes are there of those that a test started, and of all that these started."""

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
    """Return a variable for the environment of a process, by which it and all that it starts are found."""
    return {_VARIABLE: uuid.uuid4().hex}


def processes(mark: Mapping[str, str]) -> dict[int, str]:
    """Return the processes that have the mark, with their commands."""
    variable = f"{_VARIABLE}={mark[_VARIABLE]}".encode()
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if variable in (process / "environ").read_bytes().split(b"\0"):
                found[int(process.name)] = (process / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue  # it has just ended, or is another user's
    return found


def left(mark: Mapping[str, str]) -> list[str]:
    """Return the commands of the processes that have the mark, once there are none or nobody can expect any to end."""
    until = time.monotonic() + PATIENCE_S
    looks = threading.Event()
    while (found := processes(mark)) and time.monotonic() < until:
        looks.wait(_BETWEEN_LOOKS_S)
    return list(found.values())
