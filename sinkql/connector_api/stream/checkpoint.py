"""Define offsets, and the checkpoint that a table stores; compute the checkpoint of a claim."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sinkql import physical

Offsets = Mapping[str, Any]
"""The positions of one source, as JSON. Only its connector knows the content."""

JobOffsets = Mapping[str, Offsets]
"""The offsets of a job's sources, by source name."""

Split = Mapping[str, Any]
"""A part of a source to read, as JSON. Reading it again yields the same rows."""


def is_same(left: object, right: object) -> bool:
    """Return whether offsets are equal as JSON: a reader's may have tuples where a checkpoint's have lists."""
    return left == right or json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


@dataclass(frozen=True, slots=True)
class Limit:
    """The most input of a batch, in rows and in bytes."""

    rows: int
    bytes: int = 1 << 30


NO_PLAN = "none"
"""The plan of a checkpoint before the first batch."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint of a sink: offsets, epoch and last writer. Each snapshot of the sink stores a complete one.

    * `start` and `end` are the offsets of the batch that the snapshot committed.
    * `plan` is the plan hash, "none" until the first batch. `claim` identifies the claim, `commit` the attempt.
    * `index` and `state` are names of manifests.
    * `replayed` is the name of the list of the dead letters that were replayed last.
    * `consistent` is whether all sources are consistent, see `SnapshotReader.is_consistent`.
    * `below` has the positions of the sources below all inputs (`Reader.comparable_position`), if the job needs them.
      `tick` is the number of the first tick with these positions.
    """

    sink: str
    epoch: int
    claim: str
    commit: str
    start: JobOffsets
    end: JobOffsets
    plan: str
    index: str | None
    state: str | None
    replayed: str | None = None
    consistent: bool | None = None
    tick: int | None = None
    below: JobOffsets | None = None


@dataclass(frozen=True, slots=True)
class PlanChange:
    """A sink that continues with `plan` in a table that an earlier plan wrote.

    * `follows` has the earlier plans, and for each the new names of columns by their old names; None for dropped ones.
    * If `stateful`, the sink continues with the state of the earlier plan.
    * `check` raises a SinkqlError for a checkpoint from which the plan cannot continue.
    * If a plan in `again` wrote the table, a full refresh comes first. Only its commit makes the checkpoint one of
      `plan`.
    * With `empties`, the first batch deletes foreign rows. Only its commit makes a checkpoint without a plan one of
      `plan`.
    """

    plan: str
    follows: Mapping[str, Mapping[str, str | None]]
    stateful: bool = False
    check: Callable[[Checkpoint], None] = lambda checkpoint: None
    again: frozenset[str] = frozenset()
    empties: bool = False


def plan_change_of(job: physical.Job) -> PlanChange | None:
    """Return how a job continues in a table that its earlier plans wrote, or claimed without a batch."""
    earlier = {plan.plan: plan.renamed for plan in job.follows if plan.plan != job.plan}
    if not earlier:
        return None
    unwritten = {old: new for renamed in earlier.values() for old, new in renamed.items()}
    again = frozenset(plan.plan for plan in job.follows if plan.again) & earlier.keys()
    return PlanChange(job.plan, {NO_PLAN: unwritten, **earlier}, stateful=job.stateful(), again=again)


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """A claim that `Writer.claim` makes. `epoch` is the lowest epoch that it may get.

    `initial` has the offsets of the job's sources that the table's checkpoint does not have.

    If `switch` follows the checkpoint's plan, the claim's checkpoint has the plan of `switch`. Its sources are those of
    `initial`, at the checkpoint's offsets where it has any; `claim_checkpoint` derives it. If the job has other columns
    than that plan, the same commit changes the table's columns; present rows have NULL in new ones.

    `renew` renews the sink's lease, and raises if another process has the lease. It is called before each attempt,
    after the load of the table that the attempt is made on. So no claim ends the process that has the lease. Without
    `renew`, a claim that another one has overtaken is not tried again: SQ5101.
    """

    initial: JobOffsets
    epoch: int
    switch: PlanChange | None = None
    renew: Callable[[], None] | None = None


def claim_checkpoint(current: Checkpoint | None, request: ClaimRequest, *, sink: str, claim: str) -> Checkpoint:
    """Return the checkpoint of a claim on a table whose checkpoint is `current`, by the rules of `ClaimRequest`.

    Raises what `PlanChange.check` raises: another run may have written the table since this one read it.
    """
    initial, epoch, switch = request.initial, request.epoch, request.switch
    if current is None:
        return Checkpoint(sink, max(epoch, 1), claim, claim, initial, initial, NO_PLAN, None, None)
    claimed = replace(current, epoch=max(epoch, current.epoch + 1), claim=claim)
    if switch is None or current.plan not in switch.follows or current.plan in switch.again:
        return claimed
    switch.check(current)
    end = {source: current.end.get(source, begin) for source, begin in initial.items()}
    plan = NO_PLAN if current.plan == NO_PLAN and switch.empties else switch.plan
    state = current.state if switch.stateful else None
    tick, below = (current.tick, current.below) if end == current.end else (None, None)
    return replace(claimed, start=end, end=end, plan=plan, state=state, tick=tick, below=below)
