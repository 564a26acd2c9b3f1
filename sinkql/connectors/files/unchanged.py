"""The folders that a listing went through → whether it would find the same names now, without listing them again.

A folder gets another time of change with each name that comes, goes or is replaced, and nobody can set that time back.
Within a tick of the clock two changes have one time, so a folder counts once it was left alone for a while. File
systems of networks and of FUSE may keep no such time, or tell an old one: their folders are always listed.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path

_KEEP_TIMES = ("btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs")
_TICK_NS = 2_000_000_000
_MOUNTS = Path("/proc/self/mountinfo")

Stamp = tuple[int, int, int, int]


class Visited:
    """The folders that one listing goes through, as they are just before it."""

    def __init__(self) -> None:
        self._began = time.time_ns()
        self._folders: dict[str, Stamp] = {}
        self._linked = False

    def add(self, folder: Path, status: os.stat_result) -> None:
        """Take a folder in that is listed next."""
        self._folders[str(folder)] = _stamp(status)

    def link(self) -> None:
        """Say that there is a link: what it leads to may change, and its folder does not."""
        self._linked = True

    def settled(self) -> bool:
        """Tell whether the folders can be compared later."""
        changed = max((stamp[3] for stamp in self._folders.values()), default=self._began)
        devices = {stamp[0]: folder for folder, stamp in self._folders.items()}
        return not self._linked and changed < self._began - _TICK_NS and all(map(_keeps_times, devices.values()))

    def unchanged(self) -> bool:
        """Tell whether the folders are as they were."""
        try:
            return all(_stamp(os.stat(folder)) == stamp for folder, stamp in self._folders.items())
        except OSError:
            return False


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def _keeps_times(folder: str) -> bool:
    """Tell whether the file system of a folder is known to keep times of change."""
    path = Path(os.path.realpath(folder))
    mounts = [mount for mount in _mounts() if path.is_relative_to(mount[0])]
    return bool(mounts) and max(mounts, key=lambda mount: len(mount[0]))[1] in _KEEP_TIMES


def _mounts() -> Sequence[tuple[str, str]]:
    """Return where file systems are mounted, and their types; of one place the last one counts, and comes first."""
    try:
        lines = _MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ()
    fields = [line.split(" ") for line in lines]
    return [(_plain(each[4]), each[each.index("-", 6) + 1]) for each in reversed(fields)]


def _plain(path: str) -> str:
    return re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), path)
