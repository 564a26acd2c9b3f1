"""Records that did not decode → rows, where they decode by now: REPLAY ERRORS of one sink.

Two tables have a part in it, and no commit is of both. That of the rows decides: its marker names a list of the records
that it has put in, which lies beside the table of letters. After it these are taken out there; where a process dies in
between, whoever claims the sink next does that first. To take out what is not there any more does nothing.

Only sinks that append take records late. Elsewhere the order of records decides rows, as by key, or all rows may be
computed again some day: they are now, from the source in which the records still are, and those that do not fail any
more are taken out. Each rebuild does so, whatever it is for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from sinkql import physical
from sinkql.connector_api.source_options import can_reread_source, may_replay_late
from sinkql.connector_api.stream import (
    NO_PLAN,
    Checkpoint,
    Committed,
    DecodedMessages,
    Limit,
    Offsets,
    Reader,
    RowError,
    Split,
    Tally,
    WriteResult,
)
from sinkql.runtime.batch.dead_letter import DeadLetterTable
from sinkql.storage import failpoint

_MOST = 20_000
"""Records in one commit, unless a part of a file has more."""
_AT_ONCE = 1000
_SMALL_BYTES = 1 << 20
Identity = tuple[str, str, int | None]
"""The source of a record, its place in it, and when it was read, in microseconds, where that counts."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """How many records were put in, and how many of the source are still kept."""

    replayed: int
    left: int


class ReplayTarget(Protocol):
    """What a sink's batch loop has for it."""

    @property
    def job(self) -> physical.Job:
        """Return what the sink does."""

    @property
    def readers(self) -> Mapping[str, Reader]:
        """Return what reads each source."""

    @property
    def folder(self) -> Path:
        """Return the sink's state folder."""

    @property
    def marker(self) -> Checkpoint:
        """Return the table's marker."""

    def commit_replayed(
        self,
        source: str,
        reader: Reader,
        splits: Sequence[Split],
        listed: Callable[[str, Sequence[WriteResult]], str | None],
    ) -> Committed | None:
        """Commit the rows of another reader of a source, as `BatchLoop.commit_replayed` does."""

    def full_refresh(self) -> Committed:
        """Compute all rows of the table again."""


def replay(loop: ReplayTarget, letters: DeadLetterTable, read: physical.Read) -> Replayed:
    """Put in the records of a source that decode by now; `loop` is started, and owes nothing.

    Raises SQ3394 where what is kept of them is not all, SQ3415 where the source does not have them any more, and what
    a batch may raise: no record is lost then.
    """
    settle(loop, letters)
    kept = _count(letters, read.name)
    if kept and loop.marker.plan != NO_PLAN:
        if may_replay_late(loop.job, read):
            for records in _parts(letters, read.name):
                _put(loop, letters, read, records)
        else:
            loop.full_refresh()
    left = _count(letters, read.name)
    return Replayed(kept - left, left)


def settle(loop: ReplayTarget, letters: DeadLetterTable) -> None:
    """Take out the records that the sink's table has by now."""
    name = loop.marker.replayed
    listed = letters.listed(name) if name is not None else None
    if name is None or listed is None:
        return
    failpoint.point("replayed")
    gone = {tuple(each) for each in json.loads(listed)}
    letters.remove(name, lambda rows: pa.array([each in gone for each in identities(rows)], pa.bool_()))


def decoding(loop: ReplayTarget, letters: DeadLetterTable, failed: Sequence[WriteResult], commit: str) -> str | None:
    """List the records that are kept, and of which none `failed` when all was read again; None where there are none."""
    sources = {read.name for read in loop.job.reads() if can_reread_source(loop.job, read)}
    still = {(source, position) for result in failed for source, position, _ in result.data}
    known = (each for _, rows in letters.rows() for each in identities(rows))
    return _listed(letters, commit, (each for each in known if each[0] in sources and each[:2] not in still))


def identities(records: pa.Table) -> list[Identity]:
    """Return what tells each record that is kept from all others."""
    at = records.column("at").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    columns = (records.column("source"), records.column("position"), at)
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def _listed(letters: DeadLetterTable, commit: str, records: Iterable[Identity]) -> str | None:
    found = list(records)
    return letters.list(commit, json.dumps(found).encode()) if found else None


def _of_source(letters: DeadLetterTable, source: str) -> Iterator[pa.Table]:
    for _, rows in letters.rows():
        yield rows.filter(pc.equal(rows.column("source"), source))


