"""Which sources are to be captured, and for whom: asked of whoever keeps the catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from sinkql.capture.host import Host
from sinkql.capture.log import LogFolder
from sinkql.extension.capture import CapturedSource, Keeping, Stream


@dataclass(frozen=True, slots=True)
class Capturing:
    """A source that is to be captured, and how its log is kept."""

    source: CapturedSource
    keeping: Keeping


class Desk(Protocol):
    """Say what is to be captured. Methods raise SinkqlError where the catalog cannot be read."""

    def captures(self) -> Sequence[Capturing]:
        """Return the sources that sinks read which are to run."""

    def folder(self, source: CapturedSource) -> LogFolder:
        """Return the folder of what is kept of a source."""

    def host(self, source: CapturedSource) -> Host:
        """Return what a capture of it is told by, and tells."""

    def opening(self, source: CapturedSource) -> Callable[[], Stream]:
        """Return what connects to its server."""
