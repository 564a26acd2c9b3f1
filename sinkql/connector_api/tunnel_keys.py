"""Parse and format the secret of an SSH TUNNEL connection: its private keys, and the server key that it trusts."""

from __future__ import annotations

import json
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TunnelKeys:
    """Two private keys, and the public key of the server at the first use of the tunnel; None before."""

    keys: tuple[str, ...] = field(repr=False)
    host_key: str | None = None

    @classmethod
    def parse(cls, text: str) -> TunnelKeys:
        """Parse the result of `text`. Earlier versions stored a list of the keys."""
        stored = json.loads(text)
        if isinstance(stored, list):
            return cls(tuple(stored))
        return cls(tuple(stored["keys"]), stored.get("host_key"))

    def text(self) -> str:
        """Return the keys as JSON."""
        pinned = {} if self.host_key is None else {"host_key": self.host_key}
        return json.dumps({"keys": self.keys, **pinned})
