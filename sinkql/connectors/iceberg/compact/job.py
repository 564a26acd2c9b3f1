"""What a compaction does: files in place of others, and how many and how large both are."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from pyiceberg.table import Table

from sinkql.connectors.iceberg.commit.snapshot import FileChange
from sinkql.connectors.iceberg.file.data import FileEntry


@dataclass(frozen=True, slots=True)
class Footprint:
    """Count files and their bytes."""

    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Compaction:
    """The files are written, nothing is committed.

    `deletes` are the manifests of delete files that the old files were read under; `index` names the key index of the
    table as it will be.
    """

    change: FileChange
    deletes: frozenset[str]
    before: Footprint
    after: Footprint
    index: str | None = None


Steps: TypeAlias = Generator[None, None, Compaction | None]
"""A compaction in steps, each of which takes a moment, with batches in between; None if there is nothing to do."""


def remove(table: Table, files: Iterable[FileEntry]) -> None:
    """Delete what a compaction wrote that nothing will commit any more, as far as the storage lets it."""
    for entry in files:
        with suppress(OSError):
            table.io.delete(entry.path)
