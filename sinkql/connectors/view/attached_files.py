"""Keep copies of source files beside a view's log."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from sinkql.connector_api.stream import FileKeeper
from sinkql.connectors.view.log import ViewLog
from sinkql.errors import SinkqlError
from sinkql.storage import files


class AttachedFiles(FileKeeper):
    """The copies of source files in the directory of a log."""

    def __init__(self, log: ViewLog) -> None:
        self._log = log

    def store_file(self, name: str, data: bytes) -> None:
        """Store a file beside the log."""
        files.write_atomic(self._log.directory.folder / _path(name), data)
        self._log.directory.ensure_uploaded([_path(name)])  # another host may have deleted it from the store

    def load_file(self, name: str) -> bytes | None:
        """Return a file that `store_file` stored; None if it does not exist."""
        return self._log.directory.read_small(_path(name))

    def refresh_files(self, files: Mapping[str, bytes]) -> None:
        """Do nothing: no cleaner deletes files beside the log."""

    def delete_file(self, name: str) -> bool:
        """Delete a file that `store_file` stored."""
        with suppress(SinkqlError, OSError):  # a file that stays is harmless: no reader reads it
            self._log.delete_file(_path(name))
        return True


def _path(name: str) -> str:
    return f"attached/{name}"
