"""The interface of stateful operators, and the task that runs one in one bucket.

A kind of operator is one class. For its `physical` struct, it defines its input (`preparation`), its stored rows
(`arrangements`), and the changes for the rows of a bucket (`apply`). The rest is common to all kinds: delivery, opening
and merging runs, reports, manifests, cleanup, and rebuilding lost state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkql import physical
from sinkql.errors import SinkqlError
from sinkql.lowering.join_input import SIDE
from sinkql.lowering.task_input import TaskInput
from sinkql.runtime.state.arrangement import (
    Arrangements,
    IndexRuns,
    InputEvents,
    KeyedRuns,
    MultisetRuns,
    RunLocation,
    bucket_folder,
    files_of,
)
from sinkql.runtime.state.ordered_run import OrderedRuns, TimedRuns
from sinkql.runtime.state.report import BucketReport, Leave, LiveRuns, RowCounts
from sinkql.runtime.state.row_identity import with_row_hashes
from sinkql.runtime.state.run import Entry, Run, ints, lost_run, unsigned
from sinkql.runtime.state.side import AppendedRuns, CountRuns
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint
from sinkql.storage.spill import LAST, Ranges, hash_range, spilled_parts

ROWS = 65_536
"""The maximum number of rows in a batch of a task's output."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """An arrangement of an operator: one row per key (`values`), or rows with multiplicities (`multiset`).

    In `values`, a row whose `$count` is 0 is a tombstone, unless `keeps_empty`. If rows are only inserted, the multiset
    has each row separately (`appended`); if they are only counted, the number of rows of each key (`counted`). Rows by
    a value (`sorted`) or a time (`timed`) have no keys. If an operator only `reads` an arrangement, it sees the state
    before the batch, and another operator writes it; an `index` it sees after the batch, and another job writes it.
    """

    name: str
    kind: Literal["values", "multiset", "appended", "counted", "sorted", "timed"]
    keeps_empty: bool = False
    reads: bool = False
    index: bool = False

    @property
    def grows(self) -> bool:
        """Return whether no row replaces another."""
        return self.kind != "values" and _MULTISETS[self.kind].grows


Multiset = TypeVar("Multiset", bound=MultisetRuns)


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket's state in one attempt at a task, by arrangement. The `notes` become part of the manifest.

    An operator adds to `superseded` the number of rows with a later row of their key in the batch. `below` has the
    events of the operator's sources, `sides` those of each of its inputs; `others` opens the state of all buckets of an
    arrangement before the batch. The operator's rows have the hashes from `low` to `high`. `kept` is passed from one
    part of a batch to the next. `indexes` have the runs of indexes of other jobs, None if the batch has all rows.
    """

    number: int
    values: Mapping[str, KeyedRuns]
    multisets: Mapping[str, MultisetRuns]
    sides: tuple[InputEvents, ...]
    others: Callable[[str], Sequence[KeyedRuns]]
    notes: dict[str, dict[str, int]] = field(default_factory=dict)
    superseded: list[int] = field(default_factory=list)
    low: int = 0
    high: int = LAST
    kept: dict[str, Any] = field(default_factory=dict)
    indexes: Mapping[str, Sequence[Run] | None] = field(default_factory=dict)

    def multiset(self, name: str, kind: type[Multiset]) -> Multiset:
        """Return the rows of an arrangement of this kind; raise TypeError if it has another kind."""
        runs = self.multisets[name]
        if not isinstance(runs, kind):
            raise TypeError(name)
        return runs

    @property
    def below(self) -> InputEvents:
        """Return the events of the sources of an operator's only input."""
        (found,) = self.sides
        return found

    def close(self) -> dict[str, list[Entry]]:
        """Finish the batch's runs; return the live runs by arrangement. The last run of each has the notes."""
        for each in (*self.values.values(), *self.multisets.values()):
            each.close()
        found = {name: list(each.entries) for name, each in {**self.values, **self.multisets}.items()}
        for name, notes in self.notes.items():
            found[name][-1:] = [{**last, **notes} for last in found[name][-1:]]
        return found


