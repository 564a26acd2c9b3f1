"""Check that a SQLite file is private and a catalog, create it, and convert its errors; no open catalog is needed."""

from __future__ import annotations

import os
import shlex
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sinkql.catalog.address import ANOTHER, FOLDER, VARIABLE
from sinkql.catalog.sqlite.connection import BUSY_SECONDS
from sinkql.catalog.sqlite.schema import APPLICATION_ID
from sinkql.errors import LateError, SinkqlError, disk_full

_SMALLEST = 512  # bytes: one page of a database
_UNWRITABLE = ("unable to open", "readonly database", "disk I/O")


@contextmanager
def coded(path: Path) -> Iterator[None]:
    """Convert errors of SQLite and the operating system about a file to coded errors."""
    try:
        yield
    except (sqlite3.DatabaseError, OSError) as error:
        raise _error(error, path) from error


def make_private(path: Path) -> None:
    """Create folder and file for their owner only; SQLite would let all users read them."""
    make_private_folder(path.parent)
    if not path.exists():
        create_private(path)


def make_private_folder(folder: Path) -> None:
    """Create a folder for its owner only; raise SQ4114 if a project's folder is open to others."""
    if not folder.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.name == FOLDER:
        _check_folder(folder)


def _check_folder(folder: Path) -> None:
    """Refuse a folder that others may use or own (SQ4114), because they could replace the catalog's files."""
    status = folder.stat()
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SinkqlError(
            "SQ4114", f'folder "{folder}" is open to other users', hint=f"Run chmod 700 {shlex.quote(str(folder))}."
        )
    if status.st_uid != os.geteuid():
        raise SinkqlError(
            "SQ4114",
            f'folder "{folder}" belongs to another user',
            hint=f"Run sinkql as that user, take ownership of the folder with chown -R, or {ANOTHER}.",
        )


def create_private(path: Path) -> None:
    """Create an empty file for its owner only."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def check_ours(plain: sqlite3.Connection, path: Path) -> None:
    """Refuse a file of another program (SQ4101), and a file that others may use (SQ4114)."""
    # The file is not opened here: closing it would release the locks of other connections in this process.
    if 0 < path.stat().st_size < _SMALLEST:  # SQLite may treat it as an empty file
        raise _foreign_error(path)
    # In this order: another process that creates a catalog in the file writes both in one transaction.
    (count,) = plain.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (ours,) = plain.execute("PRAGMA application_id").fetchone()
    if ours != APPLICATION_ID and count:
        raise _foreign_error(path)
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SinkqlError(
            "SQ4114",
            f'catalog file "{path}" is open to other users',
            hint=f"Run chmod 600 {shlex.quote(str(path))}.",
        )


def version_of(path: Path) -> int:
    """Return the version of an existing catalog file; raises as opening does."""
    with coded(path):
        plain = sqlite3.connect(path, timeout=BUSY_SECONDS)
        try:
            check_ours(plain, path)
            return int(plain.execute("PRAGMA user_version").fetchone()[0])
        finally:
            plain.close()


def locked(path: Path, reason: str | None = None) -> LateError:
    """Return the error for a catalog whose write lock is not released."""
    return LateError(
        "SQ4104",
        f'catalog file "{path}" is locked by another process',
        detail=reason,
        hint="Try again. If the error persists, look for a program that keeps the file open.",
    )


def _error(error: BaseException, path: Path) -> SinkqlError:
    reason = str(error)
    if isinstance(error, sqlite3.OperationalError) and "locked" in reason:
        return locked(path, reason)
    if "not a database" in reason:
        return _foreign_error(path)
    if disk_full(error) is not None:
        return SinkqlError(
            "SQ4105",
            f'could not write catalog file "{path}": no space left on device',
            detail=reason,
            hint=f"Free space on that disk, or {ANOTHER}. Running sinks continue automatically.",
        )
    if isinstance(error, OSError) or any(word in reason for word in _UNWRITABLE):
        return SinkqlError(
            "SQ4105",
            f'catalog file "{path}" cannot be written',
            detail=reason,
            hint=f"Check that you own its folder and that the disk is not full, or {ANOTHER}.",
        )
    return SinkqlError(
        "SQ4103",
        f'catalog file "{path}" is damaged',
        detail=reason,
        hint="Restore a backup of it. Upgrades create one beside the file.",
    )


def _foreign_error(path: Path) -> SinkqlError:
    return SinkqlError(
        "SQ4101",
        f'file "{path}" is not a SinkQL catalog',
        hint=f"Name another file with --catalog or {VARIABLE}; the default is .sinkql/catalog.db in this folder.",
    )
