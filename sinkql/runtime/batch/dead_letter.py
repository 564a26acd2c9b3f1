"""Records that did not decode, of sources with ON ERROR = DEAD LETTER → a table of their own, beside the sink's.

Its commit comes before that of the rows, with a marker of its own: a record may be there one batch early, never late or
twice. Where a process dies between the two commits, the next batch ends where the one did whose records are there. If a
source cannot end there any more, as one whose log was lost meanwhile, or all rows are computed again first, they are
taken out, and come again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from sinkql import physical
from sinkql.connector_api.registry import Registry
from sinkql.connector_api.source_options import has_dead_letter_table
from sinkql.connector_api.stream import (
    NO_PLAN,
    Checkpoint,
    Context,
    JobOffsets,
    RowError,
    StaleFilesError,
    Writer,
    WriteResult,
    WriteTask,
    same,
)
from sinkql.connector_api.types import arrow_type
from sinkql.errors import DroppedTableError, SinkqlError, UnfitTableError
from sinkql.storage import failpoint

COLUMNS = (
    physical.Column("source", "text", False),
    physical.Column("position", "text", False),
    physical.Column("code", "text", False),
    physical.Column("message", "text", False),
    physical.Column("key", "bytea"),
    physical.Column("raw", "bytea", False),
    physical.Column("about", "text"),
    physical.Column("at", "timestamptz", False),
)
_NAMES = [column.name for column in COLUMNS]
_PLAN = "letters"
_ROWS = 10_000
_BYTES = 8 << 20


@dataclass(slots=True)
class DeadLetterBuffer:
    """Write the records that one reading of a split could not decode, as they come: never much of them is held."""

    task: WriteTask
    source: str
    attempt: str
    written: list[WriteResult] = field(default_factory=list)
    _waiting: list[RowError] = field(default_factory=list)
    _bytes: int = 0

    def __call__(self, error: RowError) -> None:
        """Take a record."""
        self._waiting.append(error)
        self._bytes += len(error.raw) + len(error.key or b"")
        if len(self._waiting) >= _ROWS or self._bytes >= _BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        if self._waiting:
            attempt = f"{self.attempt}-{len(self.written)}"
            self.written.append(self.task(0, attempt, iter([self._batch()])))
        self._waiting, self._bytes = [], 0

    def _batch(self) -> pa.RecordBatch:
        at = datetime.now(UTC)
        rows = [
            (self.source, each.position, each.code, each.message, each.key, each.raw, _about(each), at)
            for each in self._waiting
        ]
        arrays = [
            pa.array(values, arrow_type(column.type))
            for column, values in zip(COLUMNS, zip(*rows, strict=True), strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in COLUMNS])


def _about(error: RowError) -> str | None:
    return json.dumps(error.about, sort_keys=True) if error.about else None


@dataclass(slots=True)
class DeadLetterTable:
    """Own the table of one sink's records that did not decode, for as long as the sink owns its own.

    What a `final` one has stays.
    """

    writer: Writer
    final: bool = False
    _marker: Checkpoint = field(init=False)
    _due: bool = field(default=False, init=False)
    _renew: Callable[[], None] | None = field(default=None, init=False)

    def start(self, initial: JobOffsets, *, epoch: int, renew: Callable[[], None] | None = None) -> None:
        """Claim the table, whose sink begins, or began, at `initial`; one that was dropped is made anew.

        `renew` is as of `Writer.claim`.
        """
        self._renew = renew
        with _about_letters():
            self.writer.open()
            self._marker = self.writer.claim(initial, epoch=epoch, renew=renew)

    def pending_end(self, end: JobOffsets) -> JobOffsets | None:
        """Return where the batch ends that begins at `end` and whose records are there; None where there is none."""
        marker = self._marker
        if marker.plan == NO_PLAN or same(marker.start, marker.end):
            return None
        known = {name: marker.start[name] for name in end if name in marker.start}
        if not known or not same(known, {name: end[name] for name in known}):
            return None
        return {**end, **{name: marker.end[name] for name in known}}

    def discard_pending(self) -> None:
        """Let the next batch end elsewhere, or come after others: it has other records then.

        Those that are there already go: they come again in batches to come, as far as they are still there. In a system
        in which nothing is taken back they stay.
        """
        if self.final:
            self._marker = replace(self._marker, end=self._marker.start)
            return
        commit = self._marker.commit
        written = frozenset(path for path, _ in self.rows() if f"-{commit}-" in path)
        marker = replace(self._marker, end=self._marker.start)
        if written:
            task = self.begin()
            self.writer.replace_files(task, (), replace(marker, commit=task.commit), written)
            marker = self.writer.refresh()
        self._marker = marker

    def begin(self) -> WriteTask:
        """Return the task that writes the records of a batch."""
        return self.writer.begin(bucketing="", buckets=1)

    def rows(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield the records that are kept now, and the name of the file they are in."""
        self._marker = self.writer.refresh()
        yield from self.writer.rows_by_file()

    def list(self, commit: str, listed: bytes) -> str:
        """Keep a list of records that the commit of this id of the sink puts into its table; return its name."""
        name = f"{self._marker.epoch}-{commit}-replayed"
        self.writer.store_file(name, listed)
        failpoint.point("replay-listed")
        return name

    def listed(self, name: str) -> bytes | None:
        """Return what `list` kept; None where these records were taken out, and the list deleted."""
        return self.writer.load_file(name)

    def remove(self, name: str, among: Callable[[pa.Table], pa.Array]) -> None:
        """Take out the records that `among` tells of a table's rows, and delete the list that names them."""
        touched = frozenset(path for path, rows in self.rows() if pc.any(among(rows)).as_py())
        if touched:
            task = self.begin()
            left = (rows.filter(pc.invert(among(rows))) for path, rows in self.writer.rows_by_file() if path in touched)
            batches = (batch for rows in left for batch in rows.select(_NAMES).to_batches() if batch.num_rows)
            written = task(0, f"replay-{task.commit[:12]}", batches)
            marker = replace(self._marker, commit=task.commit)
            self.writer.replace_files(task, [written], marker, touched)
            self._marker = self.writer.refresh()
            self._due = True
        failpoint.point("letters-taken-out")
        self.writer.delete_file(name)

    def commit(self, task: WriteTask, written: Sequence[WriteResult], *, start: JobOffsets, end: JobOffsets) -> None:
        """Commit the records of a batch, if there are any; raises what `Writer.commit` does.

        Where the table was dropped meanwhile, it is made anew, and the batch is to be written again: RedoBatchError.
        """
        if not written:
            return
        try:
            with _about_letters():
                marker = replace(self.writer.refresh(), commit=task.commit, start=start, end=end, plan=_PLAN)
                self._marker = self.writer.commit(task, written, marker).marker
        except DroppedTableError as error:
            self.start(start, epoch=self._marker.epoch, renew=self._renew)
            raise StaleFilesError from error
        self._due = True
        failpoint.point("letters-committed")

    def maintain(self, go_on: Callable[[bool], bool]) -> None:
        """See to the table's files as `Writer.maintain` does, once something was committed."""
        if self._due:
            self.writer.maintain(go_on)
            self._due = False