def _count(letters: DeadLetterTable, source: str) -> int:
    return sum(rows.num_rows for rows in _of_source(letters, source))


def _parts(letters: DeadLetterTable, source: str) -> Iterator[pa.Table]:
    """Yield the records that are kept of a source at first, as many as one commit takes."""
    waiting: list[pa.Table] = []
    for rows in _of_source(letters, source):
        waiting.append(rows)
        if sum(each.num_rows for each in waiting) >= _MOST:
            yield pa.concat_tables(waiting)
            waiting = []
    if any(each.num_rows for each in waiting):
        yield pa.concat_tables(waiting)


def _put(loop: ReplayTarget, letters: DeadLetterTable, read: physical.Read, records: pa.Table) -> None:
    """Put in those of some records that decode by now, in one commit."""
    path = loop.folder / "replay.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, records.schema) as writer:
        writer.write_table(records, max_chunksize=_AT_ONCE)
    try:
        small = records.num_rows <= _AT_ONCE and records.nbytes <= _SMALL_BYTES
        split = {"file": str(path), "small": small}

        def listed(commit: str, found: Sequence[WriteResult]) -> str | None:
            return _listed(letters, commit, (each for result in found for each in result.data))

        if loop.commit_replayed(read.source, DeadLetterReader(loop.readers[read.source]), [split], listed):
            settle(loop, letters)
    finally:
        path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class IdentityCollector:
    """Take records for what tells them from others, and write nothing; a `WriteTask`."""

    commit: str = ""
    buckets: int | None = None
    key: tuple[str, ...] = ()

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        """Return the identities of records."""
        found = [each for batch in batches for each in zip(*_told(batch), strict=True)]
        return WriteResult(bucket, len(found), found)


def _told(batch: pa.RecordBatch) -> tuple[list[str], list[str], list[int | None]]:
    about = [json.loads(each) if each is not None else {} for each in batch.column("about").to_pylist()]
    columns = (batch.column(name).to_pylist() for name in ("source", "position"))
    source, position = columns
    return source, position, [each.get("at") for each in about]


@dataclass(frozen=True, slots=True)
class DeadLetterReader(Reader):
    """Read records that are kept, in the place of what a `reader` reads; those that fail again count for nothing."""

    reader: Reader

    def fits_in_process(self, splits: Sequence[Split]) -> bool:
        """Tell what was seen when the records were put by."""
        return all(split["small"] for split in splits)

    def local_only(self) -> bool:
        """Tell that the records are in a file of this machine."""
        return True

    def initial(self, *, at_end: bool) -> Offsets:
        """Return where the reader begins."""
        return self.reader.initial(at_end=at_end)

    def target(self, start: Offsets) -> Offsets:
        """Return `start`: nothing comes."""
        return start

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return `start`: nothing comes."""
        return start

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return nothing: they are given."""
        return []

    def read(self, split: Split, tally: Tally) -> Iterator[pa.RecordBatch]:
        """Yield the rows of records that decode, and tell which they are."""
        with pa.OSFile(str(Path(split["file"]))) as file, pa.ipc.open_file(file) as found:
            for number in range(found.num_record_batches):
                yield from self._rows(pa.Table.from_batches([found.get_batch(number)]), tally)

    def _rows(self, kept: pa.Table, tally: Tally) -> Iterator[pa.RecordBatch]:
        records = [_record(each) for each in kept.to_pylist()]
        rows: list[pa.RecordBatch] = []
        for record, identity, decoded in zip(
            records, identities(kept), self.reader.retry_dead_letters(records), strict=True
        ):
            if decoded.failures:
                continue
            _take(tally, record, identity, decoded)
            rows.append(decoded.batch)
        if rows:
            yield from pa.Table.from_batches(rows).combine_chunks().to_batches()


def _take(tally: Tally, record: RowError, identity: Identity, decoded: DecodedMessages) -> None:
    tally.rows += decoded.batch.num_rows + len(decoded.rowless)
    tally.dropped += len(decoded.rowless)
    tally.bytes += len(record.raw)
    if tally.letters is not None:
        tally.letters(RowError(record.position, "", "", b"", about={"at": identity[2]}))


def _record(kept: Mapping[str, Any]) -> RowError:
    about = json.loads(kept["about"]) if kept["about"] is not None else {}
    return RowError(kept["position"], kept["code"], kept["message"], kept["raw"], kept["key"], about)
