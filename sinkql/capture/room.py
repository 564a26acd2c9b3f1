"""A log, and how far its sinks are → whether it has room for more, and once it has had none for long, why not."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from sinkql.capture.control import SubscribedSink
from sinkql.capture.log import Entry, LogWriter
from sinkql.capture.messages import CaptureError
from sinkql.capture.retention import SinkPositions, may_need
from sinkql.errors import SinkqlError, as_data

_SHOWN = 5


@dataclass(slots=True)
class LogQuota:
    """What a log of at most so many bytes has room for. `error` is what users are told after so many seconds."""

    log: LogWriter
    most: int
    patience: float
    error: SinkqlError | None = None
    _since: float | None = field(default=None, init=False)
    _named: Sequence[str] = field(default=(), init=False)

    @property
    def full(self) -> bool:
        """Tell whether there is none."""
        return self.log.size > self.most

    @property
    def trouble(self) -> CaptureError | None:
        """Return what sinks that have read everything are told."""
        if self.error is None or self._since is None:
            return None
        return CaptureError(as_data(self.error), self._since, self._since)

    def measure(self, marks: SinkPositions, clients: Sequence[SubscribedSink]) -> bool:
        """Look once what no sink needs is deleted; tell whether there is something to tell, or was until now."""
        before, now = self.error, time.time()
        self._since = (self._since or now) if self.full else None
        told = self._since is not None and now >= self._since + self.patience
        late = self._late(marks, clients) if told else ()
        if not told:
            self.error = None
        elif self.error is None or late != self._named:
            self.error = self._full(late)
        self._named = late
        return (before, self.error) != (None, None)

    def _late(self, marks: SinkPositions, clients: Sequence[SubscribedSink]) -> Sequence[str]:
        """Return the names of the sinks that must still read the log's first entry."""
        first = self.log.entries[0]
        return sorted({each.sink or each.sink_id for each in clients if _needs(first, each.reader, marks)})

    def _full(self, late: Sequence[str]) -> SinkqlError:
        names = ", ".join(f'"{each}"' for each in late[:_SHOWN]) + (" and others" if len(late) > _SHOWN else "")
        readers = f", which {names} must still read" if late else ""
        return SinkqlError(
            "SQ3443",
            "the log of the source is full: nothing more is read until its sinks have read what is there",
            detail=f"it has {self.log.size} bytes of {self.most}{readers}",
            hint="Start the sinks that do not run, or drop those that are not needed any more. ALTER SOURCE … SET (MAX "
            "LOG SIZE = …) makes more room.",
        )


def _needs(first: Entry, reader: str, marks: SinkPositions) -> bool:
    return reader in marks.wants or (reader in marks.at and may_need(marks.at[reader], first))
