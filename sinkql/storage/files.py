"""Write files atomically and durably: after a power failure, a file exists whole or not at all.

The protocol: write a temporary file in the same folder, fsync it, rename it, fsync the folder (Pillai et al., "All File
Systems Are Not Created Equal", OSDI 2014). The folders above are made durable too, each once a process.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import BinaryIO

from sinkql.machine.randomness import new_bytes

_PRIVATE = 0o600
_THREADS = 16
"""A journaling file system groups syncs that run at the same time."""
_MANY_FILES = 64
"""From this number of files on, the whole file system is written first, so that each fsync has nothing left to do."""


def write_atomic(path: Path, data: bytes, *, private: bool = False, sync: bool = True) -> None:
    """Write or replace a file; readers see the old content or the new. Missing folders are created.

    A `private` file has mode 0600; otherwise a replaced file keeps its mode. Without `sync`, a power failure may lose
    the file: use that for files that only running processes read. A link is followed. A path that is no regular file,
    such as a terminal, is written to directly. Raises OSError.
    """
    target = path.resolve()
    present = target.stat().st_mode if target.exists() else None
    if present is not None and not stat.S_ISREG(present):
        target.write_bytes(data)
        return
    temporary = _write_temporary(target, data, sync=sync, mode=_PRIVATE if private else present)
    try:
        temporary.replace(target)
    except OSError:
        temporary.unlink()
        raise
    if sync:
        sync_folder(target.parent)


def create_new(path: Path, data: bytes | BinaryIO, *, private: bool = False) -> None:
    """Write a new file like `write_atomic`; raise FileExistsError if the name exists."""
    temporary = _write_temporary(path, data, sync=True, mode=_PRIVATE if private else None)
    try:
        path.hardlink_to(temporary)
    finally:
        temporary.unlink()
    sync_folder(path.parent)


@contextmanager
def replace_atomic(path: Path, *, mode: int) -> Iterator[BinaryIO]:
    """Yield a temporary file for large data, which replaces the file when the block ends without an exception."""
    make_folder(path.parent)
    temporary = _temporary_path(path)
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), mode)
        temporary.replace(path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def write_stream(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file for large data, durable when the block ends; raise FileExistsError if the name exists.

    If the block raises, a torn file stays: use a name that no process reads before it is announced.
    """
    make_folder(path.parent)
    with path.open("xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def sync_files(paths: Iterable[Path]) -> None:
    """Make closed files durable, with the folders that contain them, several in parallel.

    Raises OSError if a file may not be durable. Such a file must not be named or synced again: the kernel reports an
    error once, and the next fsync would succeed.
    """
    files = set(paths)
    folders = {path.parent for path in files}
    if len(files) >= _MANY_FILES:
        _write_file_systems(folders)
    _in_parallel(_sync, files)
    _in_parallel(_sync_folder_and_names, folders)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents durably."""
    try:
        folder.mkdir()
    except FileNotFoundError:
        make_folder(folder.parent)
        make_folder(folder)
    except OSError:
        if not folder.is_dir():
            raise
        _sync_names(folder)
    else:
        _sync_name(folder)  # uncached: a new folder may have the inode number of a deleted one
        _sync_names(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the entries of a folder durable."""
    _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder_and_names(folder: Path) -> None:
    sync_folder(folder)
    _sync_names(folder)


def _sync_names(folder: Path) -> None:
    """Make the names of a folder and its parents durable, each once a process."""
    for path in (folder, *folder.parents)[:-1]:
        status = path.stat()
        _sync_name_once(path, status.st_dev, status.st_ino)


@lru_cache(maxsize=10_000)
def _sync_name_once(folder: Path, device: int, inode: int) -> None:
    _sync_name(folder)


def _sync_name(folder: Path) -> None:
    with suppress(OSError):  # the user may not open parents, and some file systems sync no folders
        sync_folder(folder.parent)


def _in_parallel(sync: Callable[[Path], None], paths: set[Path]) -> None:
    if len(paths) <= 1:
        for path in paths:
            sync(path)
        return
    futures = [_threads(os.getpid()).submit(sync, path) for path in paths]
    wait(futures)
    for future in futures:
        future.result()


@lru_cache(maxsize=1)
def _threads(process: int) -> ThreadPoolExecutor:
    """Return the process's threads, which stay: starting them takes longer than many syncs.

    A forked process has none of its parent's threads, and starts its own.
    """
    return ThreadPoolExecutor(_THREADS, "sync")


def _write_file_systems(folders: Iterable[Path]) -> None:
    """Ask the kernel to write the file systems of these folders, if it can."""
    syncfs = _syncfs()
    if syncfs is None:
        return
    for folder in {folder.stat().st_dev: folder for folder in folders}.values():
        handle = os.open(folder, os.O_RDONLY)
        try:
            syncfs(handle)  # fsync of the file reports an error
        finally:
            os.close(handle)


@cache
def _syncfs() -> Callable[[int], int] | None:
    try:
        syncfs: Callable[[int], int] = ctypes.CDLL(None).syncfs
    except (OSError, AttributeError):  # only Linux has it
        return None
    return syncfs


def _temporary_path(path: Path) -> Path:
    return path.with_name(f".{path.name[:200]}.{new_bytes(8).hex()}")


def _write_temporary(path: Path, data: bytes | BinaryIO, *, sync: bool, mode: int | None) -> Path:
    """Write the data to a hidden file in the folder of `path`, and return its path."""
    make_folder(path.parent)
    temporary = _temporary_path(path)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE if mode == _PRIVATE else 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
            if isinstance(data, bytes):
                file.write(data)
            else:
                shutil.copyfileobj(data, file)
            if sync:
                file.flush()
                os.fsync(file.fileno())
    except OSError:
        temporary.unlink()
        raise
    return temporary
