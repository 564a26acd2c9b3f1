"""The private folder of a process for Spark's files; folders of killed processes are deleted."""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOCK = "lock"
_LOG = "spark.log"
_KEPT_LOGS = 3


class ScratchFolder:
    """A folder that belongs to a process from `take` to `release`: a lock in it ends with the process."""

    def __init__(self, place: Path, name: str) -> None:
        self.path = place / f"{name}-{os.getpid()}"
        self._held: int | None = None
        self._taking = threading.Lock()

    def take(self) -> None:
        """Create the folder, once for all threads, and delete folders of ended processes, except the last few logs."""
        with self._taking:
            if self._held is not None:
                return
            place = self.path.parent
            place.mkdir(parents=True, mode=0o700, exist_ok=True)
            with _alone(place):
                _sweep(place)
                self.path.mkdir(mode=0o700, exist_ok=True)
                self._held = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
                fcntl.flock(self._held, fcntl.LOCK_EX)

    def release(self, *, log: bool = True) -> None:
        """Release the folder; its contents are deleted, except the `log` if it is true."""
        if self._held is not None:
            with _alone(self.path.parent):
                if log:
                    _empty(self.path)
                else:
                    shutil.rmtree(self.path, ignore_errors=True)
                os.close(self._held)
            self._held = None


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Prevent other processes from creating and deleting such folders during the block."""
    held = os.open(place / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _sweep(place: Path) -> None:
    left = [path for path in place.iterdir() if (path / _LOCK).exists() and _free(path)]
    left.sort(key=_last_word)
    for path in left[:-_KEPT_LOGS]:
        shutil.rmtree(path, ignore_errors=True)  # a JVM that is ending may still write there
    for path in left[-_KEPT_LOGS:]:
        _empty(path)


def _last_word(path: Path) -> float:
    log = path / _LOG
    return log.stat().st_mtime if log.exists() else 0.0


def _free(path: Path) -> bool:
    held = os.open(path / _LOCK, os.O_RDWR)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(held)
    return True


def _empty(path: Path) -> None:
    """Delete everything except the log and the lock, which a later process needs to find it."""
    for entry in path.iterdir():
        if entry.name in (_LOCK, _LOG):
            continue
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)  # as above
        else:
            entry.unlink(missing_ok=True)
