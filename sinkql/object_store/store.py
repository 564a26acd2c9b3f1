"""The interface of an object-store connection, and credentials that are renewed before they expire.

File systems and table libraries accept the properties of a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, Protocol

from sinkql.errors import SinkqlError
from sinkql.machine import clock

Options = Mapping[str, Any]
"""A connection's planned options (`logical.Connection.options`, `physical.Connection.options`)."""

RevealSecret = Callable[[str], str]
"""Return a secret item's value by its full name."""


class ObjectStore(Protocol):
    """Access to an object store. Credentials may expire: request them for each batch."""

    def properties(self) -> Mapping[str, str]:
        """Return `s3.endpoint`, `s3.access-key-id`, `gcs.oauth2.token` and so on; never log them."""

    def renew(self) -> None:
        """Make the next `properties` request new credentials, if possible, because these were refused."""


OpenStore = Callable[[Options, RevealSecret], ObjectStore]


_LAST = timedelta(minutes=2)
_PAUSE = timedelta(seconds=30)


def now() -> datetime:
    """Return the current time with its time zone."""
    return clock.now()


@dataclass(frozen=True, slots=True)
class Credentials:
    """Keys, and their lifetime from the request on; their text shows no key."""

    keys: Mapping[str, str] = field(repr=False)
    life: timedelta


@dataclass(frozen=True, slots=True)
class _Held:
    keys: Mapping[str, str] = field(repr=False)
    renew_at: datetime
    expires_at: datetime


@dataclass(slots=True)
class RenewedCredentials:
    """Keys that are renewed after half of their lifetime.

    If the provider does not answer, the present keys stay in use until they expire. `ask` gets the time of the request.
    """

    ask: Callable[[datetime], Credentials] = field(repr=False)
    clock: Callable[[], datetime] = now
    _held: _Held | None = field(default=None, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    def current(self) -> Mapping[str, str]:
        """Return keys that are currently valid; raises the errors of `ask`."""
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
        """Request new keys next time, because the present ones were refused."""
        with self._lock:
            self._held = None
