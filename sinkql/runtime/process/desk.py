"""Which sources are to be captured, and for whom: asked of whoever keeps the catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from sinkql.capture.control import CaptureHost
from sinkql.capture.log import LogDirectory
from sinkql.connector_api.cdc import CapturedSource, LogFiles, LogRetention, OpenStream, Stream


@dataclass(frozen=True, slots=True)
class CaptureAssignment:
    """A source that is to be captured, and how its log is kept; `together` with others of its kind, by one process.

    `secrets` are the versions of those that the source itself takes: with another one its capture begins again.
    """

    source: CapturedSource
    keeping: LogRetention
    together: bool = False
    secrets: tuple[tuple[str, int], ...] = ()


class CaptureDirectory(Protocol):
    """Say what is to be captured. Methods raise SinkqlError where the catalog cannot be read."""

    def captures(self) -> Sequence[CaptureAssignment]:
        """Return the sources that sinks read which are to run."""

    def folder(self, capturing: CaptureAssignment) -> LogDirectory:
        """Return where what is kept of a source lies."""

    def host(self, source: CapturedSource) -> CaptureHost:
        """Return what a capture of it is told by, and tells."""

    def opening(
        self, source: CapturedSource, notes: LogFiles, open_stream: OpenStream | None = None
    ) -> Callable[[], Stream]:
        """Return what connects to its server, by what opens streams where that is given."""

    def together(self, kind: str) -> AbstractContextManager[OpenStream]:
        """Return what opens the streams of sources that one process captures."""
