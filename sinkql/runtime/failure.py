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

UNEXPECTED = "SQ3001"
_SHOWN = 12


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


def unexpected(error: Exception) -> SinkqlError:
    """Return an error that no code foresees: its cause as message, the end of its Python traceback as detail."""
    text = str(error).strip() or type(error).__name__
    cause, trace = _last_traceback(text)
    return SinkqlError(
        UNEXPECTED,
        f"the batch failed: {(cause or text.splitlines()[0])[:300]}",
        detail="\n".join(trace[-_SHOWN:]) or f"{type(error).__name__}: {text[:2000]}",
        hint="The sink goes on where it stopped when it is started again; spark.log in .sinkql/sinks/spark tells more.",
    )


def _last_traceback(text: str) -> tuple[str | None, list[str]]:
    """Return the error line and the indented lines of a text's last Python traceback, which Java's lines may hide."""
    cause: str | None = None
    trace: list[str] = []
    inside = False
    for line in text.splitlines():
        if line.endswith("Traceback (most recent call last):"):
            cause, trace, inside = None, [], True
        elif inside and line.startswith("  "):
            trace.append(line)
        elif inside:
            cause, inside = line.strip() or None, False
    return cause, trace
