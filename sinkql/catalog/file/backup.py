"""A catalog file → a copy of it at one moment, with the rows of its tables beside it or without; a copy → put back."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from sinkql import faults
from sinkql.catalog.file.connection import BUSY_SECONDS
from sinkql.catalog.file.sqlite_file import check_ours, coded, create_private, make_private
from sinkql.errors import SinkqlError
from sinkql.table.file import FOLDER, OtherLogError, put_back, remove, table_path


def back_up(path: Path, target: Path, *, beside: Path | None = None) -> None:
    """Copy a catalog file at one moment into a new one; raises as opening does.

    Raises SQ4117 if the new file, or what is to come `beside` it, is there already.
    """
    for each in (target, beside):
        if each is not None and each.exists():
            raise SinkqlError("SQ4117", f'file "{each}" already exists', hint="Name another file.")
    with coded(path):
        source = sqlite3.connect(path, timeout=BUSY_SECONDS)
        try:
            check_ours(source, path)
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            create_private(target)
            copy = sqlite3.connect(target)
            try:
                source.backup(copy)
            finally:
                copy.close()
        finally:
            source.close()


def back_up_all(path: Path, target: Path) -> Path | None:
    """Copy a catalog file, and its tables into the folder `target`.tables; return that folder if there are any.

    The tables are those of the copied file, with the rows of a moment later. Raises SQ4117 if the file or the folder
    is there already, and as opening does.
    """
    folder = target.with_name(f"{target.name}.{FOLDER}")
    back_up(path, target, beside=folder)
    tables = [each for each in _tables(target, path.parent) if each.exists()]  # one may be dropped meanwhile
    if not tables:
        return None
    with coded(target):
        folder.mkdir(mode=0o700)
    for each in tables:
        _copy(each, folder / each.name)
    return folder


def restore(path: Path, copy: Path) -> Path | None:
    """Put a copy that `back_up_all` made back; return the backup of what was there, None where there was nothing.

    A table gets the copy's rows by a statement in its own log, so that its sinks go on; where its file is gone, or is
    of another log, the copy takes its place. Raises SQ4115 for a copy that is not there, SQ5211 while sinks run.
    """
    if not copy.exists():
        raise SinkqlError(
            "SQ4115", f'catalog file "{copy}" does not exist', hint="Name a copy by sinkql catalog backup."
        )
    with coded(copy), closing(sqlite3.connect(copy)) as source:
        check_ours(source, copy)
    kept = None
    if path.exists():
        _refuse_while_running(path)
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
        kept = path.with_name(f"{path.name}.before-{moment}.backup")
        back_up_all(path, kept)
    make_private(path)
    for mine in _tables(copy, path.parent):
        theirs = copy.with_name(f"{copy.name}.{FOLDER}") / mine.name
        if theirs.exists():
            _restore_table(mine, theirs)
    faults.point("tables-restored")
    with coded(path), closing(sqlite3.connect(copy)) as source, closing(sqlite3.connect(path)) as catalog:
        source.backup(catalog)
    return kept


def _restore_table(mine: Path, theirs: Path) -> None:
    if mine.exists():
        try:
            put_back(mine, theirs)
        except OtherLogError:
            remove(mine)
        else:
            return
    with coded(mine):
        mine.parent.mkdir(mode=0o700, exist_ok=True)
    _copy(theirs, mine)


def _copy(file: Path, target: Path) -> None:
    with coded(file), closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True)) as source:
        create_private(target)
        with closing(sqlite3.connect(target)) as copy:
            source.backup(copy)


def _refuse_while_running(path: Path) -> None:
    with coded(path), closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
        check_ours(connection, path)
        query = "SELECT count(*) FROM leases WHERE owner IS NOT NULL AND expires > ?"
        (running,) = connection.execute(query, (time.time(),)).fetchone()
    if running:
        raise SinkqlError(
            "SQ5211",
            f"{running} sink{'s' if running > 1 else ''} of the catalog {'are' if running > 1 else 'is'} running",
            hint="Stop sinkql up, or run sinkql stop with their names; restore the copy once they have stopped.",
        )


def _tables(catalog: Path, folder: Path) -> list[Path]:
    """Return the files that a catalog's tables have in a folder."""
    with coded(catalog), closing(sqlite3.connect(catalog)) as connection:
        query = "SELECT name, json_extract(facts, '$.table_id') FROM items WHERE kind = 'TABLE' ORDER BY number"
        found = connection.execute(query)
        return [table_path(folder, table_id, name) for name, table_id in found if table_id is not None]
