"""Local files of state that the store has, too: which ones they are, and which are deleted to free disk space.

A file of a state directory that the store has is read-only. Files that are not read-only may exist nowhere else.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from sinkql.machine import clock

READ_ONLY = 0o444
_FREE_SHARE = 0.1
_IDLE_SECONDS = 86400.0
_UNUSED_SECONDS, _EVICT_SECONDS = 3600.0, 60.0


def mark_stored(path: Path) -> None:
    """Record at a file that the store has it."""
    path.chmod(READ_ONLY)


def is_stored(path: Path) -> bool:
    """Return whether the store has a file of the directory."""
    with suppress(FileNotFoundError, NotADirectoryError):
        mode = path.lstat().st_mode
        return stat.S_ISREG(mode) and stat.S_IMODE(mode) == READ_ONLY
    return False


def mark_used(paths: Iterable[Path]) -> None:
    """Set the time of use of files, if they exist."""
    for path in paths:
        with suppress(FileNotFoundError):
            os.utime(path)


def evict_unused_files(folder: Path) -> None:
    """Delete the files of a state directory that the store has and no batch used for a day."""
    for used_at, path in list(_by_time_of_use(folder)):
        if clock.time() - used_at > _IDLE_SECONDS and is_stored(path):
            path.unlink(missing_ok=True)


def evict_old_files(root: Path) -> None:
    """Delete files of an executor that no task used for an hour; on a nearly full disk, the least recently used ones.

    Runs at most once a minute. A task that needs a deleted file fetches it again.
    """
    stamp, now = root / "tidied", clock.time()
    if stamp.exists() and now - stamp.stat().st_mtime < _EVICT_SECONDS:
        return
    stamp.touch()
    for used_at, path in sorted(_by_time_of_use(root)):
        is_evictable = is_stored(path) and now - used_at > _EVICT_SECONDS
        if path != stamp and (now - used_at > _UNUSED_SECONDS or (is_evictable and _is_nearly_full(root))):
            path.unlink(missing_ok=True)


def free_disk_space(folders: Path) -> int:
    """Delete files that a store has, until a tenth of the disk is free; return how many.

    Only the folders of sinks that did not run here for a day lose files, the longest idle ones first.
    """
    removed = 0
    by_use = sorted((folder.stat().st_mtime, folder) for folder in folders.iterdir() if folder.is_dir())
    for used_at, folder in by_use:
        if clock.time() - used_at < _IDLE_SECONDS or not _is_nearly_full(folders):
            break
        for path in filter(is_stored, list(folder.rglob("*"))):
            path.unlink(missing_ok=True)
            removed += 1
    return removed


def _by_time_of_use(root: Path) -> Iterator[tuple[float, Path]]:
    for path in root.rglob("*"):
        with suppress(FileNotFoundError):
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                yield status.st_mtime, path


def _is_nearly_full(folder: Path) -> bool:
    usage = shutil.disk_usage(folder)
    return usage.free < usage.total * _FREE_SHARE