class StatefulOperator(Protocol):
    """A stateful operator, in any bucket; picklable."""

    @property
    def name(self) -> str:
        """Return the name of its state, unique in the job."""

    @property
    def preparation(self) -> TaskInput:
        """Return its input and its output."""

    @property
    def arrangements(self) -> tuple[Arrangement, ...]:
        """Return its arrangements."""

    def apply(self, rows: pa.Table, bucket: Bucket) -> pa.Table | Iterator[pa.Table]:
        """Apply a batch's rows of one bucket to the state and return the changes, `preparation.output()`.

        The changes may come in slices; the state is complete after the last one. The rows are
        `preparation.delivered()`. Many rows come in parts, with increasing `$h1`. Raises SQ3401 for the deletion of a
        row that never existed.
        """


class OperatorKind(Protocol):
    """A class of stateful operators."""

    def of(self, operator: Any) -> StatefulOperator:  # each kind accepts its own struct
        """Return the operator of a job's struct."""


KINDS: dict[type[physical.Stateful], OperatorKind] = {}
"""The class of each kind of operator, registered by `keeps_state`."""

Kind = TypeVar("Kind", bound=OperatorKind)


def keeps_state(struct: type[physical.Stateful]) -> Callable[[Kind], Kind]:
    """Register the decorated class for a job's `struct`."""

    def register(kind: Kind) -> Kind:
        KINDS[struct] = kind
        return kind

    return register


