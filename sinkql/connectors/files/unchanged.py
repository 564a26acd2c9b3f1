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
from typing import NamedTuple

_KEEP_TIMES = ("btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs")
_TICK_NS = 2_000_000_000
_MOUNTS = Path("/proc/self/mountinfo")

Stamp = tuple[int, int, int, int]


class VisitedFolders:
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
        return (
            not self._linked
            and changed < self._began - _TICK_NS
            and all(_keeps_times(folder, device) for device, folder in devices.items())
        )

    def unchanged(self) -> bool:
        """Tell whether the folders are as they were."""
        try:
            return all(_stamp(os.stat(folder)) == stamp for folder, stamp in self._folders.items())
        except OSError:
            return False


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def _keeps_times(folder: str, device: int) -> bool:
    """Tell whether the file system of a folder is known to keep times of change.

    What is mounted tells it by its device, since a mount may lie hidden below another one; but the subvolumes of btrfs
    have devices of their own, so there the place has to do.
    """
    mounts, path = _mounts(), Path(os.path.realpath(folder))
    types = {mount.type for mount in mounts if mount.device == device}
    if types:
        return types <= set(_KEEP_TIMES)
    above = [mount for mount in mounts if path.is_relative_to(mount.place)]
    return bool(above) and max(above, key=lambda mount: len(mount.place)).type == "btrfs"


class _Mount(NamedTuple):
    place: str
    type: str
    device: int


def _mounts() -> Sequence[_Mount]:
    """Return what is mounted; of two mounts at one place the last one counts, and comes first."""
    try:
        lines = _MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ()
    return [_mount(line.split(" ")) for line in reversed(lines)]


def _mount(fields: Sequence[str]) -> _Mount:
    major, minor = fields[2].split(":")
    return _Mount(_plain(fields[4]), fields[fields.index("-", 6) + 1], os.makedev(int(major), int(minor)))


def _plain(path: str) -> str:
    return re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), path)
