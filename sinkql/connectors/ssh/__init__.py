"""SSH tunnels: declared, not supported yet."""

from __future__ import annotations

from dataclasses import dataclass

from sinkql.extension.plan import Connector, Later


@dataclass(frozen=True, slots=True)
class TunnelOptions:
    """The options of TO SSH TUNNEL."""

    host: str
    user: str
    port: int = 22


connector = Connector("ssh", later=(Later("CONNECTION", "SSH TUNNEL", TunnelOptions),))
