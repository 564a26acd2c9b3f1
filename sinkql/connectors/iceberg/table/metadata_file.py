"""Write small files atomically beside a table's metadata, and read them."""

from __future__ import annotations

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from sinkql.connectors.iceberg.storage import AskingFileIO, local_folder
from sinkql.storage import files

PREFIX, SUFFIX = "_sinkql-", ".stats"
"""The prefix and suffix of these files' names.

Spark does not delete hidden files as orphans, and some stores accept only the suffixes of Iceberg's files. Other
cleaners delete the files after some days, unless they are written again.
"""


def metadata_path(table: Table, name: str) -> str:
    """Return the path of a file in the table's metadata folder; `name` should have `PREFIX` and `SUFFIX`."""
    return table.location_provider().new_metadata_location(name)


def write_once(table: Table, path: str, data: bytes) -> None:
    """Write a file unless it exists; a local file appears atomically, like an object in an object store."""
    if not table.io.new_input(path).exists():
        _write(table, path, data)


def write_again(table: Table, path: str, data: bytes, *, since: float) -> None:
    """Write a file again, unless it exists and was written after `since`, in seconds since 1970.

    An existing file keeps its contents, because `data` may come from a damaged original.
    """
    at = _written_at(table, path)
    if at is None or at < since:
        present = read(table, path)
        _write(table, path, data if present is None else present)


def _written_at(table: Table, path: str) -> float | None:
    """Return when a file was written; None if it does not exist or the time is unknown."""
    io = table.io
    if not isinstance(io, PyArrowFileIO):
        return None
    if isinstance(io, AskingFileIO):
        io.renew()
    scheme, netloc, file = io.parse_location(path, io.properties)
    (info,) = io.fs_by_scheme(scheme, netloc).get_file_info([file])
    return info.mtime.timestamp() if info.mtime is not None else None


def _write(table: Table, path: str, data: bytes) -> None:
    local = local_folder(path)
    if local is None:
        with table.io.new_output(path).create(overwrite=True) as stream:
            stream.write(data)
        return
    files.write_atomic(local, data)


def read(table: Table, path: str) -> bytes | None:
    """Return a file's bytes; None if it does not exist."""
    source = table.io.new_input(path)
    if not source.exists():
        return None
    with source.open() as stream:
        return stream.read()
