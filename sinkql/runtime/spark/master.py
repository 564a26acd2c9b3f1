"""The address of a master → the one of this machine that it sees, or what is wrong with it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from sinkql.errors import SinkqlError

STANDALONE = "spark://"
"""What addresses of Spark's own masters begin with: of several, one leads."""
KUBERNETES = "k8s://"
"""What comes before the address of a Kubernetes API server."""
ADDRESSED = (STANDALONE, KUBERNETES)
_PORTS = {"https": 443, "http": 80}
_PATIENCE_SECONDS = 10.0


def own_address(master: str) -> str | None:
    """Return the address by which the first master that answers reaches this machine; raises SQ4050.

    None where nothing can be said: a proxy lies between.
    """
    if master.startswith(KUBERNETES) and _proxied(master):
        return None
    reasons = []
    for each, host, port in _places(master):
        try:
            with socket.create_connection((host, int(port or 0)), _PATIENCE_SECONDS) as reached:
                return str(reached.getsockname()[0])
        except (OSError, ValueError) as error:
            reasons.append(f"{each}: {error}")
    raise unanswered(master, "\n".join(reasons))


def unanswered(master: str, detail: str) -> SinkqlError:
    """Return SQ4050."""
    if master.startswith(KUBERNETES):
        what = "Kubernetes API server"
        hint = "Correct MASTER, or what lies between: ALTER CLUSTER … SET (MASTER = 'k8s://https://host:6443')."
    else:
        what = "Spark master"
        hint = "Start the master, or correct MASTER: ALTER CLUSTER … SET (MASTER = 'spark://host:7077')."
    return SinkqlError("SQ4050", f'no {what} answers at "{master}"', detail=detail, hint=hint)


def _places(master: str) -> Iterator[tuple[str, str, str | int | None]]:
    """Yield what is to answer, with host and port."""
    if master.startswith(KUBERNETES):
        url = urlsplit(_url(master))
        yield url.netloc, url.hostname or "", url.port or _PORTS.get(url.scheme)
        return
    for each in master.removeprefix(STANDALONE).split(","):
        host, _, port = each.rpartition(":")
        yield each, host, port


def _url(master: str) -> str:
    """Return the URL of an API server, which is HTTPS where it is not said."""
    url = master.removeprefix(KUBERNETES)
    return url if "://" in url else f"https://{url}"


def _proxied(master: str) -> bool:
    url = urlsplit(_url(master))
    return url.scheme in getproxies() and not proxy_bypass(url.hostname or "")
