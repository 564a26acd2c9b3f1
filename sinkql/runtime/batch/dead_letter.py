"""The dead-letter table of a sink: records that did not decode, from sources with ON ERROR = DEAD LETTER.

The table is beside the sink's and has a separate checkpoint. Its commit precedes that of the rows: a record may be
there one batch early, never late or twice. If a process dies between the two commits, the next batch ends where the
interrupted one did. If a source can no longer end there, for example because its log was lost, or if a full refresh
comes first, the pending dead letters are deleted, and later batches write them again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from sinkql import physical
from sinkql.connector_api.source_options import DEAD_LETTER_COLUMNS, has_dead_letter_table
from sinkql.connector_api.stream import (
    NO_PLAN,
    Checkpoint,
    ClaimRequest,
    Context,
    JobOffsets,
    RowError,
    StaleFilesError,
    Writer,
    WriteResult,
    WriteTask,
    is_same,
)
from sinkql.connector_api.types import arrow_type
from sinkql.errors import DroppedTableError, SinkqlError, UnfitTableError
from sinkql.machine import clock
from sinkql.storage import failpoint

if TYPE_CHECKING:
    from sinkql.connector_api.registry import Registry

_NAMES = [column.name for column in DEAD_LETTER_COLUMNS]
_PLAN = "letters"
_ROWS = 10_000
_BYTES = 8 << 20


@dataclass(slots=True)
class DeadLetterBuffer:
    """Collects the records that one read of a split could not decode, and writes them in small batches."""

    task: WriteTask
    source: str
    attempt: str
    written: list[WriteResult] = field(default_factory=list)
    _unwritten: list[RowError] = field(default_factory=list)
    _bytes: int = 0

    def __call__(self, error: RowError) -> None:
        """Add a record."""
        self._unwritten.append(error)
        self._bytes += len(error.raw) + len(error.key or b"")
        if len(self._unwritten) >= _ROWS or self._bytes >= _BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the collected records."""
        if self._unwritten:
            attempt = f"{self.attempt}-{len(self.written)}"
            self.written.append(self.task(0, attempt, iter([self._batch()])))
        self._unwritten, self._bytes = [], 0

    def _batch(self) -> pa.RecordBatch:
        at = clock.now()
        rows = [
            (self.source, error.position, error.code, error.message, error.key, error.raw, _about_text(error), at)
            for error in self._unwritten
        ]
        arrays = [
            pa.array(values, arrow_type(column.type))
            for column, values in zip(DEAD_LETTER_COLUMNS, zip(*rows, strict=True), strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in DEAD_LETTER_COLUMNS])


def _about_text(error: RowError) -> str | None:
    return json.dumps(error.about, sort_keys=True) if error.about else None


