"""The address of a Spark master → the one of this machine that it sees, or what is wrong with it."""

from __future__ import annotations

import socket

from sinkql.errors import SinkqlError

STANDALONE = "spark://"
"""What addresses of Spark's own masters begin with: of several, one leads."""
_PATIENCE_SECONDS = 10.0


def own_address(master: str) -> str:
    """Return the address by which the first master that answers reaches this machine; raises SQ4050."""
    reasons = []
    for each in master.removeprefix(STANDALONE).split(","):
        host, _, port = each.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), _PATIENCE_SECONDS) as reached:
                return str(reached.getsockname()[0])
        except (OSError, ValueError) as error:
            reasons.append(f"{each}: {error}")
    raise SinkqlError(
        "SQ4050",
        f'no Spark master answers at "{master}"',
        detail="\n".join(reasons),
        hint="Start the master, or correct MASTER: ALTER CLUSTER … SET (MASTER = 'spark://host:7077').",
    )
