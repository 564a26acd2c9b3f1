"""Changes of a bucket, as they come from an operator's task → those that are left of rows that come and go at once.

What is computed of a row may be the same before and after, though the row is another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from sinkql import physical
from sinkql.runtime.local.murmur3 import is_hashable
from sinkql.runtime.local.xxhash64 import xxhash64
from sinkql.state_store.directory import StateDirectory
from sinkql.storage.consolidate import consolidate
from sinkql.storage.spill import Ranges, hash_range, spilled_parts


@dataclass(frozen=True, slots=True)
class Consolidation:
    """Add up the changes of equal rows, in parts by the sink's key where there are many; `home` has room for these."""

    key: tuple[str, ...]
    types: tuple[str, ...]
    home: StateDirectory

    @classmethod
    def of(cls, write: physical.Write, home: StateDirectory) -> Consolidation | None:
        """Return that of a sink; None where keys of its types are not hashed here."""
        types = {column.name: column.type for column in write.columns}
        found = tuple(types[name] for name in write.key)
        return cls(write.key, found, home) if all(map(is_hashable, found)) else None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what is left; `$diff` is the last column."""
        tables = (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)
        first = next(tables, None)
        if first is not None:
            for part in spilled_parts(chain([first], tables), first.schema, self._ranges, self.home.folder):
                yield from consolidate(part.rows.to_batches())

    def _ranges(self, rows: pa.Table) -> Ranges:
        return hash_range(xxhash64([rows.column(name).combine_chunks() for name in self.key], self.types))
