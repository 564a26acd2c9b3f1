"""What an upsert task tells the driver of one bucket: picklable, no heavy imports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sinkql.connectors.iceberg.datafile import FileEntry


@dataclass(frozen=True, slots=True)
class UpsertResult:
    """Hold one bucket's new files: `WriteResult.data` of an `UpsertTask`, None in its place where no row came.

    `index` names the index that was probed. `dead` counts rows that died, by file id. `merged` names the older runs
    that `run` takes the place of.
    """

    index: str
    buckets: int
    bucketing: str
    file_id: int
    file: FileEntry | None = None
    deletes: tuple[FileEntry, ...] = ()
    dead: Mapping[int, int] = field(default_factory=dict)
    run: str | None = None
    run_rows: int = 0
    merged: tuple[str, ...] = ()

    @property
    def entries(self) -> tuple[FileEntry, ...]:
        """Return the files that the snapshot adds."""
        return (*(() if self.file is None else (self.file,)), *self.deletes)
