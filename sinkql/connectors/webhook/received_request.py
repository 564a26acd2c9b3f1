"""Hold the request that a connection receives, and measure how quickly it arrives."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import quote, unquote

import h11

from sinkql.connectors.webhook.endpoint import Endpoint, Response

_SLOWEST = 16 << 10
"""Bytes a second. A request may take a second more for each: a few slow senders must not occupy all connections."""
_SMALL, _FEW, _REST_SECONDS, _LONGEST_REST = 1024, 4, 0.01, 1.0
"""After a few small parts of one request, a connection rests longer and longer, so that parts arrive together."""


@dataclass(slots=True)
class ReceivedRequest:
    """A request that is being received. If `refusal` is set, it is the answer whatever else arrives."""

    headers: dict[str, bytes] = field(default_factory=dict)
    endpoint: Endpoint | None = None
    refusal: Response | None = None
    body: bytearray = field(default_factory=bytearray)

    def take_body(self) -> bytes:
        """Return the received part of the body, and release it."""
        body, self.body = bytes(self.body), bytearray()
        return body


@dataclass(slots=True)
class RequestPace:
    """The times and sizes of the request that a connection receives."""

    begun_at: float | None = None
    """When its first part arrived; None between requests."""
    size: int = 0
    """Bytes of its body that were received."""
    small_parts: int = 0

    def begin(self, now: float) -> None:
        """Start a request if none has begun."""
        if self.begun_at is None:
            self.restart(now)

    def restart(self, now: float) -> None:
        """Start the next request."""
        self.begun_at, self.size = now, 0

    def end(self) -> None:
        """End the request, which was received completely."""
        self.begun_at, self.small_parts = None, 0

    def rest_seconds(self, size: int) -> float | None:
        """Count a part of that size; return how long the connection should rest, None for not at all."""
        self.small_parts = self.small_parts + 1 if size < _SMALL else 0
        if self.small_parts <= _FEW:
            return None
        return min(_LONGEST_REST, _REST_SECONDS * 2.0 ** min(self.small_parts - _FEW, 10))

    def deadline(self, seconds: float) -> float | None:
        """Return when the request must be complete if it may take that long without a body; None between requests."""
        return None if self.begun_at is None else self.begun_at + seconds + self.size / _SLOWEST


def path_of_target(target: bytes) -> str:
    """Return the path of a request's target with the quoting of `plan.path_of`."""
    path = target.decode("ascii", "replace").partition("?")[0]
    return "/".join(quote(unquote(part), safe="") for part in path.split("/"))


def headers_of(request: h11.Request) -> tuple[dict[str, bytes], str | None]:
    """Return the headers by their names in lower case, and the name of a duplicate header."""
    headers: dict[str, bytes] = {}
    duplicate = None
    for name, value in request.headers:
        key = name.decode()
        if key in headers:
            duplicate = duplicate or key
        headers[key] = value
    return headers, duplicate
