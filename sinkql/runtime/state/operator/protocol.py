"""What an operator with state is, and the task that runs it in one bucket: rows and old state → changes and new state.

A kind of operator is one class, which says of its `physical` struct what goes in (`preparation`), what it keeps
(`arrangements`), and how the rows of a bucket and what is kept become changes (`apply`). All else is the same for
all kinds: delivery, opening and merging runs, reports, manifests, sweeping, and rebuilding lost state.
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
"""The most rows of a batch that a task yields."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """An arrangement of an operator: one row a key (`values`), or rows with multiplicities (`multiset`).

    In `values`, a row whose `$count` is 0 is a tombstone, unless `keeps_empty`. Of rows that only come the multiset has
    each for itself (`appended`), and of those that are only counted how many a key has (`counted`). Those by a value
    (`sorted`) or a time (`timed`) have no keys. An operator that only `reads` it has what is there from before, and
    another one writes: of an `index`, which has what is there after the batch, another job.
    """

    name: str
    kind: Literal["values", "multiset", "appended", "counted", "sorted", "timed"]
    keeps_empty: bool = False
    reads: bool = False
    index: bool = False

    @property
    def grows(self) -> bool:
        """Tell whether no row takes another's place."""
        return self.kind != "values" and _MULTISETS[self.kind].grows


Multiset = TypeVar("Multiset", bound=MultisetRuns)


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket's state in one attempt at a task, by arrangement. What `notes` say goes into the manifest.

    An operator adds to `superseded` how many rows have a later one of their key in the batch. `below` tells of the
    operator's sources, and `sides` of those of each of its inputs; `others` opens what all buckets have of an
    arrangement from before. The rows that the operator gets have the hashes from `low` to `high`. `kept` is what it
    hands on from one part of a batch to the next. `indexes` have the runs of those of other jobs, None where the batch
    has all rows.
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
        """Return what is special of the sources of an operator's only input."""
        (found,) = self.sides
        return found

    def close(self) -> dict[str, list[Entry]]:
        """Finish the batch's runs; return those that are live after it, by arrangement. Notes stand with the last."""
        for each in (*self.values.values(), *self.multisets.values()):
            each.close()
        found = {name: list(each.entries) for name, each in {**self.values, **self.multisets}.items()}
        for name, notes in self.notes.items():
            found[name][-1:] = [{**last, **notes} for last in found[name][-1:]]
        return found


class StatefulOperator(Protocol):
    """An operator with state, in any bucket; picklable."""

    @property
    def name(self) -> str:
        """Return the name of its state, unique in the job."""

    @property
    def preparation(self) -> TaskInput:
        """Return what goes in and what comes out."""

    @property
    def arrangements(self) -> tuple[Arrangement, ...]:
        """Return its arrangements."""

    def apply(self, rows: pa.Table, bucket: Bucket) -> pa.Table | Iterator[pa.Table]:
        """Put a batch's rows of one bucket into its state and return the changes, `preparation.output()`.

        They may come in slices, and the state is put by when there are no more.
        Rows are `preparation.delivered()`. Many come in parts, each of later `$h1` than the one before. Raises SQ3401
        where something is taken back that was never there.
        """


class OperatorKind(Protocol):
    """A class of stateful operators."""

    def of(self, operator: Any) -> StatefulOperator:  # each kind takes its own struct
        """Return the operator that a job's struct means."""


KINDS: dict[type[physical.Stateful], OperatorKind] = {}
"""The class of each kind of operator, as `keeps_state` registers them."""

Kind = TypeVar("Kind", bound=OperatorKind)


def keeps_state(struct: type[physical.Stateful]) -> Callable[[Kind], Kind]:
    """Register the decorated class as what a job's `struct` means."""

    def register(kind: Kind) -> Kind:
        KINDS[struct] = kind
        return kind

    return register


