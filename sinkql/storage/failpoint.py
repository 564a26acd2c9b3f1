"""Failpoints: named places where a test can kill, stop or fail the process.

A rule is `point=action` or `point#n=action`. At the n-th pass (default 1) of the point, the process is killed by
SIGKILL (`kill`), stopped until SIGCONT (`stop`), or `FaultError` is raised (`fail`). Commas separate rules. Each
process counts its passes.

Two settings are needed, so that no failpoint is armed by accident. `SINKQL_FAULTS` holds the rules.
`SINKQL_FAULTS_FILE` is the path of a file with the same text (`armed` in `tests/support/fault.py` writes it); without
that file, the rules do nothing. If `SINKQL_FAULTS` is `file`, the file holds the rules and is read at each pass, so
that they may change while the process runs. A change resets the counts.
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
_counted_rules: list[str] = []
"""The rules that `_passes` counts."""


class FaultError(OSError):
    """Raised at a failpoint whose rule is `fail`."""


def point(name: str) -> None:
    """Kill, stop or fail the process here if a rule is armed."""
    rules, path = os.environ.get(RULES), os.environ.get(CONFIRMED_BY)
    if not rules or not path:
        return
    if rules == CHANGING:
        rules = _read(path)
        if _counted_rules != [rules]:
            _counted_rules[:] = [rules]
            _passes.clear()
    elif not _is_confirmed(rules, path):
        return
    _passes[name] += 1
    for rule in rules.split(","):
        left, _, action = rule.partition("=")
        target, _, number = left.partition("#")
        if target == name and _passes[name] == int(number or 1):
            match action:
                case "kill":
                    signal.raise_signal(signal.SIGKILL)
                case "stop":
                    signal.raise_signal(signal.SIGSTOP)  # of this thread; other threads stop a little later
                case _:
                    raise FaultError(f"fault at {name}")


@lru_cache(maxsize=8)
def _is_confirmed(rules: str, path: str) -> bool:
    return _read(path) == rules


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
