"""Define and check the options that all sinks have: pace and size of commits, hash buckets, and the start."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sinkql import ast
from sinkql.connector_api.options import option_field, option_span
from sinkql.errors import SinkqlError, Span

SHORTEST_INTERVAL = timedelta(milliseconds=100)
MOST_BUCKETS = 10_000


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options in WITH (…) of all sinks; the dataclass of a connector extends it."""

    commit_interval: timedelta = option_field("the time between two commits, at least 100 milliseconds")
    snapshot: bool = option_field("`false` starts at the present end of the sources", default=True)
    max_rows_per_commit: int = option_field("the most input rows of one commit", default=5_000_000)
    buckets: int | None = option_field(
        "hash buckets by key; the cluster's cores by default; a change causes a full refresh",
        default=None,
    )


def check_pace(statement: ast.CreateSink, options: SinkOptions) -> None:
    """Raise SQ2309 for too short a commit interval, SQ2326 for 0 rows per commit or a wrong number of buckets."""
    check_interval(options.commit_interval, option_span(statement.with_options, "COMMIT INTERVAL", statement.kind_span))
    check_positive(statement, "MAX ROWS PER COMMIT", options.max_rows_per_commit)
    check_positive(statement, "BUCKETS", options.buckets, most=MOST_BUCKETS)


def check_interval(interval: timedelta, span: Span) -> None:
    """Raise SQ2309 for a commit interval below `SHORTEST_INTERVAL`."""
    if interval < SHORTEST_INTERVAL:
        raise SinkqlError(
            "SQ2309",
            "COMMIT INTERVAL must be at least 100 milliseconds",
            span,
            hint="Write COMMIT INTERVAL = '100ms' or more.",
        )


def check_positive(statement: ast.CreateSink, name: str, value: int | None, *, most: int | None = None) -> None:
    """Raise SQ2326 for a count in WITH (…) that is 0 or greater than `most`."""
    if most is not None and value is not None and value > most:
        raise SinkqlError(
            "SQ2326",
            f"{name} must be at most {most}",
            option_span(statement.with_options, name, statement.kind_span),
            hint=f"Write {name} = {most} or less.",
        )
    if value == 0:
        raise SinkqlError(
            "SQ2326",
            f"{name} must be at least 1",
            option_span(statement.with_options, name, statement.kind_span),
            hint=f"Write {name} = 1 or more.",
        )
