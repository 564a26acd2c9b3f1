"""Compact the files of an upsert sink: rewrite files without their dead rows, and the index with them."""

from __future__ import annotations

from sinkql.connectors.iceberg.commit.checkpoint import StoredCheckpoint
from sinkql.connectors.iceberg.compact.compaction import (
    Attempt,
    Compaction,
    Failures,
    Steps,
    WrongIndexError,
    delete_files,
)
from sinkql.connectors.iceberg.compact.selection import choose
from sinkql.connectors.iceberg.compact.upsert import UpsertCompaction
from sinkql.connectors.iceberg.key_index.index import Index
from sinkql.connectors.iceberg.write.table_index import TableIndex

_FILES_A_LOOK = 256
"""The files of a table for each commit between two searches for due compactions."""


class UpsertCompactor:
    """The compactions of one claim; a `Compactor`."""

    def __init__(self, index: TableIndex) -> None:
        self._index = index
        self._rewritten: Index | None = None
        self._failures = Failures()
        self._calls = self._files = 0
        self._under_way: frozenset[str] = frozenset()

    def compact(self, attempt: Attempt, stored: StoredCheckpoint) -> Steps:
        """Rewrite files without dead rows."""
        self._rewritten = None
        while (index := self._index.as_of(attempt.table())) is None:
            if attempt.beside:
                return None
            yield False
        if attempt.scope is not None:
            attempt.scope.fix(index.paths())
        self._calls += 1
        if attempt.scope is None and self._calls * _FILES_A_LOOK < self._files:
            return None
        self._calls, self._files = 0, len(index.files)
        beside = self._under_way if attempt.beside else None
        parts = choose(index, attempt.table(), self._failures, attempt.scope, beside)
        if parts is None:
            return None
        if not attempt.beside:
            self._under_way = frozenset(record.path for part in parts for record in part.files.values())
        key = tuple(column.name for column in index.key)
        rewriting = UpsertCompaction(
            lambda: self._index.fetched_as_of(attempt.table()), self._index.folder, attempt, sink=index.sink, key=key,
            epoch=stored.checkpoint.epoch, failed=self._failures,
        )  # fmt: skip
        rewritten = yield from rewriting.rewrite(parts)
        if rewritten is None:
            return None
        compaction, self._rewritten = rewritten
        try:
            self._index.save(self._rewritten)
        except BaseException:
            delete_files(attempt.table(), compaction.change.add)
            raise
        return compaction

    def on_compacted(self, compaction: Compaction, snapshot: int) -> None:
        """Continue with the index of the compaction."""
        assert self._rewritten is not None, "nothing rewritten"
        self._index.adopt(self._rewritten, snapshot)
        self._rewritten = None
        self._files = 0  # search again: one compaction may not include all due files

    def on_commit_failed(self, error: Exception) -> None:
        """Continue with the index before the compaction; rebuild it if the error shows that it is wrong."""
        self._rewritten = None
        if isinstance(error, WrongIndexError):
            self._index.invalidate()
        self._failures.record(error)

    def skipped_files(self) -> str | None:
        """Return why compaction skips a file of the table; None if it skips none."""
        return self._failures.skip_reason(self._index.paths())
