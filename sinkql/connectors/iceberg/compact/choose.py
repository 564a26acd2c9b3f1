"""Sizes of files → those to write again now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from sinkql.storage.sorted_run import MergePolicy

_TARGET = 512 << 20
_PROPERTY = "write.target-file-size-bytes"
FAN = 16
"""Files of like size that are one too many."""
_TIERS = MergePolicy(fan=FAN, small=128 << 10)
"""A file up to 128 KB costs a reader more to open than to read."""
ALL = MergePolicy(fan=2, small=1 << 62)
"""For who wants as few files as there can be."""

File = TypeVar("File")


def target_size(properties: Mapping[str, str]) -> int:
    """Return how large a table's files should be, in bytes."""
    try:
        return max(1, int(properties.get(_PROPERTY, _TARGET)))
    except ValueError:
        return _TARGET


def due(
    files: Iterable[File], size: Callable[[File], int], *, target: int, tiers: MergePolicy | None = None
) -> list[File]:
    """Return the small files that are to become one of up to the target size; none while there are few of them.

    A file joins while all smaller ones together are as large: it comes into one at least twice its size.
    """
    small = sorted((file for file in files if 2 * size(file) < target), key=size)
    chosen: list[File] = []
    total = 0
    for file in small[: (tiers or _TIERS).due(map(size, small))]:
        total += size(file)
        if total > target:
            break
        chosen.append(file)
    return chosen if len(chosen) > 1 else []
