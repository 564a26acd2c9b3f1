"""What a table's files cost who reads all of it, beside its live rows: what compaction is to keep small.

Microseconds of CPU as DuckDB 1.5 takes them; `bench/README.md` has the measurements. Other engines pay for the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sinkql.connectors.iceberg.key_index.layer import FileRecord

_VALUE, _POSITION, _FILE, _DELETES = 0.018, 0.2, 150.0, 750.0
"""A value; a position in a delete file; a data file; a delete file."""
_DEAD, _SCATTERED = 0.04, 0.04
"""Of what the live rows of a table cost: what its dead rows, and its files, may cost more."""
_FEW = 0.02
"""As large a part of the rows may be dead, or tables of few columns would be written again all the time."""
_LEAST = 100_000.0
"""Who reads a table smaller than this waits for other things."""


@dataclass(frozen=True, slots=True)
class ReadCost:
    """The cost of rows with so many columns, those of nested ones counted."""

    columns: int

    def dead(self, files: Iterable[FileRecord]) -> float:
        """Return what the dead rows of files cost."""
        return (self._row + _POSITION) * sum(note.dead for note in files)

    def tolerable_dead(self, files: Iterable[FileRecord]) -> float:
        """Return what the dead rows of a table of these files may cost; few may stay in narrow tables too."""
        there = list(files)
        few = _FEW * (self._row + _POSITION) * sum(note.rows for note in there)
        return max(few, _DEAD * self._whole(there))

    def scattered(self, files: Iterable[FileRecord], excess: int, excess_deletes: int) -> bool:
        """Tell whether so many data and delete files more than a table of these needs cost too much."""
        return excess * _FILE + excess_deletes * _DELETES > _SCATTERED * self._whole(files)

    @property
    def _row(self) -> float:
        return _VALUE * self.columns

    def _whole(self, files: Iterable[FileRecord]) -> float:
        return max(_LEAST, self._row * sum(note.rows - note.dead for note in files))
