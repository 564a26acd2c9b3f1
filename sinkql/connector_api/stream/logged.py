"""What writes the log of a materialized view: others look up in indexes of what it has written."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, runtime_checkable

from sinkql.connector_api.stream.place import Split
from sinkql.connector_api.stream.reader import Reader
from sinkql.connector_api.stream.writer import Writer, WriteResult


@runtime_checkable
class ViewLogWriter(Writer, Protocol):
    """Write the log of a view. Its state has indexes, which are made of what is written."""

    def present(self) -> tuple[Reader, Sequence[Split]] | None:
        """Return what reads the rows that are there; None where none has ever been. Called after `refresh`."""

    def changes(self, results: Sequence[WriteResult]) -> tuple[Reader, Sequence[Split]] | None:
        """Return what reads the changes that these results make; None where they make none."""

    def states(self) -> Mapping[str, Collection[str]]:
        """Return the names of the states in which others may look up, and the indexes that each has."""
