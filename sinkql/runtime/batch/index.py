"""Maintain the indexes of a materialized view: arrangements that a job keeps for the look-ups of other jobs.

An index follows the changes in the view's log. A batch adds them after it has written them and before it commits. If
the state has no index yet, it is filled from the view's rows (backfill). So is a join side that used an index which no
longer exists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from sinkql import logical, physical
from sinkql.connector_api.stream import Checkpoint, Reader, Split, ViewLogWriter, Writer
from sinkql.logical.function import call
from sinkql.lowering.index import log_of
from sinkql.machine.randomness import new_id
from sinkql.runtime.batch.engine import Batch, Engine, Outcome, execute_batch
from sinkql.runtime.batch.resume import restart_of
from sinkql.runtime.batch.state import Discard
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import Arrangements
from sinkql.state_store.directory import StateDirectory

_NOWHERE = physical.Connection("", "", {})


@dataclass(frozen=True, slots=True)
class IndexMaintenance:
    """Maintains the indexes of a job, and fills the join sides that replace an index of another job."""

    job: physical.Job
    readers: Mapping[str, Reader]
    writer: Writer
    engine: Engine
    home: StateDirectory

    def missing(self, manifest: state.Manifest) -> bool:
        """Return whether the view has rows that an index lacks; called after `refresh`."""
        names = (index.arrangement for index in self.job.indexes)
        return any(name not in manifest["arrangements"] for name in names) and self._log().present() is not None

    def backfill(self, manifest: state.Manifest, checkpoint: Checkpoint) -> state.Manifest:
        """Return the state with missing arrangements filled from existing rows; called after `refresh`."""
        existing = manifest["arrangements"]
        complete = manifest
        for index in self.job.indexes:
            present = self._log().present() if index.arrangement not in existing else None
            if present is not None:
                complete = self._with_runs(complete, self._arrange(index, *present, complete, checkpoint.epoch))
        for arrange, source in _log_sides(self.job):
            if arrange.arrangement in existing or checkpoint.state is None or not checkpoint.end[source]["at"]:
                continue
            reader, at = self.readers[source], checkpoint.end[source]
            splits = reader.splits(restart_of(reader, at), at)
            complete = self._with_runs(complete, self._arrange(arrange, reader, splits, complete, checkpoint.epoch))
        return complete

    def update(self, manifest: state.Manifest, outcome: Outcome, *, epoch: int) -> Outcome:
        """Return the outcome of a batch with the new runs of the indexes."""
        changes = self._log().changes(outcome.results) if self.job.indexes else None
        runs, flows = {**outcome.runs}, {**outcome.flows}
        for index in self.job.indexes:
            if changes is not None:
                arranged = self._arrange(index, *changes, manifest, epoch)
                runs, flows = {**runs, **arranged.runs}, {**flows, **arranged.flows}
            elif index.arrangement in manifest["arrangements"]:
                runs[index.arrangement] = manifest["arrangements"][index.arrangement]
        return replace(outcome, runs=runs, flows=flows)

    def states(self) -> Mapping[str, Collection[str]]:
        """Return the states that other jobs may read, by name, with the indexes of each."""
        return self.writer.view_log.states() if self.writer.view_log is not None else {}

    def _log(self) -> ViewLogWriter:
        view_log = self.writer.view_log
        assert view_log is not None, self.job.sink
        return view_log

    def _with_runs(self, manifest: state.Manifest, outcome: Outcome) -> state.Manifest:
        return {**manifest, "arrangements": {**manifest["arrangements"], **outcome.runs}}

    def _arrange(
        self,
        arrange: physical.Arrange,
        reader: Reader,
        splits: Sequence[Split],
        manifest: state.Manifest,
        epoch: int,
    ) -> Outcome:
        """Arrange rows of a view."""
        (read,) = (operator for operator in physical.walk(arrange) if isinstance(operator, physical.Read))
        write = physical.Write(arrange, "", _NOWHERE, (), "append", "append", changelog=False, key=(), proven=True,
                               options={})  # fmt: skip
        job = structs.replace(self.job, write=write, shared={}, timeline={}, indexes=())
        task = Discard(f"index-{new_id()[:12]}", None, ())
        arrangements = Arrangements(self.home, manifest, epoch, task.commit)
        return execute_batch(self.engine, job, Batch(task, {read.source: splits}, {read.source: reader}, arrangements))


def _log_sides(job: physical.Job) -> Iterator[tuple[physical.Arrange, str]]:
    """Yield the join sides that are a view's log and nothing else, as an operator, with the view's source name."""
    for operator in job.graph.stateful():
        if not isinstance(operator, physical.Join) or not operator.safe:
            continue
        for side, safe in _leaves(operator):
            log = log_of(side.input)
            if side.index is not None or side.reads or side.replicated or log is None:
                continue
            columns = side.kept if side.keeps == "rows" else ()
            yield physical.Arrange(_joinable(side, safe), side.arrangement, side.key, columns), log.source


def _leaves(join: physical.Join) -> Iterator[tuple[physical.Side, tuple[bool, ...]]]:
    for side in (join.left, join.right):
        if side.within:
            yield from _leaves(physical.joined_in(side))
        else:
            yield side, join.safe


def _joinable(side: physical.Side, safe: Sequence[bool]) -> physical.Operator:
    """Return the rows of a side that can have a match: a join side stores no others."""
    types = {column.name: column for column in physical.columns_of(side.input)}
    null = [
        call("IS NULL(any)", (logical.Reference(name, types[name].type, True),))
        for name, equal in zip(side.key, safe, strict=True)
        if types[name].nullable and not equal
    ]
    if not null:
        return side.input
    any_null = null[0] if len(null) == 1 else call("OR(boolean…)", null)
    return physical.Map(side.input, where=physical.Output("", call("NOT(boolean)", (any_null,))))
