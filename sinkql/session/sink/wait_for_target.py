"""Jobs of sinks, and of the views that they read → whether they have all that their sources had when it was asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sinkql import physical
from sinkql.connector_api.requests import is_wait_done, request_wait
from sinkql.storage.key_value import KeyValueStore


@dataclass(slots=True)
class TargetWait:
    """Ask the views first, and each other job once those that it reads have answered."""

    jobs: Sequence[physical.Job]
    notes: KeyValueStore
    _asked: dict[str, str] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)

    def check(self) -> None:
        """Ask the jobs whose turn it is. What runs a sink tells of it, who else may run a view does not."""
        names = {job.sink for job in self.jobs}
        self._done |= {sink for sink, name in self._asked.items() if is_wait_done(self.notes, name)}
        for job in self.jobs:
            views = {read.name for read in job.reads() if read.connector == physical.VIEW} & names
            if job.sink not in self._asked and views <= self._done:
                self._asked[job.sink] = request_wait(self.notes, job.sink_id)

    def request(self, sink: str) -> str | None:
        """Return the name of the request for a sink, by its full name; None where it has not been asked yet."""
        return self._asked.get(sink)

    def end(self) -> None:
        """Take back what was not answered."""
        self.notes.remove(*self._asked.values())
