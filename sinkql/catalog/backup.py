"""Copy a catalog to a file, with the rows of its tables beside it, and restore such a copy."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from sinkql.catalog.address import Address, ServerUrl, folder_of
from sinkql.catalog.open_store import missing, open_server
from sinkql.catalog.sqlite.connection import BUSY_SECONDS
from sinkql.catalog.sqlite.database import Database, Memory, back_up, write_copy
from sinkql.catalog.sqlite.private_file import check_ours, coded, create_private, make_private
from sinkql.catalog.store import Store
from sinkql.catalog.system import LAYOUT
from sinkql.errors import NoCatalogError, SinkqlError
from sinkql.storage import failpoint
from sinkql.table.file import FOLDER, OtherLogError, remove, restore_rows, table_path


def back_up_all(address: Address, target: Path) -> Path | None:
    """Copy a catalog into a file, and its tables into the folder `target`.tables; return that folder if there are any.

    The tables are those of the copied catalog, with the rows of a moment later. Raises SQ4117 if the file or the folder
    is there already, and as opening does.
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
    tables = [each for each in _tables(target, folder_of(address)) if each.exists()]  # one may be dropped meanwhile
    if not tables:
        return None
    with coded(target):
        folder.mkdir(mode=0o700)
    for each in tables:
        _copy(each, folder / each.name)
    return folder


def restore(address: Address, copy: Path) -> Path | None:
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
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    if isinstance(address, ServerUrl):
        return _restore_server(address, copy, address.folder / f"catalog.before-{moment}.backup")
    kept = None
    if address.exists():
        with coded(address), closing(sqlite3.connect(address, timeout=BUSY_SECONDS)) as plain:
            check_ours(plain, address)
        _refuse_while_running(Database(address, LAYOUT))
        kept = address.with_name(f"{address.name}.before-{moment}.backup")
        back_up_all(address, kept)
    make_private(address)
    _restore_tables(copy, address.parent)
    with coded(address), closing(sqlite3.connect(copy)) as source, closing(sqlite3.connect(address)) as catalog:
        source.backup(catalog)
    return kept


def _restore_server(url: ServerUrl, copy: Path, kept: Path) -> Path | None:
    try:
        _refuse_while_running(open_server(url, LAYOUT, existing=True))
    except NoCatalogError:
        before = None
    else:
        before = kept
    server = open_server(url, LAYOUT)
    if before is not None:
        back_up_all(url, before)
    source = _brought_up_to_date(copy)
    _restore_tables(copy, url.folder)
    server.replace(source)
    return before


def _brought_up_to_date(copy: Path) -> Memory:
    """Return the content of a copy, upgraded to the tables of this version; the copy stays unchanged."""
    with tempfile.TemporaryDirectory(prefix="sinkql-restore-") as folder, coded(copy):
        place = Path(folder) / copy.name
        shutil.copy(copy, place)
        return Database(place, LAYOUT).copy()


def _restore_tables(copy: Path, folder: Path) -> None:
    for mine in _tables(copy, folder):
        theirs = copy.with_name(f"{copy.name}.{FOLDER}") / mine.name
        if theirs.exists():
            _restore_table(mine, theirs)
    failpoint.point("tables-restored")


def _restore_table(mine: Path, theirs: Path) -> None:
    if mine.exists():
        try:
            restore_rows(mine, theirs)
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


def _refuse_while_running(database: Store) -> None:
    with database.read() as connection:
        query = "SELECT count(*) FROM leases WHERE owner IS NOT NULL AND expires > ?"
        running = connection.scalar(query, connection.clock())
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
