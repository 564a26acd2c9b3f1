"""What an object store's connection gives to others: the properties that file systems and table libraries take.

Keys that run out → keys that are valid now: asked for anew once half of their life is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any, Protocol

from sinkql.errors import SinkqlError

Options = Mapping[str, Any]
"""A connection's planned options (`logical.Connection.options`, `physical.Connection.options`)."""

RevealSecret = Callable[[str], str]
"""Return a secret item's value by its full name."""


class ObjectStore(Protocol):
    """Give access to an object store. Credentials may run out: ask again for each batch."""

    def properties(self) -> Mapping[str, str]:
        """Return `s3.endpoint`, `s3.access-key-id`, `gcs.oauth2.token` and the like; never log it."""

    def renew(self) -> None:
        """Have the next `properties` ask for other credentials, if there are any: these were refused."""


OpenStore = Callable[[Options, RevealSecret], ObjectStore]


_LAST = timedelta(minutes=2)
_PAUSE = timedelta(seconds=30)


def now() -> datetime:
    """Return the time, with its zone."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Keys, and how long they are valid from when they were asked for; their text shows none of them."""

    keys: Mapping[str, str] = field(repr=False)
    life: timedelta


@dataclass(frozen=True, slots=True)
class _Held:
    keys: Mapping[str, str] = field(repr=False)
    renew_at: datetime
    expires_at: datetime


@dataclass(slots=True)
class RenewedCredentials:
    """Keep keys and renew them: what gets keys of an hour has them for half an hour.

    While whoever gives them does not answer, the keys that are there go on to their end. `ask` gets the time.
    """

    ask: Callable[[datetime], Credentials] = field(repr=False)
    clock: Callable[[], datetime] = now
    _held: _Held | None = field(default=None, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    def current(self) -> Mapping[str, str]:
        """Return keys that are valid now; raises what `ask` raises."""
        with self._lock:
            held, time = self._held, self.clock()
            if held is None or time >= held.renew_at:
                try:
                    credentials = self.ask(time)
                    held = _Held(credentials.keys, time + credentials.life / 2, time + credentials.life)
                except SinkqlError:
                    if held is None or time >= held.expires_at - _LAST:
                        raise
                    held = _Held(held.keys, time + _PAUSE, held.expires_at)
                self._held = held
            return held.keys

    def forget(self) -> None:
        """Ask anew next time: the keys that are there were refused."""
        with self._lock:
            self._held = None
