"""A catalog file, or one in memory → a file with a copy of it at one moment."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from sinkql.catalog.sqlite.connection import BUSY_SECONDS
from sinkql.catalog.sqlite.private_file import check_ours, coded, create_private
from sinkql.errors import SinkqlError


def back_up(path: Path, target: Path, *, beside: Path | None = None) -> None:
    """Copy a catalog file at one moment into a new one; raises as opening does, and SQ4117 as `write_copy`."""
    with coded(path), closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as source:
        check_ours(source, path)
        write_copy(source, target, beside=beside)


def write_copy(source: sqlite3.Connection, target: Path, *, beside: Path | None = None) -> None:
    """Write what an open catalog has into a new file.

    Raises SQ4117 if the new file, or what is to come `beside` it, is there already.
    """
    for each in (target, beside):
        if each is not None and each.exists():
            raise SinkqlError("SQ4117", f'file "{each}" already exists', hint="Name another file.")
    with coded(target):
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        create_private(target)
        with closing(sqlite3.connect(target)) as copy:
            source.backup(copy)