@contextmanager
def _about_letters() -> Iterator[None]:
    """Have an error about the table say what to do with this one: no sink depends on what it has."""
    try:
        yield
    except UnfitTableError as error:
        error.hint = (
            "Rename or drop this table, in which the sink keeps records that do not decode: it makes a new one."
        )
        raise


def open_dead_letter_table(registry: Registry, job: physical.Job, context: Context) -> DeadLetterTable | None:
    """Return what keeps the records of a job's sources that do not decode; None where none of them is to be kept.

    A view leaves them out, as SELECT does: sinks of it compute it themselves, and keep them.
    """
    if job.view or not any(map(has_dead_letter_table, job.reads())):
        return None
    kind = registry.sinks[job.write.connector]
    if kind.letters is None:
        raise SinkqlError(
            "SQ3393",
            f"{kind.owner} keep no records that do not decode, as ON ERROR = DEAD LETTER says",
            hint="Run ALTER SOURCE … SET (ON ERROR = SKIP), or FAIL, or write to Iceberg or Kafka.",
        )
    write = kind.letters(job.write, COLUMNS)
    own = replace(context, folder=context.folder / "letters", state=_state_of_letters(context))
    return DeadLetterTable(registry.writer(write, own), write.final)


def _state_of_letters(context: Context) -> physical.StatePath | None:
    """Return where tasks put what the driver is to have, where they do not see its folder: apart from the sink's."""
    if not context.remote or context.state is None:
        return None
    return msgspec.structs.replace(context.state, path=f"{context.state.path.rstrip('/')}/{context.sink_id}/letters")
