"""What a job keeps for look-ups besides its operators: the indexes of a view.

An index is of the changes that come into the view's log, so it is made of them, once a batch has written them and
before it commits; and of the view's rows where the state has none yet. So is what a side of a join keeps from now on
that has looked up in an index that is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from msgspec import structs

from sinkql import logical, physical
from sinkql.connector_api.stream import Checkpoint, Reader, Split, ViewLogWriter, Writer
from sinkql.logical.function import call
from sinkql.logical.type import parse_type
from sinkql.lowering.index import log_of
from sinkql.runtime.batch.engine import Batch, Engine, Outcome, run_batch
from sinkql.runtime.batch.state import Discard
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import Arrangements
from sinkql.state_store.directory import StateDirectory

_NOWHERE = physical.Connection("", "", {})


@dataclass(frozen=True, slots=True)
class IndexMaintenance:
    """Keep the indexes of a job, and what is there for its sides from before."""

    job: physical.Job
    readers: Mapping[str, Reader]
    writer: Writer
    engine: Engine
    home: StateDirectory

    def missing(self, manifest: state.Manifest) -> bool:
        """Tell whether a view has rows, and an index has none of them; called after `refresh`."""
        names = (each.arrangement for each in self.job.indexes)
        return any(name not in manifest["arrangements"] for name in names) and self._log().present() is not None

    def backfill(self, manifest: state.Manifest, marker: Checkpoint) -> state.Manifest:
        """Return the state with what it lacks: of rows that are there, made of them. Called after `refresh`."""
        known = manifest["arrangements"]
        found = manifest
        for index in self.job.indexes:
            present = self._log().present() if index.arrangement not in known else None
            if present is not None:
                found = self._with(found, self._run(index, *present, found, marker.epoch))
        for arrange, source in _own_sides(self.job):
            if arrange.arrangement in known or marker.state is None or not marker.end[source]["at"]:
                continue
            reader, at = self.readers[source], marker.end[source]
            splits = reader.splits(reader.restart_of(at), at)
            found = self._with(found, self._run(arrange, reader, splits, found, marker.epoch))
        return found

    def after(self, manifest: state.Manifest, outcome: Outcome, *, epoch: int) -> Outcome:
        """Return what a batch gave, with the runs of its indexes."""
        changes = self._log().changes(outcome.results) if self.job.indexes else None
        runs, flows = {**outcome.runs}, {**outcome.flows}
        for index in self.job.indexes:
            if changes is not None:
                found = self._run(index, *changes, manifest, epoch)
                runs, flows = {**runs, **found.runs}, {**flows, **found.flows}
            elif index.arrangement in manifest["arrangements"]:
                runs[index.arrangement] = manifest["arrangements"][index.arrangement]
        return replace(outcome, runs=runs, flows=flows)

    def states(self) -> Mapping[str, Collection[str]]:
        """Return the names of the states in which others may look up, and the indexes that each has."""
        return self.writer.states() if isinstance(self.writer, ViewLogWriter) else {}

    def _log(self) -> ViewLogWriter:
        assert isinstance(self.writer, ViewLogWriter), self.job.sink
        return self.writer

    def _with(self, manifest: state.Manifest, outcome: Outcome) -> state.Manifest:
        return {**manifest, "arrangements": {**manifest["arrangements"], **outcome.runs}}

    def _run(
        self,
        arrange: physical.Arrange,
        reader: Reader,
        splits: Sequence[Split],
        manifest: state.Manifest,
        epoch: int,
    ) -> Outcome:
        """Put rows of a view into an arrangement."""
        (read,) = (each for each in physical.walk(arrange) if isinstance(each, physical.Read))
        write = physical.Write(arrange, "", _NOWHERE, (), "append", "append", changelog=False, key=(), proven=True,
                               options={})  # fmt: skip
        job = structs.replace(self.job, write=write, shared={}, timeline={}, indexes=())
        task = Discard(f"index-{uuid4().hex[:12]}", None, ())
        arrangements = Arrangements(self.home, manifest, epoch, task.commit)
        return run_batch(self.engine, job, Batch(task, {read.source: splits}, {read.source: reader}, arrangements))


def _own_sides(job: physical.Job) -> Iterator[tuple[physical.Arrange, str]]:
    """Yield what sides keep that are just the log of a view, as an operator of its own, and which view that is."""
    for operator in job.graph.stateful():
        if not isinstance(operator, physical.Join) or not operator.safe:
            continue
        for side, safe in _leaves(operator):
            log = log_of(side.input)
            if side.index is not None or side.reads or side.replicated or log is None:
                continue
            kept = side.kept if side.keeps == "rows" else ()
            yield physical.Arrange(_matching(side, safe), side.arrangement, side.key, kept), log.source


def _leaves(join: physical.Join) -> Iterator[tuple[physical.Side, tuple[bool, ...]]]:
    for side in (join.left, join.right):
        if side.within:
            yield from _leaves(physical.joined_in(side))
        else:
            yield side, join.safe


def _matching(side: physical.Side, safe: Sequence[bool]) -> physical.Operator:
    """Return the rows of a side that may have a match: no others are kept."""
    types = {column.name: column for column in physical.columns_of(side.input)}
    null = [
        call("IS NULL(any)", (logical.Reference(name, parse_type(types[name].type), True),))
        for name, equal in zip(side.key, safe, strict=True)
        if types[name].nullable and not equal
    ]
    if not null:
        return side.input
    some = null[0] if len(null) == 1 else call("OR(boolean…)", null)
    return physical.Map(side.input, where=physical.Output("", call("NOT(boolean)", (some,))))
