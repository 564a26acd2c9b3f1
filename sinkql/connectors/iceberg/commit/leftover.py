"""A table's folder → without the files that killed and failed attempts of the sink left there, a little at a time.

What is deleted has a name that only this sink gives, with an epoch not above its own and not below its first one in
this table, is older than three days, and is reached by no snapshot of a table that was loaded after the file had been
seen. The table is the sink's, so nothing of an earlier epoch can be committed any more; its own epoch's files are
looked for between two batches. Epochs before the first one are those of another table that had this folder: it may be
in the catalog under another name, or be registered again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from pyarrow.fs import FileInfo, FileSelector, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from sinkql.connectors.iceberg.commit.checkpoint import first_epoch
from sinkql.connectors.iceberg.commit.maintenance import may_delete, named_offsets
from sinkql.connectors.iceberg.file.manifest import manifests_of, said_of
from sinkql.connectors.iceberg.storage.access import AskingFileIO
from sinkql.connectors.iceberg.table.format_v3 import read_metadata
from sinkql.connectors.iceberg.table.metadata_file import PREFIX
from sinkql.storage import failpoint

_OLD = 3 * 86400.0
"""Seconds, as long as Iceberg's own removal of such files waits."""
_EVERY = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class _Found:
    """A file with a name that tells what it is."""

    location: str
    at: float


class OrphanFiles:
    """What attempts of one claim of a table, and of earlier ones, left: looked for at first, and every few hours.

    `load` gives the table as it is now, `busy` the id of an attempt that is being made between batches. `sql` tells
    that the sink's own commits write the metadata files, whose names do not say whose they are.
    """

    def __init__(
        self, load: Callable[[], Table], busy: Callable[[], str | None], *, sink: str, epoch: int, sql: bool
    ) -> None:
        self._load, self._busy = load, busy
        self._sink, self._epoch, self._sql = sink, epoch, sql
        id_ = re.escape(sink)
        self._own = re.compile(
            rf"[bcf]\d+-{id_}-(\d+)-.+\.(?:parquet|stats)"
            rf"|(?:snap-\d+-0-)?sinkql-{id_}-(\d+)-[0-9a-f-]{{36}}(?:-m\d+)?\.avro"
            rf"|{PREFIX}{id_}-(\d+)-[0-9a-f]{{32}}-(?:offsets|replayed)\.stats"
        )
        self._draft = re.compile(rf"\.(?:version-hint\.text|{PREFIX}{id_}-.+)\.[0-9a-f]{{16}}")
        self._steps: Iterator[None] | None = None
        self._asked = False
        self._due_at = 0.0

    @property
    def asked(self) -> bool:
        """Tell whether a look that somebody asked for is not done yet."""
        return self._asked

    def run(self, go_on: Callable[[], bool], *, now: bool = False) -> None:
        """Look and delete while there is time; the next call goes on. `now` begins where nothing is due.

        What fails is tried again hours later: no sink stops for it.
        """
        if self._steps is None and not now and time.monotonic() < self._due_at:
            return
        if self._steps is None or (now and not self._asked):
            self._steps, self._asked = self._look(), now
        try:
            while go_on():
                next(self._steps)
        except Exception:  # also the end of the steps
            self._steps, self._asked = None, False

    def _look(self) -> Iterator[None]:
        self._due_at = time.monotonic() + _EVERY
        table = self._load()
        if not may_delete(table):
            return
        found: dict[str, _Found] = {}
        for folder in _folders(table):
            yield from self._list(table, folder, found)
        table = self._load()
        reached: set[str] = set()
        for paths in _reached(table):
            reached.update(_base(path) for path in paths)
            yield
        until = time.time() - _OLD
        for name in sorted(found.keys() - reached):
            if found[name].at > until or not self._dead(found[name].location, table):
                continue
            failpoint.point("leftover")
            with suppress(OSError):
                table.io.delete(found[name].location)
            yield

    def _list(self, table: Table, folder: str, found: dict[str, _Found]) -> Iterator[None]:
        """Note the files of a folder, and of those in it, that may be left over."""
        first = first_epoch(table, self._sink)
        for info in _entries(table, folder):
            location = f"{folder}/{info.base_name}"
            if info.type == FileType.Directory:
                yield from self._list(table, location, found)
            elif info.mtime is not None and self._nameable(info.base_name, first):
                found[info.base_name] = _Found(location, info.mtime.timestamp())
        yield

    def _nameable(self, name: str, first: int | None) -> bool:
        if self._draft.fullmatch(name) or (self._sql and _version(name) is not None):
            return True
        own = self._own.fullmatch(name)
        if own is None or first is None or not first <= int(own[own.lastindex or 1]) <= self._epoch:
            return False
        busy = self._busy()
        return busy is None or busy not in name

    def _dead(self, location: str, table: Table) -> bool:
        """Tell whether a file that nothing reaches is of no use: of metadata files the table's that a commit passed."""
        version = _version(_base(location))
        if version is None:
            return True
        last = _version(_base(table.metadata_location))
        if table.properties.get("write.metadata.delete-after-commit.enabled") != "true" or version >= (last or 0):
            return False
        # Another table may have been in this folder, or still be, under another name.
        try:
            told = read_metadata(table.io.new_input(location))
        except Exception:  # torn: nobody can tell whose it is
            return False
        return told.table_uuid == table.metadata.table_uuid


def _folders(table: Table) -> tuple[str, ...]:
    provider = table.location_provider()
    return provider.data_path, provider.metadata_path


def _entries(table: Table, folder: str) -> list[FileInfo]:
    io = table.io
    if not isinstance(io, PyArrowFileIO):  # pyiceberg's other one lists no folders
        return []
    if isinstance(io, AskingFileIO):
        io.renew()
    scheme, netloc, path = io.parse_location(folder, io.properties)
    selector = FileSelector(path, recursive=False, allow_not_found=True)
    found: list[FileInfo] = io.fs_by_scheme(scheme, netloc).get_file_info(selector)
    return found


def _reached(table: Table) -> Iterator[set[str]]:
    """Yield what the table reaches, a file's worth at a time."""
    yield {table.metadata_location, *(each.metadata_file for each in table.metadata.metadata_log)}
    yield named_offsets(table, table.metadata.snapshots)
    seen: set[str] = set()
    for snapshot in table.metadata.snapshots:
        manifests = manifests_of(table, snapshot)
        yield {snapshot.manifest_list, *(each.manifest_path for each in manifests)}
        for manifest in manifests:
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                yield {entry.data_file.file_path for entry in said_of(table.io, manifest)}


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _version(name: str) -> int | None:
    found = re.fullmatch(r"(\d+)-[0-9a-f-]{36}\.metadata\.json", name)
    return int(found[1]) if found is not None else None
