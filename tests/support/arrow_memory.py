"""Measure the peak of the memory that Arrow allocates for a call."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

_POOLS: list[pa.MemoryPool] = []
"""A pool must outlive the buffers allocated from it."""


def most_of(work: Callable[[], object]) -> int:
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    _POOLS.append(pool)
    pa.set_memory_pool(pool)
    try:
        work()
    finally:
        pa.set_memory_pool(before)
    return int(pool.max_memory())
