"""Fault points: named places where a test may make this process die or fail. Nothing happens unless enabled.

`SINKQL_FAULTS` holds comma-separated `point=action` or `point#n=action`: at the n-th pass (default 1) of that point the
process is killed (`kill`, as by SIGKILL), stopped until SIGCONT (`stop`), or `FaultError` is raised (`fail`). Passes
are counted in each process.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

VARIABLE = "SINKQL_FAULTS"
_passes: Counter[str] = Counter()


class FaultError(OSError):
    """Raised at a fault point that is set to fail."""


def point(name: str) -> None:
    """Die, stop or fail here if the environment says so."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    _passes[name] += 1
    for rule in wanted.split(","):
        place, _, action = rule.partition("=")
        target, _, number = place.partition("#")
        if target == name and _passes[name] == int(number or 1):
            match action:
                case "kill":
                    signal.raise_signal(signal.SIGKILL)
                case "stop":
                    signal.raise_signal(signal.SIGSTOP)  # this thread: another one's stop comes a little later
                case _:
                    raise FaultError(f"fault at {name}")
