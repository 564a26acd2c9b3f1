"""Wait until jobs have committed all rows that their sources had at the time of the request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sinkql import physical
from sinkql.connector_api.requests import is_wait_done, request_wait
from sinkql.storage.key_value import KeyValueStore


@dataclass(slots=True)
class TargetWait:
    """Requests to jobs: to views first, and to each other job after the views that it reads have answered."""

    jobs: Sequence[physical.Job]
    notes: KeyValueStore
    _requests: dict[str, str] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)

    def check(self) -> None:
        """Send each request whose views have answered. Answers are in the store, as any process may run a view."""
        names = {job.sink for job in self.jobs}
        self._done |= {sink for sink, name in self._requests.items() if is_wait_done(self.notes, name)}
        for job in self.jobs:
            views = {read.name for read in job.reads() if read.connector == physical.VIEW} & names
            if job.sink not in self._requests and views <= self._done:
                self._requests[job.sink] = request_wait(self.notes, job.sink_id)

    def request(self, sink: str) -> str | None:
        """Return the name of the request to a sink, None if it is not sent yet."""
        return self._requests.get(sink)

    def end(self) -> None:
        """Delete the requests."""
        self.notes.remove(*self._requests.values())
