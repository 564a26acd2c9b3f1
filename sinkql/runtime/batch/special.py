"""Two offsets of a job → what is special of its sources between them."""

from __future__ import annotations

from collections.abc import Container, Mapping

from sinkql import physical
from sinkql.connector_api.stream import JobOffsets, Reader
from sinkql.errors import SinkqlError


def truncated_between(
    job: physical.Job,
    readers: Mapping[str, Reader],
    start: JobOffsets,
    end: JobOffsets,
    fresh: Container[str] = (),
) -> frozenset[str]:
    """Return the names that offsets have of these sources; raises SQ3416 for one whose rows the job does not know.

    Of those in `fresh` nothing was read before.
    """
    found = frozenset(
        name
        for name, reader in readers.items()
        if start[name] != end[name] and reader.truncated_between(start[name], end[name])
    )
    for read in job.reads():
        if read.source in found and read.change != "upsert" and read.source in fresh:
            found -= {read.source}
        elif read.source in found and read.change != "upsert":
            raise SinkqlError(
                "SQ3416",
                f'all rows of source "{read.name}" were removed at once, and sink "{job.sink}" does not know them',
                detail="They have no key by which it keeps them.",
                hint="Drop the sink and create it again, into a new table.",
            )
    return found


def is_consistent_at(readers: Mapping[str, Reader], end: JobOffsets) -> bool | None:
    """Tell whether the rows up to there are those of one moment of each source; None where no source has to say."""
    said = [each for name, reader in readers.items() if (each := reader.is_consistent(end[name])) is not None]
    return all(said) if said else None


def snapshots_running_after(readers: Mapping[str, Reader], start: JobOffsets) -> frozenset[str]:
    """Return the names of the sources whose first snapshot goes on after `start`."""
    return frozenset(name for name, reader in readers.items() if reader.snapshot_running(start[name]))
