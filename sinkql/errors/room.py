"""A file system's refusal to take what is written → an error that says so, and that waiting costs nothing."""

from __future__ import annotations

import errno

from sinkql.errors.error import SinkqlError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_CLOSED = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_SAID = ("No space left on device", "Disk quota exceeded", "File too large", "database or disk is full")
"""How programs say it that give no number."""


def as_disk_full(error: BaseException) -> SinkqlError | None:
    """Return the error to show where a disk is full, or a folder not to be written; None for any other error."""
    if (full := disk_full(error)) is not None:
        return full
    if not isinstance(error, OSError) or error.errno not in _CLOSED:
        return None
    return SinkqlError(
        "SQ4307",
        f"{_file(error)} cannot be read or written",
        detail=_shown(error),
        hint="Give this user the right to read and write there. Nothing is lost, and a running sink goes on by itself.",
    )


def disk_full(error: BaseException) -> SinkqlError | None:
    """Return the error to show where a disk or a quota is full; None for any other error."""
    number = error.errno if isinstance(error, OSError) else None
    if number not in _FULL and not any(said in str(error) for said in _SAID):
        return None
    return SinkqlError(
        "SQ4306",
        f"no room is left for {_file(error)}",
        detail=_shown(error),
        hint="Make room on that disk. Nothing is lost, and a running sink goes on by itself.",
    )


def _file(error: BaseException) -> str:
    name = error.filename if isinstance(error, OSError) else None
    return f'file "{name}"' if name is not None else "a file"


def _shown(error: BaseException) -> str:
    """Return what the error says, or the line that says it of a long text, such as a stack trace."""
    lines = [line.strip() for line in str(error).splitlines() if any(said in line for said in _SAID)]
    return (lines[-1] if lines else str(error))[:500]
