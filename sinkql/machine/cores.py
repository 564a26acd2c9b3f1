"""Tell how many cores a local master of Spark has."""

from __future__ import annotations

import os
import re


def local_cores(master: str) -> int:
    """Return the cores of a master such as `local[2]`; `local[*]` has all that this process may use."""
    wanted = re.match(r"local\[(\d+)", master)
    if wanted is not None:
        return int(wanted[1])
    return 1 if master == "local" else len(os.sched_getaffinity(0))
