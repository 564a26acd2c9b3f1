"""Seeds of random workloads: as many as a budget of CPU allows, so that none makes the gate longer as it grows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count


def seeds(cpu_s: float, *, least: int = 1) -> Iterator[int]:
    """Yield 0, 1, 2, … until this process has used `cpu_s` CPU seconds since the first; at least `least` seeds."""
    began = time.process_time()
    for seed in count():
        if seed >= least and time.process_time() - began >= cpu_s:
            return
        yield seed
