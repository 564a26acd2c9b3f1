"""What an SSH TUNNEL connection keeps as a secret's value is: its private keys, and the key of the server it trusts."""

from __future__ import annotations

import json
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TunnelKeys:
    """Two private keys, and the server's public one as it was when the tunnel was first used, None before."""

    keys: tuple[str, ...] = field(repr=False)
    host_key: str | None = None

    @classmethod
    def of(cls, text: str) -> TunnelKeys:
        """Read what `text` gave; earlier versions kept the keys alone."""
        found = json.loads(text)
        if isinstance(found, list):
            return cls(tuple(found))
        return cls(tuple(found["keys"]), found.get("host_key"))

    def text(self) -> str:
        """Return it as JSON."""
        pinned = {} if self.host_key is None else {"host_key": self.host_key}
        return json.dumps({"keys": self.keys, **pinned})