@dataclass(slots=True)
class DeadLetterTable:
    """The dead-letter table of one sink, claimed together with the sink's table.

    Records cannot be deleted if the writer has no `data_files`, as that of a Kafka topic.
    """

    writer: Writer
    _checkpoint: Checkpoint = field(init=False)
    _needs_maintenance: bool = field(default=False, init=False)
    _renew: Callable[[], None] | None = field(default=None, init=False)

    def start(self, initial: JobOffsets, *, epoch: int, renew: Callable[[], None] | None = None) -> None:
        """Claim the table of a sink whose offsets are `initial`. A dropped table is created again.

        `renew` is that of `ClaimRequest`.
        """
        self._renew = renew
        with _dead_letter_hint():
            self.writer.open()
            self._checkpoint = self.writer.claim(ClaimRequest(initial, epoch, renew=renew))

    def pending_end(self, end: JobOffsets) -> JobOffsets | None:
        """Return where a batch from `end` must end because its dead letters are committed; None if they are not."""
        checkpoint = self._checkpoint
        if checkpoint.plan == NO_PLAN or is_same(checkpoint.start, checkpoint.end):
            return None
        start = {name: checkpoint.start[name] for name in end if name in checkpoint.start}
        if not start or not is_same(start, {name: end[name] for name in start}):
            return None
        return {**end, **{name: checkpoint.end[name] for name in start}}

    def discard_pending(self) -> None:
        """Delete the dead letters of the next batch, so that it may end elsewhere.

        Later batches write them again, if the source still has the records. A table without `data_files` keeps them.
        """
        data_files = self.writer.data_files
        if data_files is None:
            self._checkpoint = replace(self._checkpoint, end=self._checkpoint.start)
            return
        commit = self._checkpoint.commit
        written = frozenset(path for path, _ in self.rows() if f"-{commit}-" in path)
        checkpoint = replace(self._checkpoint, end=self._checkpoint.start)
        if written:
            task = self.begin()
            data_files.replace_files(task, (), replace(checkpoint, commit=task.commit), written)
            checkpoint = self.writer.refresh()
        self._checkpoint = checkpoint

    def begin(self) -> WriteTask:
        """Return the task that writes the dead letters of a batch."""
        return self.writer.begin(bucketing="", buckets=1)

    def rows(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield the present dead letters, with the name of their file."""
        self._checkpoint = self.writer.refresh()
        if self.writer.data_files is not None:
            yield from self.writer.data_files.rows_by_file()

    def store_list(self, commit: str, listed: bytes) -> str:
        """Store a list of the records that a commit of the sink replays, by the commit's id; return its name."""
        name = f"{self._checkpoint.epoch}-{commit}-replayed"
        if self.writer.files is not None:
            self.writer.files.store_file(name, listed)
        failpoint.point("replay-listed")
        return name

    def read_list(self, name: str) -> bytes | None:
        """Return a list that `store_list` stored; None if its records and the list were deleted."""
        return self.writer.files.load_file(name) if self.writer.files is not None else None

    def remove(self, name: str, among: Callable[[pa.Table], pa.Array]) -> None:
        """Delete the dead letters that `among` selects in a table's rows, and the list that names them."""
        touched = frozenset(path for path, rows in self.rows() if pc.any(among(rows)).as_py())
        data_files = self.writer.data_files
        if touched and data_files is not None:
            task = self.begin()
            files = ((path, rows) for path, rows in data_files.rows_by_file() if path in touched)
            remaining = (rows.filter(pc.invert(among(rows))) for _, rows in files)
            batches = (batch for rows in remaining for batch in rows.select(_NAMES).to_batches() if batch.num_rows)
            written = task(0, f"replay-{task.commit[:12]}", batches)
            data_files.replace_files(task, [written], replace(self._checkpoint, commit=task.commit), touched)
            self._checkpoint = self.writer.refresh()
            self._needs_maintenance = True
        failpoint.point("letters-taken-out")
        if self.writer.files is not None:
            self.writer.files.delete_file(name)

    def commit(self, task: WriteTask, written: Sequence[WriteResult], *, start: JobOffsets, end: JobOffsets) -> None:
        """Commit the dead letters of a batch, if it has any; raises what `Writer.commit` does.

        If the table was dropped, create it again and raise StaleFilesError: the batch must be written again.
        """
        if not written:
            return
        try:
            with _dead_letter_hint():
                checkpoint = replace(self.writer.refresh(), commit=task.commit, start=start, end=end, plan=_PLAN)
                self._checkpoint = self.writer.commit(task, written, checkpoint).checkpoint
        except DroppedTableError as error:
            self.start(start, epoch=self._checkpoint.epoch, renew=self._renew)
            raise StaleFilesError from error
        self._needs_maintenance = True
        failpoint.point("letters-committed")

    def maintain(self, go_on: Callable[[bool], bool], *, interval: timedelta) -> None:
        """Maintain the table as `Maintainable.maintain` does, if it has changed since the last call."""
        if self._needs_maintenance and self.writer.maintenance is not None:
            self.writer.maintenance.maintain(go_on, interval=interval)
            self._needs_maintenance = False


@contextmanager
def _dead_letter_hint() -> Iterator[None]:
    """Replace the hint of an error about the table: no sink depends on its rows."""
    try:
        yield
    except UnfitTableError as error:
        error.hint = "Rename or drop this dead-letter table. The sink then creates a new one."
        raise


def open_dead_letter_table(registry: Registry, job: physical.Job, context: Context) -> DeadLetterTable | None:
    """Return the dead-letter table of a job, not claimed; None if none of its sources keeps dead letters.

    A materialized view job skips records that do not decode, as SELECT does. Raises SQ3393 if the kind of sink has no
    dead letters.
    """
    if job.view or not any(map(has_dead_letter_table, job.reads())):
        return None
    kind = registry.sinks[job.write.connector]
    if kind.dead_letter_write is None:
        raise SinkqlError(
            "SQ3393",
            f"{kind.owner} do not support ON ERROR = DEAD LETTER",
            hint="Run ALTER SOURCE … SET (ON ERROR = SKIP), or FAIL, or write to Iceberg or Kafka.",
        )
    write = kind.dead_letter_write(job.write, DEAD_LETTER_COLUMNS)
    dead_letter_context = replace(context, folder=context.folder / "letters", state=_state_path(context))
    return DeadLetterTable(registry.writer(write, dead_letter_context))


def _state_path(context: Context) -> physical.StatePath | None:
    """Return where remote tasks stage files for the driver, apart from the sink's; None if tasks see its folder."""
    if not context.remote or context.state is None:
        return None
    return msgspec.structs.replace(context.state, path=f"{context.state.path.rstrip('/')}/{context.sink_id}/letters")
