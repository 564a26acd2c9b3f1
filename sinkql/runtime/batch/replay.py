"""Replay dead letters: decode them again, commit their rows, and delete them from the dead-letter table.

A replay changes two tables, and no commit covers both. The commit of the rows decides: its checkpoint names a list of
the replayed records, stored beside the dead-letter table. The records are deleted from that table afterwards. If the
process dies in between, the next process that claims the sink deletes them first. To delete a record twice is harmless.

Only a sink that appends can replay late. In other sinks the order of the records decides which rows remain, or a full
refresh may come some day. There, a replay is a full refresh: it reads the records from the source again and deletes
the dead letters that no longer fail. Every full refresh does so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sinkql import physical
from sinkql.connector_api.source_options import can_reread_source, may_replay_late
from sinkql.connector_api.stream import (
    NO_PLAN,
    Committed,
    DecodedMessages,
    JobOffsets,
    Limit,
    Offsets,
    ReadCounts,
    Reader,
    RowError,
    Size,
    Split,
    StaleFilesError,
    WriteResult,
)
from sinkql.errors import LostPositionError
from sinkql.runtime.batch.attempt import ATTEMPTS, BatchComputation, foreign_writer_error
from sinkql.runtime.batch.dead_letter import DeadLetterTable
from sinkql.runtime.batch.engine import Outcome
from sinkql.runtime.batch.failure import disk_full_as_error
from sinkql.runtime.batch.source_files import SourceFiles
from sinkql.storage import failpoint

_COMMIT_ROWS = 20_000
"""Records in one commit, unless a part of a file has more."""
_CHUNK_ROWS = 1000
Identity = tuple[str, str, int | None]
"""The source of a record, its position, and, if that matters, when it was read, in microseconds."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """How many records of a source were replayed, and how many dead letters are left."""

    replayed: int
    left: int


@dataclass(slots=True)
class DeadLetterReplay:
    """The dead letters of a running sink: the dead letters that its next batch must end with, and their replay.

    `table` is None if no source of the job keeps dead letters. `report` gets each commit of a replay.
    """

    table: DeadLetterTable | None
    computation: BatchComputation
    source_files: SourceFiles
    folder: Path
    full_refresh: Callable[[], Committed]
    report: Callable[[Committed, Outcome], None]

    def start(self, *, renew: Callable[[], None] | None) -> None:
        """Claim the dead-letter table under the epoch of the sink's table, and finish a replay."""
        if self.table is not None:
            checkpoint = self.computation.table.checkpoint
            self.table.start(checkpoint.end, epoch=checkpoint.epoch, renew=renew)
            self.settle()

    # --- the next batch ----------------------------------------------------------------------------------------------

    def pending_end(self) -> JobOffsets | None:
        """Return where the next batch must end if its dead letters are committed; else None."""
        return self.table.pending_end(self.computation.table.checkpoint.end) if self.table is not None else None

    def discard_pending(self) -> None:
        """Delete committed dead letters of the next batch, so that it may end elsewhere."""
        if self.table is not None and self.pending_end() is not None:
            self.table.discard_pending()

    def restore_pending(self) -> None:
        """Restore the source files that the pending end needs; discard it if they are lost."""
        end = self.pending_end()
        if end is None:
            return
        try:
            self.source_files.restore(end)
        except LostPositionError:
            self.discard_pending()

    def translate_pending(self) -> JobOffsets | None:
        """Return the pending end as the sources have it now.

        If a source can no longer end there, discard it and return None.
        """
        pending = self.pending_end()
        if pending is None:
            return None
        starts = self.computation.table.checkpoint.end
        readers = self.computation.readers
        translated = {name: reader.translate_end(starts[name], pending[name]) for name, reader in readers.items()}
        ends = {name: end for name, end in translated.items() if end is not None}
        if len(ends) < len(translated):
            self.discard_pending()
            return None
        return ends

    def maintain(self, go_on: Callable[[bool], bool], *, interval: timedelta) -> None:
        """Maintain the dead-letter table as `Maintainable.maintain` does."""
        if self.table is not None:
            self.table.maintain(go_on, interval=interval)

    # --- replay ------------------------------------------------------------------------------------------------------

    @disk_full_as_error()
    def replay(self, read: physical.Read) -> Replayed:
        """Replay the dead letters of a source. The loop has started and has no unread output.

        Raises SQ3394 if dead letters are incomplete, SQ3415 if the source no longer has the records, and what a batch
        may raise. No record is lost then.
        """
        letters = self._letters
        self.settle()
        count = _count(letters, read.name)
        if count and self.computation.table.checkpoint.plan != NO_PLAN:
            if may_replay_late(self.computation.job, read):
                for records in _parts(letters, read.name):
                    self._replay_part(read, records)
            else:
                self.full_refresh()
        left = _count(letters, read.name)
        return Replayed(count - left, left)

    @property
    def _letters(self) -> DeadLetterTable:
        assert self.table is not None, "the job keeps no dead letters"
        return self.table

    def settle(self) -> None:
        """Delete the dead letters whose rows are committed."""
        name = self.computation.table.checkpoint.replayed
        if self.table is None or name is None:
            return
        identities_json = self.table.read_list(name)
        if identities_json is None:
            return
        failpoint.point("replayed")
        replayed = {tuple(identity) for identity in json.loads(identities_json)}
        self.table.remove(
            name, lambda rows: pa.array([identity in replayed for identity in identities(rows)], pa.bool_())
        )

    def list_decoded(self, failed: Sequence[WriteResult], commit: str) -> str | None:
        """List the dead letters that did not fail again in a full refresh; return the list's name, None if empty."""
        job, letters = self.computation.job, self._letters
        sources = {read.name for read in job.reads() if can_reread_source(job, read)}
        failing = {(source, position) for result in failed for source, position, _ in result.data}
        stored = (identity for _, rows in letters.rows() for identity in identities(rows))
        decoded = (identity for identity in stored if identity[0] in sources and identity[:2] not in failing)
        return _store_list(letters, commit, decoded)

    def _replay_part(self, read: physical.Read, records: pa.Table) -> None:
        """Commit the rows of the records that decode now, in one commit."""
        path = self.folder / "replay.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, records.schema) as writer:
            writer.write_table(records, max_chunksize=_CHUNK_ROWS)
        try:
            reader = DeadLetterReader(self.computation.readers[read.source])
            split = {"file": str(path), "rows": records.num_rows, "bytes": records.nbytes}
            if self._commit_rows(read.source, reader, [split]):
                self.settle()
        finally:
            path.unlink(missing_ok=True)

    def _commit_rows(self, source: str, reader: Reader, splits: Sequence[Split]) -> Committed | None:
        """Commit the rows that another reader of a source reads, at the offsets of the checkpoint.

        The checkpoint names the list of the records. Return None if no record decodes.
        """
        computation, table = self.computation, self.computation.table
        for _ in range(ATTEMPTS):
            checkpoint = table.refresh()
            state = computation.load_state()
            task = computation.begin(state)
            outcome = computation.compute(
                task, state, checkpoint.end, checkpoint.end,
                {name: splits if name == source else [] for name in computation.readers},
                readers={**computation.readers, source: reader}, dead_letters=IdentityCollector(),
            )  # fmt: skip
            outcome = computation.update_indexes(state, outcome)
            decoded = (identity for result in outcome.dead_letter_results() for identity in result.data)
            name = _store_list(self._letters, task.commit, decoded)
            if name is None:
                return None
            state_name = computation.save_state(state, outcome)
            table.prepare_commit()
            try:
                committed = table.commit(
                    task,
                    outcome.results,
                    replace(checkpoint, commit=task.commit, state=state_name, replayed=name),
                )
            except StaleFilesError:
                continue
            self.report(committed, outcome)
            return committed
        raise foreign_writer_error()


