"""Write rows that only the driver's machine can read to files in the state store, for tasks on other machines.

Only the rows of one file are in memory at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from sinkql.errors import LostStateError
from sinkql.runtime.state.manifest import HANDED
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import files

_FILE_BYTES = 64 << 20


@dataclass(slots=True)
class StagedRows:
    """The rows of one source in one attempt at a batch; the files are in `home`, with the prefix `name`.

    The name begins with an epoch, so that cleanup finds the files of a killed process.
    """

    home: StateDirectory
    name: str
    _files: list[str] = field(default_factory=list)

    def stage(self, rows: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
        """Write all rows to the store, and return the number of files."""
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

    def read_task(self) -> Callable[[int], Iterator[pa.RecordBatch]]:
        """Return a function that reads the rows of a file by its number, in a task."""
        home, files = self.home.for_tasks(), tuple(self._files)

        def rows(number: int) -> Iterator[pa.RecordBatch]:
            if home.fetch({files[number]: None}):
                raise LostStateError("SQ3404", f'state file "{files[number]}" is missing or damaged')
            with pa.memory_map(str(home.folder / files[number])) as data:
                yield from pa.ipc.open_stream(data)

        return rows

    def delete(self) -> None:
        """Delete the files."""
        self.home.delete_unused(self._files)
