"""The C library's memory of this process → what was freed is taken again, and not given back to the system each time.

By its own rules a block of a megabyte comes from the system and goes back there when it is freed, and the system fills
each page of the next one with zeros: a tenth to a fifth of what decoding costs, as it takes such blocks for each batch.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h
_FROM_THE_SYSTEM = 8 << 20
_KEPT = 16 << 20


def keep_freed() -> None:
    """Keep up to 16 MB of what is freed; blocks of 8 MB and more are the system's. Nothing where there is no glibc."""
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _FROM_THE_SYSTEM)
        mallopt(_TRIM_THRESHOLD, _KEPT)