@dataclass(frozen=True, slots=True)
class StatefulTask:
    """Runs an operator on one bucket in one attempt at a batch; picklable.

    A call receives rows as `preparation` defines them and yields the changes. New runs are durable, and a
    `BucketReport` is sent, before the last part's changes are yielded. SQ3407: a row of another bucket; SQ3404: a run
    is missing; SQ3409: the attempt ran before; and the operator's errors.
    """

    operator: StatefulOperator
    home: StateDirectory
    epoch: int
    commit: str
    runs: LiveRuns
    sides: tuple[InputEvents, ...] = (InputEvents(),)
    buckets: int = 1
    indexes: Mapping[str, IndexRuns] = field(default_factory=dict)

    def __call__(
        self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch], leave: Leave
    ) -> Iterator[pa.RecordBatch]:
        schema = self.operator.preparation.delivered()
        tables = (
            with_row_hashes(self.operator.preparation, self._checked(bucket, batch, schema), self.home.hash_key)
            for batch in batches
            if batch.num_rows
        )
        fetched = self.home.fetched.copy()
        state = self._open(bucket, attempt)
        changes = self.operator.preparation.output().empty_table()
        taken = given = 0
        for rows, low, high in spilled_parts(tables, schema, self._ranges, self.home.folder):
            taken += self._own(rows, bucket)
            for found in _slices(self.operator.apply(rows, replace(state, low=low, high=high))):
                yield from changes.to_batches(max_chunksize=ROWS)
                changes, given = found, given + found.num_rows
        runs, flow = self._written(state.close()), RowCounts(taken, given, sum(state.superseded))
        self._put(bucket, runs)
        leave(BucketReport(self.operator.name, bucket, attempt, runs, flow, self.home.fetched - fetched))
        failpoint.point("state-report")
        yield from changes.to_batches(max_chunksize=ROWS)

    def _written(self, runs: dict[str, list[Entry]]) -> dict[str, list[Entry]]:
        own = {arrangement.name for arrangement in self.operator.arrangements if not arrangement.reads}
        return {name: entries for name, entries in runs.items() if name in own}

    def _checked(self, bucket: int, batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
        if "$b" in batch.schema.names and not pc.all(pc.equal(batch.column("$b"), bucket)).as_py():
            others = sorted(pc.unique(batch.column("$b")).to_pylist())
            name = self.operator.name
            raise SinkqlError("SQ3407", f'state task "{name}" received rows of buckets {others} in bucket {bucket}')
        return pa.table([_typed(batch.column(each.name), each.type) for each in schema], schema=schema)

    def _ranges(self, rows: pa.Table) -> Ranges:
        """Return the range of each row; rows for all rows of another side come first."""
        found = hash_range(unsigned(rows.column("$h1")))
        repeated = self.operator.preparation.repeated
        if self.operator.preparation.is_broadcast:
            found[ints(rows.column(SIDE)) == repeated] = 0
        return found

    def _own(self, rows: pa.Table, bucket: int) -> int:
        """Return the number of rows that no earlier bucket receives too."""
        repeated = self.operator.preparation.repeated
        if repeated is None or bucket == 0:
            return int(rows.num_rows)
        return int(np.count_nonzero(ints(rows.column(SIDE)) != repeated))

    def _put(self, bucket: int, runs: Mapping[str, Sequence[Entry]]) -> None:
        """Publish new runs for other tasks."""
        if self.home.remote:
            own = f"{self.epoch}-{self.commit}-"
            new = {
                name: [entry for entry in entries if entry["file"].startswith(own)] for name, entries in runs.items()
            }
            self.home.upload(file for name, entries in new.items() for file in files_of(name, bucket, entries))

    def _bring(self, name: str, bucket: int) -> list[Entry]:
        """Fetch the runs of a bucket from before the batch into the folder, and return them. Raises SQ3404."""
        entries = list(self.runs.get(name, {}).get(str(bucket), ()))
        if self.home.remote and (lost := self.home.fetch(files_of(name, bucket, entries))):
            raise lost_run(Path(lost[0]), f"{self.home.store} does not have it")
        return entries

    def _open(self, bucket: int, attempt: str) -> Bucket:
        values: dict[str, KeyedRuns] = {}
        multisets: dict[str, MultisetRuns] = {}
        indexes: dict[str, list[Run] | None] = {}
        for arrangement in self.operator.arrangements:
            if arrangement.index:
                indexes[arrangement.name] = self.indexes[arrangement.name].opened(bucket, self.buckets)
                continue
            entries = self._bring(arrangement.name, bucket)
            folder = bucket_folder(self.home.folder, arrangement.name, bucket)
            place = RunLocation(folder, bucket, f"{self.epoch}-{self.commit}-{attempt}")
            if arrangement.kind == "values":
                values[arrangement.name] = KeyedRuns(place, entries, keeps_empty=arrangement.keeps_empty)
            else:
                multisets[arrangement.name] = _MULTISETS[arrangement.kind](place, entries)
        return Bucket(bucket, values, multisets, self.sides, self._others, indexes=indexes)

    def _others(self, name: str) -> list[KeyedRuns]:
        found = []
        for bucket in map(int, self.runs.get(name, {})):
            place = RunLocation(bucket_folder(self.home.folder, name, bucket), bucket, "")
            found.append(KeyedRuns(place, self._bring(name, bucket)))
        return found


def task_of(operator: StatefulOperator, arrangements: Arrangements, *sides: InputEvents) -> StatefulTask:
    """Return the task of an operator for one attempt at a batch; `sides` are the events of its inputs' sources."""
    known = arrangements.manifest["arrangements"]
    runs = {
        arrangement.name: known[arrangement.name] for arrangement in operator.arrangements if arrangement.name in known
    }
    home = arrangements.home.for_tasks()
    buckets = operator.preparation.buckets(int(arrangements.manifest["buckets"]))
    indexes = {
        arrangement.name: arrangements.indexes[arrangement.name]
        for arrangement in operator.arrangements
        if arrangement.index
    }
    return StatefulTask(
        operator, home, arrangements.epoch, arrangements.commit, runs, sides, buckets, indexes
    )  # fmt: skip


_MULTISETS = {
    "multiset": MultisetRuns,
    "appended": AppendedRuns,
    "counted": CountRuns,
    "sorted": OrderedRuns,
    "timed": TimedRuns,
}


def _slices(changes: pa.Table | Iterator[pa.Table]) -> Iterator[pa.Table]:
    if isinstance(changes, pa.Table):
        yield changes
    else:
        yield from changes


def _typed(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return the values in the declared type; an unsigned hash keeps its bits."""
    if values.type == pa.uint64() and type_ == pa.int64():
        return values.view(type_)
    return values if values.type == type_ else values.cast(type_)