def identities(records: pa.Table) -> list[Identity]:
    """Return the identity of each dead letter."""
    at = records.column("at").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    columns = (records.column("source"), records.column("position"), at)
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def _store_list(letters: DeadLetterTable, commit: str, records: Iterable[Identity]) -> str | None:
    listed = list(records)
    return letters.store_list(commit, json.dumps(listed).encode()) if listed else None


def _of_source(letters: DeadLetterTable, source: str) -> Iterator[pa.Table]:
    for _, rows in letters.rows():
        yield rows.filter(pc.equal(rows.column("source"), source))


def _count(letters: DeadLetterTable, source: str) -> int:
    return sum(rows.num_rows for rows in _of_source(letters, source))


def _parts(letters: DeadLetterTable, source: str) -> Iterator[pa.Table]:
    """Yield the dead letters that a source has now, in tables for one commit each."""
    part: list[pa.Table] = []
    for rows in _of_source(letters, source):
        part.append(rows)
        if sum(table.num_rows for table in part) >= _COMMIT_ROWS:
            yield pa.concat_tables(part)
            part = []
    if any(table.num_rows for table in part):
        yield pa.concat_tables(part)


@dataclass(frozen=True, slots=True)
class IdentityCollector:
    """A `WriteTask` that returns the identities of records and writes nothing."""

    commit: str = ""
    buckets: int | None = None
    key: tuple[str, ...] = ()

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        """Return the identities of records."""
        collected = [identity for batch in batches for identity in zip(*_identity_columns(batch), strict=True)]
        return WriteResult(bucket, len(collected), collected)


