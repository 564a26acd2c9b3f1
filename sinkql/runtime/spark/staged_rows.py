"""Rows that only the driver's machine can read → files in the store, which tasks on other machines fetch.

No more of them are in memory at once than go into a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import pyarrow as pa

from sinkql.errors import LostStateError
from sinkql.runtime.spark.arrow import batches_to_spark
from sinkql.runtime.state.manifest import HANDED
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import files

_FILE_BYTES = 64 << 20


@dataclass(slots=True)
class StagedRows:
    """Rows of one source in one attempt at a batch; files are in `home`, and `name` is what theirs begin with.

    A name begins with an epoch, so that a sweep finds the files of a process that was killed.
    """

    home: StateDirectory
    name: str
    _files: list[str] = field(default_factory=list)

    def stage(self, rows: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
        """Put all rows into the store, and return in how many files."""
        left = iter(rows)
        while (first := next(left, None)) is not None:
            name = f"{HANDED}/{self.name}-{len(self._files)}.arrow"
            path, size = self.home.folder / name, 0
            with files.write_stream(path) as file, pa.ipc.new_stream(file, schema) as writer:
                batch: pa.RecordBatch | None = first
                while batch is not None:
                    writer.write_batch(batch)
                    size += batch.nbytes
                    batch = next(left, None) if size < _FILE_BYTES else None
            self.home.upload([name])
            path.unlink()
            self._files.append(name)
        return len(self._files)

    def read_task(
        self, told: Callable[[], AbstractContextManager[None]]
    ) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Return what gives, in tasks, the rows of files whose numbers come; `told` is around it."""
        home, files = self.home.for_tasks(), tuple(self._files)

        def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            with told():
                for number in (each for batch in batches for each in batch.column(0).to_pylist()):
                    if home.fetch({files[number]: None}):
                        raise LostStateError("SQ3404", f'state file "{files[number]}" is missing or damaged')
                    with pa.memory_map(str(home.folder / files[number])) as data:
                        yield from batches_to_spark(iter(pa.ipc.open_stream(data)))

        return rows

    def delete(self) -> None:
        """Delete the files."""
        self.home.delete_unused(self._files)
