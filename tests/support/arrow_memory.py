"""Work → the most bytes that Arrow had for it at once."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

_POOLS: list[pa.MemoryPool] = []
"""They have to be there as long as what was taken from them."""


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
