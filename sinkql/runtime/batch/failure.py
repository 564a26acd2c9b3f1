"""Errors of other processes and of expressions → the SinkqlError that a user sees.

A task says its SinkqlError in a line of text, since what comes through Spark is a Java stack trace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from sinkql import physical
from sinkql.connector_api.cdc import captured_source
from sinkql.errors import LateError, SinkqlError, Span, UnforeseenError, as_disk_full, error_in, line_of
from sinkql.evaluate.failure import code_of

_SHOWN = 12
_LATE = re.compile(
    r"failed to connect back|TimeoutException|\bheartbeat timed out\b|timed? ?out (while )?waiting|"
    r"Futures timed out|did not (respond|answer|heartbeat) ",
    re.IGNORECASE,
)
"""What Spark says of a process that it gave up waiting for."""
_GONE = re.compile(r"ExecutorLostFailure|FetchFailedException|has failed the maximum allowable number of times")
"""What Spark says of executors that have gone, more often than it tries a task, or a stage, again."""
_GUARD = "CASE WHEN value ~ '^[0-9]{1,9}$' THEN value::int END or 1 / NULLIF(value, 0)"
_SHOWN_CHARACTERS = 200
_UNSAID = "materialize.public."
"""What goes without saying in a name, unless somebody says otherwise."""


def name_source(error: SinkqlError, reads: Iterable[physical.Read]) -> SinkqlError:
    """Name the source where the hint says ALTER SOURCE …, if it can be one alone."""
    names = {
        captured_source(read.connector, read.options, None, read.log)[0].name
        if "source_id" in read.options
        else read.name
        for read in reads
    }
    if len(names) == 1 and error.hint is not None:
        (name,) = names
        error.hint = error.hint.replace("ALTER SOURCE …", f"ALTER SOURCE {name.removeprefix(_UNSAID)}")
    return error


class TaskError(Exception):
    """Say an error with a code in a way that comes through Spark, of which only text is left in the end."""

    def __init__(self, error: SinkqlError, key: str) -> None:
        super().__init__(f"{error}\n{line_of(error, key)}")


@contextmanager
def as_task_error(key: str) -> Iterator[None]:
    """Raise a SinkqlError of a task, and the refusal of a file system, as a TaskError: `from_spark_error` knows it by
    the key."""
    try:
        yield
    except (SinkqlError, OSError) as error:
        coded = error if isinstance(error, SinkqlError) else as_disk_full(error)
        if coded is None:
            raise
        raise TaskError(coded, key) from error


@contextmanager
def disk_full_as_error() -> Iterator[None]:
    """Turn the refusal of a file system in the block into a SinkqlError."""
    try:
        yield
    except OSError as error:
        coded = as_disk_full(error)
        if coded is None:
            raise
        raise coded from error


def with_code(error: Exception) -> SinkqlError:
    """Return the error to show for one that has no code: what a full disk means, else as `unforeseen`."""
    return as_disk_full(error) or unforeseen(error)


def row_error(
    job: physical.Job,
    failing: physical.Output,
    message: str,
    row: Mapping[str, object],
    *,
    code: str | None = None,
    hint: str | None = None,
) -> SinkqlError:
    """Return the error for an expression of a job that fails on a row, at its place in the user's SQL."""
    shown = {
        name: value if isinstance(value, int | float | None) else str(value)[:_SHOWN_CHARACTERS]
        for name, value in row.items()
    }
    detail = f"it fails on the row {json.dumps(shown, ensure_ascii=False)}"
    return at_expression(
        SinkqlError(code or code_of(message), message, detail=detail, hint=hint or row_error_hint(job)), job, failing
    )


def row_error_hint(job: physical.Job) -> str:
    """Return what to do about an expression that fails on a row."""
    write = job.write
    from_now_on = write.mode == "append" and write.change == "append" and not job.stateful()
    if job.renewable or from_now_on:
        return f"Guard it, as in {_GUARD}, by CREATE OR REPLACE MATERIALIZED VIEW, or correct the row in its source."
    return (
        "Correct the row in its source; or create another materialized view with the expression guarded, as in "
        f"{_GUARD}, and another sink of it into a new table."
    )


def at_expression(error: SinkqlError, job: physical.Job, output: physical.Output) -> SinkqlError:
    """Return an error at the place of an expression of a job."""
    origin = output.origin
    if origin is not None:
        error.span, error.path, error.text = Span(origin.start, origin.end), origin.item, job.texts.get(origin.item)
    return error


def from_spark_error(error: Exception, key: str) -> SinkqlError | None:
    """Return the SinkqlError that a task told, of one that came through Spark."""
    return error_in(str(error), key)


def unforeseen(error: Exception) -> SinkqlError:
    """Return the error for what no code foresees: its cause as message, the end of its Python traceback as detail.

    What only came too late is SQ4005, and SQ4055 says that executors have gone; an error of Python code in a task is
    none of that, whatever it says.
    """
    text = str(error).strip() or type(error).__name__
    cause, trace = _last_traceback(text)
    late = _LATE.search(text) if cause is None else None
    if late is not None:
        return LateError(
            "SQ4005",
            "a process of Spark did not answer in time",
            detail=next(line.strip() for line in text.splitlines() if _LATE.search(line))[:300],
            hint="The machine seems to have too much to do; the sink goes on once there is time for it.",
        )
    gone = _GONE.search(text) if cause is None else None
    if gone is not None:
        return SinkqlError(
            "SQ4055",
            "executors were lost while they ran the batch",
            detail=next(line.strip() for line in text.splitlines() if _GONE.search(line))[:300],
            hint="The batch is tried again. If that goes on, read the logs of the executors: they may have too little "
            "memory, which ALTER CLUSTER … SET (MEMORY = '4g') changes.",
        )
    return UnforeseenError(
        "SQ3001",
        f"the batch failed: {(cause or text.splitlines()[0])[:300]}",
        detail="\n".join(trace[-_SHOWN:]) or f"{type(error).__name__}: {text[:2000]}",
        hint="The sink continues where it stopped when it is started again; "
        "see spark.log in the folder of the cluster in .sinkql/sinks/spark.",
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
