"""Turn errors of other processes and of expressions into the SinkqlError that a user sees.

A task writes its SinkqlError into a line of text, because Spark passes on only a Java stack trace.
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

_TRACE_LINES = 12
_LATE = re.compile(
    r"failed to connect back|TimeoutException|\bheartbeat timed out\b|timed? ?out (while )?waiting|"
    r"Futures timed out|did not (respond|answer|heartbeat) ",
    re.IGNORECASE,
)
"""Spark's messages about a process that did not answer in time."""
_LOST_EXECUTORS = re.compile(
    r"ExecutorLostFailure|FetchFailedException|has failed the maximum allowable number of times"
)
"""Spark's messages about executors that were lost more often than it retries a task or a stage."""
_GUARD = "CASE WHEN value ~ '^[0-9]{1,9}$' THEN value::int END or 1 / NULLIF(value, 0)"
_SHOWN_CHARACTERS = 200
_DEFAULT_SCHEMA = "materialize.public."
"""The part of a full name that users may omit."""


def name_source(error: SinkqlError, reads: Iterable[physical.Read]) -> SinkqlError:
    """Put the source's name into a hint with ALTER SOURCE …, if only one source is possible."""
    names = {
        captured_source(read.connector, read.options, None, read.log)[0].name
        if "source_id" in read.options
        else read.name
        for read in reads
    }
    if len(names) == 1 and error.hint is not None:
        (name,) = names
        error.hint = error.hint.replace("ALTER SOURCE …", f"ALTER SOURCE {name.removeprefix(_DEFAULT_SCHEMA)}")
    return error


class TaskError(Exception):
    """Carries a coded error through Spark, which keeps only its text."""

    def __init__(self, error: SinkqlError, key: str) -> None:
        super().__init__(f"{error}\n{line_of(error, key)}")


@contextmanager
def as_task_error(key: str) -> Iterator[None]:
    """Raise a SinkqlError of a task, or a full disk, as a TaskError that `from_spark_error` finds by the key."""
    try:
        yield
    except (SinkqlError, OSError) as error:
        coded = error if isinstance(error, SinkqlError) else as_disk_full(error)
        if coded is None:
            raise
        raise TaskError(coded, key) from error


@contextmanager
def disk_full_as_error() -> Iterator[None]:
    """Raise a SinkqlError if the disk is full in the block."""
    try:
        yield
    except OSError as error:
        coded = as_disk_full(error)
        if coded is None:
            raise
        raise coded from error


def with_code(error: Exception) -> SinkqlError:
    """Return the coded error for one without a code: that of a full disk, else that of `unforeseen`."""
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
    """Return the error for an expression of a job that fails on a row, with its span in the user's SQL."""
    values = {
        name: value if isinstance(value, int | float | None) else str(value)[:_SHOWN_CHARACTERS]
        for name, value in row.items()
    }
    detail = f"it fails on the row {json.dumps(values, ensure_ascii=False)}"
    return at_expression(
        SinkqlError(code or code_of(message), message, detail=detail, hint=hint or row_error_hint(job)), job, failing
    )


def row_error_hint(job: physical.Job) -> str:
    """Return the hint for an expression that fails on a row."""
    write = job.write
    from_now_on = write.mode == "append" and write.change == "append" and not job.stateful()
    if job.renewable or from_now_on:
        return (
            "Correct the row in its source, or guard the expression by CREATE OR REPLACE MATERIALIZED VIEW, for "
            f"example with {_GUARD}."
        )
    return (
        "Correct the row in its source. Or create another materialized view that guards the expression, for example "
        f"with {_GUARD}, and a sink of it with a new table."
    )


def at_expression(error: SinkqlError, job: physical.Job, output: physical.Output) -> SinkqlError:
    """Return the error with the span of an expression of a job."""
    origin = output.origin
    if origin is not None:
        error.span, error.path, error.text = Span(origin.start, origin.end), origin.item, job.texts.get(origin.item)
    return error


def from_spark_error(error: Exception, key: str) -> SinkqlError | None:
    """Return the SinkqlError of a task from an error that came through Spark; None if it has none."""
    return error_in(str(error), key)


def unforeseen(error: Exception) -> SinkqlError:
    """Return the error for an unforeseen failure: the cause as message, the end of the Python traceback as detail.

    SQ4005 is a process that did not answer in time, and SQ4055 lost executors; neither is used for an error of Python
    code in a task.
    """
    text = str(error).strip() or type(error).__name__
    cause, trace = _last_traceback(text)
    late = _LATE.search(text) if cause is None else None
    if late is not None:
        return LateError(
            "SQ4005",
            "a process of Spark did not answer in time",
            detail=next(line.strip() for line in text.splitlines() if _LATE.search(line))[:300],
            hint="The machine seems to be overloaded. The sink retries.",
        )
    lost = _LOST_EXECUTORS.search(text) if cause is None else None
    if lost is not None:
        return SinkqlError(
            "SQ4055",
            "executors were lost while they ran the batch",
            detail=next(line.strip() for line in text.splitlines() if _LOST_EXECUTORS.search(line))[:300],
            hint="The sink retries. If executors are lost again, read their logs: they may have too little memory. "
            "ALTER CLUSTER … SET (MEMORY = '4g') changes it.",
        )
    return UnforeseenError(
        "SQ3001",
        f"the batch failed: {(cause or text.splitlines()[0])[:300]}",
        detail="\n".join(trace[-_TRACE_LINES:]) or f"{type(error).__name__}: {text[:2000]}",
        hint="Start the sink again: it continues where it stopped. "
        "See spark.log in the folder of the cluster in .sinkql/sinks/spark.",
    )


def _last_traceback(text: str) -> tuple[str | None, list[str]]:
    """Return the error line and the indented lines of the last Python traceback among Java's lines."""
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
