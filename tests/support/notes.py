"""A key-value store in memory."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class MemoryNotes:
    """A key-value store like the one beside a capture log (`sinkql.connector_api.cdc.LogFiles`)."""

    files: dict[str, bytes] = field(default_factory=dict)

    def note(self, name: str, data: bytes) -> None:
        self.files[name] = data

    def noted(self, name: str) -> bytes | None:
        return self.files.get(name)

    def unnote(self, name: str) -> None:
        self.files.pop(name, None)
