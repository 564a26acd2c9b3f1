"""Copies of source files in the metadata folder of the sink's table."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.table import Table

from sinkql.connector_api.stream import FileKeeper
from sinkql.connectors.iceberg.commit.checkpoint import offsets_again
from sinkql.connectors.iceberg.storage import storage_errors
from sinkql.connectors.iceberg.table.metadata_file import PREFIX, SUFFIX, metadata_path, read, write_again, write_once
from sinkql.connectors.iceberg.write.claimed_table import ClaimedTable
from sinkql.machine import clock

_OLD_SECONDS = 86400.0
"""Cleaners of S3 Tables delete files that no snapshot names after three days, others after a week."""


class TableFiles(FileKeeper):
    """The files of one sink beside the metadata of its table."""

    def __init__(self, claimed: ClaimedTable) -> None:
        self._claimed = claimed

    def store_file(self, name: str, data: bytes) -> None:
        """Store a file in the table's metadata folder unless it exists."""
        table, _ = self._claimed.current
        with storage_errors(self._claimed.name):
            write_once(table, self._path(table, name), data)

    def load_file(self, name: str) -> bytes | None:
        """Return the contents of a stored file; None if it does not exist."""
        table = self._claimed.loaded
        with storage_errors(self._claimed.name):
            return read(table, self._path(table, name))

    def refresh_files(self, files: Mapping[str, bytes]) -> None:
        """Write files that are a day old again, and the file with the sink's offsets, if the checkpoint names one."""
        # nothing is written to the folder of a dropped table
        table, (_, stored) = self._claimed.load(), self._claimed.current
        offsets = offsets_again(table, stored.checkpoint)
        paths = {self._path(table, name): data for name, data in files.items()}
        if offsets is not None:
            paths[metadata_path(table, offsets[0])] = offsets[1]
        with storage_errors(self._claimed.name):
            for path, data in paths.items():
                write_again(table, path, data, since=clock.time() - _OLD_SECONDS)

    def delete_file(self, name: str) -> bool:
        """Delete a stored file; return False if the storage refuses now, so that the next sweep tries again."""
        table, _ = self._claimed.current
        try:
            table.io.delete(self._path(table, name))
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def _path(self, table: Table, name: str) -> str:
        flat = name.replace("/", "-")  # some stores accept no folders there
        return metadata_path(table, f"{PREFIX}{self._claimed.sink}-{flat}{SUFFIX}")
