"""Check that a master answers, and find the address by which the master reaches this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from sinkql.errors import SinkqlError

STANDALONE = "spark://"
"""The prefix of addresses of Spark's own masters; one of several masters leads."""
KUBERNETES = "k8s://"
"""The prefix of a Kubernetes API server's address."""
ADDRESSED = (STANDALONE, KUBERNETES)
_PORTS = {"https": 443, "http": 80}
_PATIENCE_SECONDS = 10.0


def own_address(master: str) -> str | None:
    """Return the address by which the first master that answers reaches this machine; raises SQ4050.

    Returns None behind a proxy, where the address is unknown.
    """
    if master.startswith(KUBERNETES) and _proxied(master):
        return None
    reasons = []
    for server, host, port in _places(master):
        try:
            with socket.create_connection((host, int(port or 0)), _PATIENCE_SECONDS) as reached:
                return str(reached.getsockname()[0])
        except (OSError, ValueError) as error:
            reasons.append(f"{server}: {error}")
    raise unanswered(master, "\n".join(reasons))


def unanswered(master: str, detail: str) -> SinkqlError:
    """Return SQ4050."""
    if master.startswith(KUBERNETES):
        what = "Kubernetes API server"
        hint = "Correct MASTER, or the network between: ALTER CLUSTER … SET (MASTER = 'k8s://https://host:6443')."
    else:
        what = "Spark master"
        hint = "Start the master, or correct MASTER: ALTER CLUSTER … SET (MASTER = 'spark://host:7077')."
    return SinkqlError("SQ4050", f'no {what} answers at "{master}"', detail=detail, hint=hint)


def _places(master: str) -> Iterator[tuple[str, str, str | int | None]]:
    """Yield each server that must answer, with host and port."""
    if master.startswith(KUBERNETES):
        url = urlsplit(_url(master))
        yield url.netloc, url.hostname or "", url.port or _PORTS.get(url.scheme)
        return
    for server in master.removeprefix(STANDALONE).split(","):
        host, _, port = server.rpartition(":")
        yield server, host, port


def _url(master: str) -> str:
    """Return the URL of an API server, by default with HTTPS."""
    url = master.removeprefix(KUBERNETES)
    return url if "://" in url else f"https://{url}"


def _proxied(master: str) -> bool:
    url = urlsplit(_url(master))
    return url.scheme in getproxies() and not proxy_bypass(url.hostname or "")
