"""The planning context of connectors, without a catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sinkql import logical
from support.seaweed import SECRET


class Access:
    """A planning context with one secret and no connections."""

    def __init__(self, secret: str = SECRET) -> None:
        self._secret = secret

    def secret(self, full_name: str) -> str:
        return self._secret

    def connection(self, full_name: str) -> logical.Connection:
        raise KeyError(full_name)

    def store(self, full_name: str) -> Any:
        raise KeyError(full_name)

    def path(self, option: str) -> Path:
        return Path(option)
