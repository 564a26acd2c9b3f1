"""Fault points: named places where a test may make this process die or fail.

A rule is `point=action` or `point#n=action`: at the n-th pass (default 1) of that point the process is killed (`kill`,
as by SIGKILL), stopped until SIGCONT (`stop`), or `FaultError` is raised (`fail`). Rules are separated by commas, and
passes are counted in each process.

No single setting arms them, so that none is armed by accident: `SINKQL_FAULTS` holds the rules, and
`SINKQL_FAULTS_FILE` the path of a file of the same text, which whoever means it has to write (`armed` in
`tests/support/fault.py`). Rules that no file repeats do nothing. Where `SINKQL_FAULTS` is `file`, the rules are what
the file has at each pass, so that they may change while the process runs; of other rules passes are counted anew.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from functools import lru_cache
from pathlib import Path

RULES = "SINKQL_FAULTS"
CONFIRMED_BY = "SINKQL_FAULTS_FILE"
CHANGING = "file"
_passes: Counter[str] = Counter()
_counted: list[str] = []
"""The rules of which passes are counted."""


class FaultError(OSError):
    """Raised at a fault point that is set to fail."""


def point(name: str) -> None:
    """Die, stop or fail here if armed rules say so."""
    rules, path = os.environ.get(RULES), os.environ.get(CONFIRMED_BY)
    if not rules or not path:
        return
    if rules == CHANGING:
        rules = _said(path)
        if _counted != [rules]:
            _counted[:] = [rules]
            _passes.clear()
    elif not _confirmed(rules, path):
        return
    _passes[name] += 1
    for rule in rules.split(","):
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


@lru_cache(maxsize=8)
def _confirmed(wanted: str, path: str) -> bool:
    return _said(path) == wanted


def _said(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
