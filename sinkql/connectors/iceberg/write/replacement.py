"""The data files of an append sink, whose rows can be read back and replaced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from sinkql.connector_api.stream import Checkpoint, ReplaceableFiles, WriteResult, WriteTask
from sinkql.connectors.iceberg.file.reader import live_rows
from sinkql.connectors.iceberg.storage import storage_errors
from sinkql.connectors.iceberg.write.append import AppendMode
from sinkql.connectors.iceberg.write.claimed_table import ClaimedTable
from sinkql.connectors.iceberg.write.mode import commit_batch


class DataFiles(ReplaceableFiles):
    """The data files of one claim of an append sink's table."""

    def __init__(self, claimed: ClaimedTable, mode: AppendMode) -> None:
        self._claimed, self._mode = claimed, mode

    def rows_by_file(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield the live rows of each file; raises SQ3554 for a file or a delete that SinkQL does not read."""
        table, _ = self._claimed.current
        with storage_errors(self._claimed.name):
            yield from live_rows(table)

    def replace_files(
        self, task: WriteTask, results: Sequence[WriteResult], checkpoint: Checkpoint, replaced: frozenset[str]
    ) -> None:
        """Commit one snapshot with the task's files in place of others; raises as `ClaimedTable.commit` does."""
        commit_batch(self._claimed, self._mode, task, results, checkpoint, replaced)
        self._mode.compactor.forget(replaced)
