"""What a compaction does: files in place of others, and how many and how large both are."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeAlias

from sinkql.connectors.iceberg.commit.snapshot import FileChange


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
