"""What users want of the sinks of an application: asked for all of them at once, however many of them ask."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from sinkql.errors import SinkqlError
from sinkql.runtime.batch.control import Control, Desired


@dataclass(slots=True)
class DesiredStates:
    """Ask the control at most once in `every_seconds`, and tell each sink what it said of it; it may be so old."""

    control: Control
    every_seconds: float = 0.5
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ids: set[str] = field(default_factory=set)
    _known: dict[str, tuple[Desired, int | None]] = field(default_factory=dict)
    _error: SinkqlError | None = None
    _looked_at: float = float("-inf")

    def desired(self, sink_id: str) -> Desired:
        """Return what users want of a sink; raises SQ41xx where that cannot be read."""
        return self._wish(sink_id)[0]

    def asked(self, sink_id: str) -> bool:
        """Tell whether there was an OPTIMIZE SINK to do, which may have been done since."""
        return self._wish(sink_id)[1] is not None

    def now(self, sink_id: str) -> Desired:
        """Return what users want of a sink at this moment, which nothing older takes the place of."""
        with self._lock:
            self._ids.add(sink_id)
            self._known |= self.control.wishes_of([sink_id])
            return self._known[sink_id][0]

    def _wish(self, sink_id: str) -> tuple[Desired, int | None]:
        with self._lock:
            self._ids.add(sink_id)
            old = time.monotonic() >= self._looked_at + self.every_seconds
            if old or (self._error is None and sink_id not in self._known):
                self._look()
            if self._error is not None:
                raise self._error
            return self._known[sink_id]

    def _look(self) -> None:
        try:
            self._known, self._error = dict(self.control.wishes_of(self._ids)), None
        except SinkqlError as error:
            self._error = error  # the others that wait do not each ask a catalog that does not answer
        self._looked_at = time.monotonic()
