"""What a table says of the sink that writes it, and who may go on from there.

How far a source was read, and its parts; how much may be read at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sinkql import physical

Offsets = Mapping[str, Any]
"""How far one source was read; JSON-able, its content is the connector's."""

JobOffsets = Mapping[str, Offsets]
"""Source name to offsets: how far a job was read."""

Split = Mapping[str, Any]
"""A replayable part of a source; JSON-able: reading it again gives the same rows."""


def same(left: object, right: object) -> bool:
    """Compare offsets by what JSON makes of them: those of a file or a marker were JSON, a reader's may hold tuples."""
    return left == right or json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


@dataclass(frozen=True, slots=True)
class Limit:
    """Bound a batch by rows and by bytes of input."""

    rows: int
    bytes: int = 1 << 30


NO_PLAN = "none"
"""The plan of a marker before the first batch."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the table says of a sink: how far it is, and who wrote last. Whole in every snapshot of the sink.

    `consistent` as `Reader.is_consistent`, of all its sources.

    `plan` is "none" until the first batch; `claim` identifies the claim, `commit` the attempt; `index` and `state`
    name manifests, None where there is none. `replayed` names what lists the records that were replayed last.
    `below` is how far the sources below all inputs were read (`Reader.comparable_position`), where that was asked for,
    and `tick` the first tick of the timeline at which that is so, if there is one.
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
    """A sink that goes on as `plan` in a table that one of the plans `follows` wrote, with its state if it has any.

    Of each of these plans: the names that columns have now, by those that they had, None for those that are gone.
    `check` raises a SinkqlError for a
    marker of one of them from which the plan cannot go on. Where one of `again` wrote the table, its rows come anew
    first, by `Writer.commit_refresh`, which alone makes its marker one of `plan`. With `empties` the first batch takes
    rows of others out of the table, and alone makes a marker without a plan one of `plan`.
    """

    plan: str
    follows: Mapping[str, Mapping[str, str | None]]
    stateful: bool = False
    check: Callable[[Checkpoint], None] = lambda marker: None
    again: frozenset[str] = frozenset()
    empties: bool = False


def plan_change_of(job: physical.Job) -> PlanChange | None:
    """Return how a job goes on in a table that its earlier plans wrote, or claimed before a first batch."""
    earlier = {each.plan: each.renamed for each in job.follows if each.plan != job.plan}
    if not earlier:
        return None
    unwritten = {old: new for renamed in earlier.values() for old, new in renamed.items()}
    again = frozenset(each.plan for each in job.follows if each.again) & earlier.keys()
    return PlanChange(job.plan, {NO_PLAN: unwritten, **earlier}, stateful=job.stateful(), again=again)


def claim_checkpoint(
    kept: Checkpoint | None, *, sink: str, claim: str, initial: JobOffsets, epoch: int, switch: PlanChange | None
) -> Checkpoint:
    """Return the marker of the claim `claim` on a table whose marker is `kept`, by the rules of `Writer.claim`.

    Raises what `PlanChange.check` does: others may have written since whoever claims has read the marker.
    """
    if kept is None:
        return Checkpoint(sink, max(epoch, 1), claim, claim, initial, initial, NO_PLAN, None, None)
    marker = replace(kept, epoch=max(epoch, kept.epoch + 1), claim=claim)
    if switch is None or kept.plan not in switch.follows or kept.plan in switch.again:
        return marker
    switch.check(kept)
    end = {source: kept.end.get(source, begin) for source, begin in initial.items()}
    plan = NO_PLAN if kept.plan == NO_PLAN and switch.empties else switch.plan
    state = kept.state if switch.stateful else None
    tick, below = (kept.tick, kept.below) if end == kept.end else (None, None)
    return replace(marker, start=end, end=end, plan=plan, state=state, tick=tick, below=below)
