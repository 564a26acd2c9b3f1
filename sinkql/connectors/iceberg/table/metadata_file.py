"""Small files beside a table's metadata: written whole or not at all, and read back."""

from __future__ import annotations

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from sinkql.connectors.iceberg.storage import AskingFileIO, local_folder
from sinkql.storage import files

PREFIX, SUFFIX = "_sinkql-", ".stats"
"""How the names of own files begin and end.

Spark leaves hidden files where it removes those that no snapshot reaches; and some stores take only names of the kinds
that Iceberg's own files have. Other cleaners delete them after some days, unless they are written again.
"""


def metadata_path(table: Table, name: str) -> str:
    """Return the path of a file in the table's metadata folder; its name should have `PREFIX` and `SUFFIX`."""
    return table.location_provider().new_metadata_location(name)


def write_once(table: Table, path: str, data: bytes) -> None:
    """Write a file unless it is there; a local one appears whole, as an object does in an object store."""
    if not table.io.new_input(path).exists():
        _write(table, path, data)


def write_again(table: Table, path: str, data: bytes, *, since: float) -> None:
    """Write a file once more, unless it is there and was written after `since`, as seconds of the clock.

    One that is there stays as it is: what it is the copy of may be damaged by now.
    """
    at = _written_at(table, path)
    if at is None or at < since:
        present = read(table, path)
        _write(table, path, data if present is None else present)


def _written_at(table: Table, path: str) -> float | None:
    """Return when a file was written; None where there is none, or nobody can tell."""
    io = table.io
    if not isinstance(io, PyArrowFileIO):
        return None
    if isinstance(io, AskingFileIO):
        io.renew()
    scheme, netloc, place = io.parse_location(path, io.properties)
    (info,) = io.fs_by_scheme(scheme, netloc).get_file_info([place])
    return info.mtime.timestamp() if info.mtime is not None else None


def _write(table: Table, path: str, data: bytes) -> None:
    local = local_folder(path)
    if local is None:
        with table.io.new_output(path).create(overwrite=True) as stream:
            stream.write(data)
        return
    files.write_atomic(local, data)


def read(table: Table, path: str) -> bytes | None:
    """Return a file's bytes, None if it is not there."""
    source = table.io.new_input(path)
    if not source.exists():
        return None
    with source.open() as stream:
        return stream.read()
