"""Whether there is a folder for temporary files; where there is none, what to set."""

from __future__ import annotations

import tempfile

from sinkql.errors.error import SinkqlError


def temporary_folder_error() -> SinkqlError | None:
    """Return the error of a machine on which no temporary file can be written, as with a read-only root."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError as error:
        return SinkqlError(
            "SQ4070",
            "no folder for temporary files can be written",
            detail=error.strerror,
            hint="Set TMPDIR to a folder that can be written.",
        )
    return None