def _identity_columns(batch: pa.RecordBatch) -> tuple[list[str], list[str], list[int | None]]:
    about = [json.loads(text) if text is not None else {} for text in batch.column("about").to_pylist()]
    source, position = (batch.column(name).to_pylist() for name in ("source", "position"))
    return source, position, [details.get("at") for details in about]


@dataclass(frozen=True, slots=True)
class DeadLetterReader(Reader):
    """Reads dead letters in place of the source of `reader`. Records that fail again are not counted."""

    reader: Reader

    def size(self, splits: Sequence[Split]) -> Size:
        """Return the size of the dead letters in the file."""
        return Size(sum(split["rows"] for split in splits), sum(split["bytes"] for split in splits))

    def local_only(self) -> bool:
        """Return True: the records are in a file of this machine."""
        return True

    def initial(self, *, at_end: bool) -> Offsets:
        """Return where the source's reader begins."""
        return self.reader.initial(at_end=at_end)

    def target(self, start: Offsets) -> Offsets:
        """Return `start`: a replay moves no offsets."""
        return start

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return `start`: a replay moves no offsets."""
        return start

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return no split: the caller has them."""
        return []

    def read(self, split: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        """Yield the rows of records that decode, and count their identities."""
        with pa.OSFile(str(Path(split["file"]))) as file, pa.ipc.open_file(file) as letters:
            for number in range(letters.num_record_batches):
                yield from self._rows(pa.Table.from_batches([letters.get_batch(number)]), read_counts)

    def _rows(self, letters: pa.Table, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        records = [_record(row) for row in letters.to_pylist()]
        rows: list[pa.RecordBatch] = []
        for record, identity, decoded in zip(
            records, identities(letters), self.reader.retry_dead_letters(records), strict=True
        ):
            if decoded.failures:
                continue
            _count_record(read_counts, record, identity, decoded)
            rows.append(decoded.batch)
        if rows:
            yield from pa.Table.from_batches(rows).combine_chunks().to_batches()


def _count_record(read_counts: ReadCounts, record: RowError, identity: Identity, decoded: DecodedMessages) -> None:
    read_counts.rows += decoded.batch.num_rows + len(decoded.rowless)
    read_counts.dropped += len(decoded.rowless)
    read_counts.bytes += len(record.raw)
    if read_counts.letters is not None:
        read_counts.letters(RowError(record.position, "", "", b"", about={"at": identity[2]}))


def _record(row: Mapping[str, Any]) -> RowError:
    about = json.loads(row["about"]) if row["about"] is not None else {}
    return RowError(row["position"], row["code"], row["message"], row["raw"], row["key"], about)
