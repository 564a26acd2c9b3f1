"""Random ids and other random values, all made from the same random bytes.

`use` replaces the bytes of the whole process: with `random.Random(seed).randbytes`, a simulation makes the same ids
each time. The ids that pyiceberg makes for the files that it writes itself come from `uuid.uuid4`. Keys and nonces of
the catalog's secrets are never made here: they must not be predictable.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_in_use: list[Callable[[int], bytes]] = [os.urandom]
"""The function that returns as many random bytes as it is asked for, as the last one."""


@contextmanager
def use(random_bytes: Callable[[int], bytes]) -> Iterator[None]:
    """Replace the random bytes of the whole process while the block runs."""
    _in_use.append(random_bytes)
    try:
        yield
    finally:
        _in_use.remove(random_bytes)


def new_bytes(count: int) -> bytes:
    """Return so many random bytes."""
    return _in_use[-1](count)


def new_id() -> str:
    """Return a random UUID (RFC 9562, version 4) as 32 hexadecimal digits."""
    return f"{_new_uuid():032x}"


def new_uuid() -> str:
    """Return a random UUID (RFC 9562, version 4) as text with hyphens."""
    digits = new_id()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def new_number() -> int:
    """Return a random number of 63 bits, such as the id of a snapshot."""
    return int.from_bytes(new_bytes(8), "big") >> 1


def jitter(least: float, most: float) -> float:
    """Return a random number between two others, such as seconds to wait before a retry."""
    return least + (most - least) * (new_number() / 2**63)


def _new_uuid() -> int:
    number = int.from_bytes(new_bytes(16), "big")
    number = number & ~(0xF << 76) | 4 << 76  # the version
    return number & ~(0b11 << 62) | 0b10 << 62  # the variant
