"""Bytes → a file that is there whole or not at all, also after the power failed.

The protocol is that of every careful writer: write a draft in the same folder, fsync it, rename it over the name, fsync
the folder (Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014). The folders above it are made durable,
too: each once in the life of a process.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import BinaryIO

_PRIVATE = 0o600
_AT_ONCE = 8
"""A journaling file system commits together what is synced at the same time."""
_MANY = 64
"""From so many files on, all of the file system is written first: then each fsync finds nothing left to do."""


def write_atomic(path: Path, data: bytes, *, private: bool = False, sync: bool = True) -> None:
    """Put `data` in the place of the file, which readers see as it was or as it is now; missing folders are made.

    A `private` file is its owner's alone (mode 0600); otherwise a file that is replaced keeps its mode. Without `sync`
    a power failure may lose it: for files that only processes which run now read. A link is followed, and what is no
    file, such as a terminal, is written to as it is. Raises OSError.
    """
    target = path.resolve()
    present = target.stat().st_mode if target.exists() else None
    if present is not None and not stat.S_ISREG(present):
        target.write_bytes(data)
        return
    draft = _draft(target, data, sync=sync, mode=_PRIVATE if private else present)
    try:
        draft.replace(target)
    except OSError:
        draft.unlink()
        raise
    if sync:
        sync_folder(target.parent)


def create_new(path: Path, data: bytes | BinaryIO, *, private: bool = False) -> None:
    """Write a new file as `write_atomic` does; raises FileExistsError if the name is taken, by a process in between
    too."""
    draft = _draft(path, data, sync=True, mode=_PRIVATE if private else None)
    try:
        path.hardlink_to(draft)
    finally:
        draft.unlink()
    sync_folder(path.parent)


@contextmanager
def replace_atomic(path: Path, *, mode: int) -> Iterator[BinaryIO]:
    """Give a draft to write large data to, whole at the block's end in the place of the file; none where it raises."""
    make_folder(path.parent)
    draft = _beside(path)
    try:
        with draft.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), mode)
        draft.replace(path)
        sync_folder(path.parent)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def write_stream(path: Path) -> Iterator[BinaryIO]:
    """Give a new file to write large data to, durable at the block's end; raises FileExistsError if the name is taken.

    Where the block ends early a torn file stays: give a name that no one reads before it is told of.
    """
    make_folder(path.parent)
    with path.open("xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def settle(paths: Iterable[Path]) -> None:
    """Make files durable that others have written and closed, with the folders on the way to them, several at once.

    Raises OSError where one may not be durable. It must not be named then, nor be synced again: the kernel reports an
    error once, and the next fsync would succeed.
    """
    files = set(paths)
    folders = {path.parent for path in files}
    if len(files) >= _MANY:
        _write_all(folders)
    _at_once(_sync, files)
    _at_once(_settle_folder, folders)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, durably."""
    try:
        folder.mkdir()
    except FileNotFoundError:
        make_folder(folder.parent)
        make_folder(folder)
    except OSError:
        if not folder.is_dir():
            raise
        _settle_names(folder)
    else:
        _sync_name(folder)  # always: a file system may give it the number of one that is gone, and was made durable
        _settle_names(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make a folder's entries durable."""
    _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _settle_folder(folder: Path) -> None:
    sync_folder(folder)
    _settle_names(folder)


def _settle_names(folder: Path) -> None:
    """Make the names of a folder, and of those above it, durable."""
    for each in (folder, *folder.parents)[:-1]:
        about = each.stat()
        _settle_name(each, about.st_dev, about.st_ino)


@lru_cache(maxsize=10_000)
def _settle_name(folder: Path, device: int, inode: int) -> None:
    _sync_name(folder)


def _sync_name(folder: Path) -> None:
    with suppress(OSError):  # above what this user has made, and where a file system has no such thing
        sync_folder(folder.parent)


def _at_once(sync: Callable[[Path], None], paths: set[Path]) -> None:
    if len(paths) <= 1:
        for path in paths:
            sync(path)
        return
    with ThreadPoolExecutor(min(_AT_ONCE, len(paths)), "settle") as pool:
        list(pool.map(sync, paths))


def _write_all(folders: Iterable[Path]) -> None:
    """Have the kernel write all of the file systems of these folders, where it can."""
    syncfs = _syncfs()
    if syncfs is None:
        return
    for folder in {folder.stat().st_dev: folder for folder in folders}.values():
        handle = os.open(folder, os.O_RDONLY)
        try:
            syncfs(handle)  # an error is told by the fsync of the file that has it
        finally:
            os.close(handle)


@cache
def _syncfs() -> Callable[[int], int] | None:
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).syncfs
    except (OSError, AttributeError):  # Linux alone has it
        return None
    return found


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name[:200]}.{secrets.token_hex(8)}")


def _draft(path: Path, data: bytes | BinaryIO, *, sync: bool, mode: int | None) -> Path:
    """Write the data beside `path`, under a hidden name of its own."""
    make_folder(path.parent)
    draft = _beside(path)
    opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE if mode == _PRIVATE else 0o666)
    try:
        with os.fdopen(opened, "wb") as file:
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
        draft.unlink()
        raise
    return draft
