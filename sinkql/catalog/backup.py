"""Back up a catalog to a file, with the rows of its tables beside it, and restore a backup."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from sinkql.catalog.address import Address, ServerUrl, folder_of
from sinkql.catalog.open_store import missing, open_server
from sinkql.catalog.sqlite.connection import BUSY_SECONDS
from sinkql.catalog.sqlite.database import Database, Memory, back_up, write_copy
from sinkql.catalog.sqlite.private_file import check_ours, coded, create_private, make_private
from sinkql.catalog.store import Store
from sinkql.catalog.system import LAYOUT
from sinkql.errors import NoCatalogError, SinkqlError
from sinkql.machine import clock
from sinkql.storage import failpoint
from sinkql.table.file import FOLDER, OtherLogError, remove, restore_rows, table_path


def back_up_all(address: Address, target: Path) -> Path | None:
    """Copy a catalog to a file, and its tables to the folder `target`.tables; return the folder if it has tables.

    The rows of the tables are slightly newer than the catalog. Raises SQ4117 if the file or the folder exists, and as
    opening does.
    """
    folder = target.with_name(f"{target.name}.{FOLDER}")
    if isinstance(address, ServerUrl):
        copy = open_server(address, LAYOUT, existing=True).copy()
        write_copy(copy.connection, target, beside=folder)
        copy.close()
    else:
        if not address.exists():
            raise missing(f'catalog file "{address}" does not exist')
        back_up(address, target, beside=folder)
    tables = [
        table for table in _tables(target, folder_of(address)) if table.exists()
    ]  # a table may be dropped during the backup
    if not tables:
        return None
    with coded(target):
        folder.mkdir(mode=0o700)
    for table in tables:
        _copy(table, folder / table.name)
    return folder


def restore(address: Address, copy: Path) -> Path | None:
    """Restore a copy that `back_up_all` made; return the backup of the previous catalog, if there was one.

    A table gets the copy's rows by a statement in its log, so that its sinks continue. If its file is missing, or
    belongs to another log, the copy replaces it. Raises SQ4115 if the copy does not exist, SQ5211 while sinks run.
    """
    if not copy.exists():
        raise SinkqlError(
            "SQ4115", f'catalog file "{copy}" does not exist', hint="Name a file that sinkql catalog backup wrote."
        )
    with coded(copy), closing(sqlite3.connect(copy)) as source:
        check_ours(source, copy)
    moment = clock.now().strftime("%Y%m%dT%H%M%S%fZ")
    if isinstance(address, ServerUrl):
        return _restore_server(address, copy, address.folder / f"catalog.before-{moment}.backup")
    backup = None
    if address.exists():
        with coded(address), closing(sqlite3.connect(address, timeout=BUSY_SECONDS)) as plain:
            check_ours(plain, address)
        _refuse_while_running(Database(address, LAYOUT))
        backup = address.with_name(f"{address.name}.before-{moment}.backup")
        back_up_all(address, backup)
    make_private(address)
    _restore_tables(copy, address.parent)
    with coded(address), closing(sqlite3.connect(copy)) as source, closing(sqlite3.connect(address)) as catalog:
        source.backup(catalog)
    return backup


def _restore_server(url: ServerUrl, copy: Path, backup: Path) -> Path | None:
    try:
        _refuse_while_running(open_server(url, LAYOUT, existing=True))
    except NoCatalogError:
        before = None
    else:
        before = backup
    server = open_server(url, LAYOUT)
    if before is not None:
        back_up_all(url, before)
    source = _upgraded_content(copy)
    _restore_tables(copy, url.folder)
    server.replace(source)
    return before


def _upgraded_content(copy: Path) -> Memory:
    """Return the content of a copy, upgraded to the current tables; the copy stays unchanged."""
    with tempfile.TemporaryDirectory(prefix="sinkql-restore-") as folder, coded(copy):
        upgraded = Path(folder) / copy.name
        shutil.copy(copy, upgraded)
        return Database(upgraded, LAYOUT).copy()


def _restore_tables(copy: Path, folder: Path) -> None:
    for table in _tables(copy, folder):
        table_copy = copy.with_name(f"{copy.name}.{FOLDER}") / table.name
        if table_copy.exists():
            _restore_table(table, table_copy)
    failpoint.point("tables-restored")


def _restore_table(table: Path, table_copy: Path) -> None:
    if table.exists():
        try:
            restore_rows(table, table_copy)
        except OtherLogError:
            remove(table)
        else:
            return
    with coded(table):
        table.parent.mkdir(mode=0o700, exist_ok=True)
    _copy(table_copy, table)


def _copy(file: Path, target: Path) -> None:
    with coded(file), closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True)) as source:
        create_private(target)
        with closing(sqlite3.connect(target)) as copy:
            source.backup(copy)


def _refuse_while_running(database: Store) -> None:
    with database.read() as connection:
        query = "SELECT count(*) FROM leases WHERE owner IS NOT NULL AND expires > ?"
        running = connection.scalar(query, connection.clock())
    if running:
        raise SinkqlError(
            "SQ5211",
            f"{running} sink{'s' if running > 1 else ''} of the catalog {'are' if running > 1 else 'is'} running",
            hint="Stop sinkql up, or run sinkql stop with their names. Restore the copy after they have stopped.",
        )


def _tables(catalog: Path, folder: Path) -> list[Path]:
    """Return the files of a catalog's tables in a folder."""
    with coded(catalog), closing(sqlite3.connect(catalog)) as connection:
        query = "SELECT name, json_extract(facts, '$.table_id') FROM items WHERE kind = 'TABLE' ORDER BY number"
        rows = connection.execute(query)
        return [table_path(folder, table_id, name) for name, table_id in rows if table_id is not None]
