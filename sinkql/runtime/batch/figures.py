"""A job, its state and what went through its operators → figures for who watches the sink."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sinkql import physical
from sinkql.runtime.batch.engine import Outcome
from sinkql.runtime.state.manifest import Manifest
from sinkql.runtime.state.operator import stateful
from sinkql.runtime.state.report import RowCounts
from sinkql.runtime.state.run import Entry

STATE, TIMELINE = "$state", "$timeline"
"""The names that the figures of a sink's state, and of where it is on the timeline, have among those of its sources."""


@dataclass(slots=True)
class SinkMetrics:
    """What a job's state holds, and how many rows its operators were given and gave, since this run began.

    `now` has `arrangements` by name, `read` (rows of the sources) and `given` (rows that operators gave); `fetched`
    says how many bytes of each came from where STATE keeps them.
    """

    job: physical.Job
    now: Mapping[str, Any] = field(default_factory=dict)
    fetched: Callable[[], Mapping[str, int]] = dict
    _read: int = 0
    _given: int = 0

    def known(self, manifest: Manifest | None) -> None:
        """Take note of the state that a run begins with; None where it is lost."""
        if manifest is not None:
            self._tell(manifest, {})

    def take(self, manifest: Manifest, outcome: Outcome) -> None:
        """Take note of a batch, and the state after it."""
        self._read += sum(tally.given for tally in outcome.tallies.values())
        self._given += sum(flow.given for flow in outcome.flows.values())
        self._tell(manifest, outcome.flows)

    def _tell(self, manifest: Manifest, flows: Mapping[str, RowCounts]) -> None:
        operators = [*self.job.graph.stateful(), *self.job.indexes]
        if not operators:
            return
        kept, fetched = manifest["arrangements"], self.fetched()
        found: dict[str, dict[str, Any]] = {}
        for operator in operators:
            flow = flows.get(operator.arrangement)
            through = {} if flow is None else {"taken": flow.taken, "gave": flow.given}
            kind = str(operator.__struct_config__.tag)
            for each in (each for each in stateful(operator).arrangements if not each.reads):
                runs = [run for runs in kept.get(each.name, {}).values() for run in runs]
                found[each.name] = {"operator": kind, "of": operator.arrangement, **_held(runs), **through}
                found[each.name]["fetched"] = fetched.get(each.name, 0)
        self.now = {"arrangements": found, "read": self._read, "given": self._given}


def _held(runs: Iterable[Entry]) -> dict[str, int]:
    """Return how many rows and bytes runs have, and the rows of the widest key that one of them has."""
    found = list(runs)
    widest = [int(run.get("widest", 1)) for run in found]
    return {
        "held_rows": sum(int(run["rows"]) for run in found),
        "bytes": sum(int(run["bytes"]) for run in found),
        "runs": len(found),
        "widest": max(widest, default=0),
    }
