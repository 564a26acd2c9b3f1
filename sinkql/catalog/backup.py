"""A catalog → a copy of its file, and of the rows of its tables beside it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from sinkql.catalog.database import back_up, coded, create_private
from sinkql.connectors.table.place import FOLDER, table_path


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
        with coded(each), closing(sqlite3.connect(f"{each.absolute().as_uri()}?mode=rw", uri=True)) as source:
            create_private(folder / each.name)
            with closing(sqlite3.connect(folder / each.name)) as copy:
                source.backup(copy)
    return folder


def _tables(catalog: Path, folder: Path) -> list[Path]:
    """Return the files that a catalog's tables have in a folder."""
    with coded(catalog), closing(sqlite3.connect(catalog)) as connection:
        query = "SELECT name, json_extract(facts, '$.table_id') FROM items WHERE kind = 'TABLE' ORDER BY number"
        return [table_path(folder, table_id, name) for name, table_id in connection.execute(query)]
