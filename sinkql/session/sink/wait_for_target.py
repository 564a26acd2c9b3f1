"""Jobs of sinks, and of the views that they read → whether they have all that their sources had when it was asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sinkql import physical
from sinkql.connector_api.wait_request import ask, is_done
from sinkql.storage.key_value import Notes


@dataclass(slots=True)
class Reaching:
    """Ask the views first, and each other job once those that it reads have answered."""

    jobs: Sequence[physical.Job]
    notes: Notes
    _asked: dict[str, str] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)

    def look(self) -> None:
        """Ask the jobs whose turn it is. What runs a sink tells of it, who else may run a view does not."""
        names = {job.sink for job in self.jobs}
        self._done |= {sink for sink, name in self._asked.items() if is_done(self.notes, name)}
        for job in self.jobs:
            views = {read.name for read in job.reads() if read.connector == physical.VIEW} & names
            if job.sink not in self._asked and views <= self._done:
                self._asked[job.sink] = ask(self.notes, job.sink_id)

    def request(self, sink: str) -> str | None:
        """Return the name of the request for a sink, by its full name; None where it has not been asked yet."""
        return self._asked.get(sink)

    def end(self) -> None:
        """Take back what was not answered."""
        self.notes.remove(*self._asked.values())
