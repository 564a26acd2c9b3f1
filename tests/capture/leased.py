"""Captures with a short lease in a catalog's file, like `CatalogCaptureHost`, for the sinks of the fake server."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field

from capture.pipeline import SOURCE, FakeHost
from sinkql.catalog.coordination.control import Control
from sinkql.catalog.sqlite.database import Database
from sinkql.catalog.system import LAYOUT
from sinkql.errors import LeaseLostError


@dataclass
class LeasedHost(FakeHost):
    """A catalog with the sinks, and a lease that lasts `seconds`."""

    seconds: float = 0.1
    owner: str = field(default_factory=lambda: uuid.uuid4().hex)
    renewed_at: float = 0.0
    control: Control = field(init=False)

    def __post_init__(self) -> None:
        self.control = Control(Database(self.sinks.folder / "catalog.db", LAYOUT), lease_seconds=self.seconds)

    def acquire(self) -> int | None:
        self.renewed_at = time.monotonic()
        return self.control.lease(SOURCE, owner=self.owner)

    def renew(self) -> bool:
        if time.monotonic() < self.renewed_at + self.seconds / 3:
            return True
        try:
            self.control.renew(SOURCE, owner=self.owner)
        except LeaseLostError:
            return False
        self.renewed_at = time.monotonic()
        return True

    def release(self) -> None:
        self.control.release(SOURCE, owner=self.owner)
