"""Errors of other processes and of expressions → the SinkqlError that a user sees.

A task or the source's process leaves its SinkqlError as a file, since what comes through Spark is a Java stack trace.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sinkql.errors import SinkqlError


def leave(folder: Path, who: str, error: BaseException) -> None:
    """Keep a SinkqlError for `find`; do nothing for any other error."""
    if not isinstance(error, SinkqlError):
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"error-{who}-{uuid.uuid4().hex}"
    draft = path.with_suffix(".draft")
    draft.write_bytes(pickle.dumps(error))
    draft.rename(path.with_suffix(".pickle"))


@contextmanager
def left_in(folder: Path, who: str) -> Iterator[None]:
    """Keep a SinkqlError that ends the block, and let it go on."""
    try:
        yield
    except SinkqlError as error:
        leave(folder, who, error)
        raise


def find(folder: Path) -> SinkqlError | None:
    """Return the first SinkqlError that a process left in `folder`."""
    for path in sorted(folder.glob("error-*.pickle")):
        error = pickle.loads(path.read_bytes())
        assert isinstance(error, SinkqlError)
        return error
    return None