@dataclass(frozen=True, slots=True)
class StatefulTask:
    """Run an operator on one bucket of one attempt at a batch; picklable.

    A call takes rows as `preparation` says and yields the changes. New runs are durable, and a `BucketReport` is left,
    before the last part's changes come out. SQ3407: a row of another bucket; SQ3404: a run is missing; SQ3409: the
    attempt was there before; and what the operator raises.
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
        own = {each.name for each in self.operator.arrangements if not each.reads}
        return {name: entries for name, entries in runs.items() if name in own}

    def _checked(self, bucket: int, batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
        if "$b" in batch.schema.names and not pc.all(pc.equal(batch.column("$b"), bucket)).as_py():
            others = sorted(pc.unique(batch.column("$b")).to_pylist())
            name = self.operator.name
            raise SinkqlError("SQ3407", f'state task "{name}" received rows of buckets {others} in bucket {bucket}')
        return pa.table([_typed(batch.column(each.name), each.type) for each in schema], schema=schema)

    def _ranges(self, rows: pa.Table) -> Ranges:
        """Return the range of each row; those that are for all rows of another side come first."""
        found = hash_range(unsigned(rows.column("$h1")))
        repeated = self.operator.preparation.repeated
        if self.operator.preparation.crossed:
            found[ints(rows.column(SIDE)) == repeated] = 0
        return found

    def _own(self, rows: pa.Table, bucket: int) -> int:
        """Return how many of the rows no bucket before this one gets too."""
        repeated = self.operator.preparation.repeated
        if repeated is None or bucket == 0:
            return int(rows.num_rows)
        return int(np.count_nonzero(ints(rows.column(SIDE)) != repeated))

    def _put(self, bucket: int, runs: Mapping[str, Sequence[Entry]]) -> None:
        """Have new runs where others find them."""
        if self.home.remote:
            own = f"{self.epoch}-{self.commit}-"
            new = {name: [each for each in entries if each["file"].startswith(own)] for name, entries in runs.items()}
            self.home.upload(file for name, entries in new.items() for file in files_of(name, bucket, entries))

    def _bring(self, name: str, bucket: int) -> list[Entry]:
        """Return the runs of a bucket from before the batch; they are in the folder then. Raises SQ3404."""
        entries = list(self.runs.get(name, {}).get(str(bucket), ()))
        if self.home.remote and (lost := self.home.fetch(files_of(name, bucket, entries))):
            raise lost_run(Path(lost[0]), f"{self.home.store} does not have it")
        return entries

    def _open(self, bucket: int, attempt: str) -> Bucket:
        values: dict[str, KeyedRuns] = {}
        multisets: dict[str, MultisetRuns] = {}
        indexes: dict[str, list[Run] | None] = {}
        for each in self.operator.arrangements:
            if each.index:
                indexes[each.name] = self.indexes[each.name].opened(bucket, self.buckets)
                continue
            entries = self._bring(each.name, bucket)
            folder = bucket_folder(self.home.folder, each.name, bucket)
            place = RunLocation(folder, bucket, f"{self.epoch}-{self.commit}-{attempt}")
            if each.kind == "values":
                values[each.name] = KeyedRuns(place, entries, keeps_empty=each.keeps_empty)
            else:
                multisets[each.name] = _MULTISETS[each.kind](place, entries)
        return Bucket(bucket, values, multisets, self.sides, self._others, indexes=indexes)

    def _others(self, name: str) -> list[KeyedRuns]:
        found = []
        for bucket in map(int, self.runs.get(name, {})):
            place = RunLocation(bucket_folder(self.home.folder, name, bucket), bucket, "")
            found.append(KeyedRuns(place, self._bring(name, bucket)))
        return found


def task_of(operator: StatefulOperator, arrangements: Arrangements, *sides: InputEvents) -> StatefulTask:
    """Return the task of an operator for one attempt at a batch; `sides` tell of the sources of each of its inputs."""
    known = arrangements.manifest["arrangements"]
    runs = {each.name: known[each.name] for each in operator.arrangements if each.name in known}
    home = arrangements.home.for_tasks()
    buckets = operator.preparation.buckets(int(arrangements.manifest["buckets"]))
    indexes = {each.name: arrangements.indexes[each.name] for each in operator.arrangements if each.index}
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
