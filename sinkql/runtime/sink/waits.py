"""Programs that wait for the sinks of an application to have all that their sources have: asked for all at once."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from sinkql.connector_api.stream import Context, JobOffsets
from sinkql.connector_api.wait_request import pending_waits, wait_store
from sinkql.errors import SinkqlError
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.storage.key_value import KeyValueStore


@dataclass(slots=True)
class WaitRequests:
    """Look for requests at most once in `every_seconds`, whichever sink asks."""

    every_seconds: float = 0.5
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: dict[str, list[str]] = field(default_factory=dict)
    _looked_at: float = float("-inf")

    def pending(self, context: Context) -> list[str]:
        """Return the names of the requests for a sink."""
        with self._lock:
            if time.monotonic() >= self._looked_at + self.every_seconds:
                try:
                    self._known = pending_waits(_notes(context))
                except SinkqlError:
                    self._known = {}  # a catalog that cannot be read now is asked again
                self._looked_at = time.monotonic()
            return self._known.get(context.sink_id, [])


@dataclass(slots=True)
class WaitReplies:
    """Answer the requests for one sink; `_targets` are what its sources had when each of them was seen."""

    _targets: dict[str, JobOffsets] = field(default_factory=dict)

    def reply(self, requests: list[str], loop: BatchLoop, context: Context, batch: threading.Lock) -> tuple[str, ...]:
        """Take back the requests of which the sink has all, and return them; no batch may run while `batch` is held."""
        self._targets = {name: at for name, at in self._targets.items() if name in requests}
        if not requests or not batch.acquire(blocking=False):
            return ()
        try:
            now = loop.present_end()
            for name in requests:
                self._targets.setdefault(name, now)
            whole = loop.has(now)
            done = tuple(name for name in requests if whole or loop.has(self._targets[name]))
            _notes(context).remove(*done)
            return done
        except Exception:  # a source without an end, or that does not answer: no sink ends because somebody waits
            return ()
        finally:
            batch.release()


def _notes(context: Context) -> KeyValueStore:
    return wait_store(context.open_notes, context.folder.parent.parent)
