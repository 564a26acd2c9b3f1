"""Make the C library reuse freed memory instead of returning it to the system.

By default, glibc returns freed blocks of a megabyte to the system, which then fills the pages of the next block with
zeros. Decoding allocates such blocks for each batch; the zeros cost it 10 to 20 % of its time.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h
_MMAP_BYTES = 8 << 20
_TRIM_BYTES = 16 << 20


def keep_freed() -> None:
    """Keep up to 16 MB of freed memory; blocks of 8 MB and more go back to the system. Does nothing without glibc."""
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _MMAP_BYTES)
        mallopt(_TRIM_THRESHOLD, _TRIM_BYTES)
