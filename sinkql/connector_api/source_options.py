"""Define the options that sources share: ON ERROR for invalid records, and the retention of a capture log."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from sinkql import ast, codec, logical, physical
from sinkql.connector_api.cdc import LogPath, LogRetention, is_captured
from sinkql.connector_api.options import Tuning, option_field, option_span
from sinkql.connector_api.stream import ReadCounts, RowError, invalid_row_error
from sinkql.errors import SinkqlError, Span
from sinkql.logical.type import BYTEA, TEXT, TIMESTAMPTZ
from sinkql.object_store.s3 import SCHEME

if TYPE_CHECKING:
    from sinkql.connector_api.planning import PlanningContext

OnError = Literal["fail", "skip", "dead letter"]
LEFT_OUT = (
    "Run ALTER SOURCE … SET (ON ERROR = SKIP) to skip and count these records, or SET (ON ERROR = DEAD LETTER) to also "
    "store them in a table. Then start the sink again."
)


@dataclass(frozen=True, slots=True)
class OnErrorOptions(Tuning):
    """The option in WITH (…) of all sources of records."""

    on_error: Literal["FAIL", "SKIP", "DEAD LETTER"] = option_field(
        "what happens to invalid records: stop, skip, or also store them in `<table>__errors`",
        default="FAIL",
    )


class _PlannedTuning(msgspec.Struct, frozen=True):
    on_error: OnError | None = None
    keeping: LogRetention | None = None
    """Of a captured source."""


class _PlannedSource(msgspec.Struct, frozen=True):
    """The part of a source's planned options that has ON ERROR."""

    tuning: _PlannedTuning = _PlannedTuning()


def on_error(options: Mapping[str, Any]) -> OnError:
    """Return ON ERROR of the planned options of a source or of one of its tables. No plan depends on it."""
    tuning = codec.convert(options, _PlannedSource).tuning
    return tuning.on_error or (tuning.keeping.on_error if tuning.keeping is not None else "fail")


def has_dead_letter_table(read: physical.Read) -> bool:
    """Return whether the records of a source that do not decode are stored in a dead-letter table."""
    return on_error(read.options) == "dead letter"


DEAD_LETTER_COLUMNS = (
    physical.Column("source", TEXT, False),
    physical.Column("position", TEXT, False),
    physical.Column("code", TEXT, False),
    physical.Column("message", TEXT, False),
    physical.Column("key", BYTEA),
    physical.Column("raw", BYTEA, False),
    physical.Column("about", TEXT),
    physical.Column("at", TIMESTAMPTZ, False),
)
"""The columns of all dead-letter tables."""


def may_replay_late(job: physical.Job, read: physical.Read) -> bool:
    """Return whether a sink may commit a record of a source after later records."""
    return job.write.mode == "append" and read.change == "append"


def can_reread_source(job: physical.Job, read: physical.Read) -> bool:
    """Return whether a full refresh may read a source again, for the records that decode now."""
    return job.renewable and not is_captured(read.options)


@dataclass(frozen=True, slots=True)
class RecordErrorPolicy:
    """What a reader of `source` does with records that do not decode; `correct` is a hint to correct a record."""

    source: str
    policy: OnError
    correct: str = ""

    def handle(self, read_counts: ReadCounts, error: RowError) -> None:
        """Count a record, or raise SQ3101 if it stops the sink."""
        if self.policy == "fail":
            raise self.failure(error)
        read_counts.fail(error)

    def failure(self, error: RowError) -> SinkqlError:
        """Return the error of a record that stops the sink."""
        hint = f"{self.correct} {LEFT_OUT}".strip()
        return invalid_row_error(self.source, error.position, error.message, error.raw, hint=hint)


_UNITS = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}
_MOST = 1 << 62
_POLICIES: dict[str, OnError] = {"FAIL": "fail", "SKIP": "skip", "DEAD LETTER": "dead letter"}

_EXAMPLE = "LOG = 's3://bucket/prefix'"
LOG = "a bucket for the log; by default the cluster's `STATE` or the catalog's folder"
LOG_FACT = "log"
"""The fact with the state path that has the log: STATE of the source's cluster when it was created."""
FIXED = ("LOG",)
"""The options that cannot change: with another path, the existing log would be lost."""
REACHES = "AWS"
"""The kind of connections to buckets with logs and state."""
REACHED_BY = f"{REACHES} CONNECTION"
AWS_CONNECTION = "the AWS connection for `LOG`"


@dataclass(frozen=True, slots=True)
class CaptureOptions(OnErrorOptions):
    """The options in WITH (…) of all captured sources."""

    fixed: ClassVar[tuple[str, ...]] = FIXED
    keep: Literal["server", "log"] | None = option_field(
        "what retains uncommitted changes: the server, or the log, which frees the server immediately",
        default=None,
    )
    max_retained_wal: str | None = option_field(
        "the most that the server retains; 10GB or half of the server's limit by default", default=None
    )
    max_log_size: str = option_field("the size at which the log waits for its sinks", default="20GB")
    on_truncate: Literal["APPLY", "FAIL"] = option_field("what TRUNCATE on the server does to sinks", default="APPLY")
    log: str | None = option_field(LOG, default=None)
    aws_connection: ast.Name | None = option_field(AWS_CONNECTION, default=None)


def log_retention(
    options: CaptureOptions,
    written: Sequence[ast.Option],
    span: Span,
    planning: PlanningContext,
    *,
    usual: Literal["server", "log"],
    elsewhere: LogPath | None,
) -> LogRetention:
    """Return the retention of a log; `usual` is the default of KEEP, and `elsewhere` that of LOG.

    Raises SQ2103 and SQ2818.
    """
    retained = options.max_retained_wal
    return LogRetention(
        keep=options.keep or usual,
        max_retained=None if retained is None else parse_size(retained, "MAX RETAINED WAL", written, span),
        max_log=parse_size(options.max_log_size, "MAX LOG SIZE", written, span),
        on_truncate="apply" if options.on_truncate == "APPLY" else "fail",
        on_error=_POLICIES[options.on_error],
        log=log_path(options.log, options.aws_connection, written, span, planning) or elsewhere,
    )


def state_of_cluster(statement: ast.Create, planning: PlanningContext) -> LogPath | None:
    """Return STATE of the cluster that a source names, if it is in a bucket."""
    if not isinstance(statement, ast.CreateSource) or statement.cluster is None:
        return None
    state = planning.cluster(statement.cluster).state
    return LogPath(state.path, state.connection) if state is not None and state.connection is not None else None


def log_in_cluster_state(
    statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext
) -> LogPath | None:
    """Return the path of a source's log if it is in STATE of its cluster."""
    state = state_of_cluster(statement, planning) if LOG_FACT in facts else None
    return None if state is None else LogPath(facts[LOG_FACT], state.connection)


def log_path(
    log: str | None, connection: ast.Name | None, written: Sequence[ast.Option], span: Span, planning: PlanningContext
) -> LogPath | None:
    """Return the path of LOG; raises SQ2818 if it is in no bucket, or if LOG or AWS CONNECTION is missing."""
    if log is None and connection is None:
        return None
    if log is None:
        where = option_span(written, REACHED_BY, span)
        raise SinkqlError("SQ2818", "AWS CONNECTION requires LOG", where, hint=f"Add {_EXAMPLE}.")
    where = option_span(written, "LOG", span)
    if re.match(rf"{SCHEME}[^/]+(/|$)", log) is None:
        raise SinkqlError(
            "SQ2818",
            f'LOG "{log}" names no bucket',
            where,
            hint=f"Write {_EXAMPLE}, or leave LOG out: the log is then in the catalog's folder.",
        )
    if connection is None:
        raise SinkqlError(
            "SQ2818",
            "LOG requires AWS CONNECTION",
            where,
            hint="Add AWS CONNECTION = name, with a connection from CREATE CONNECTION name TO AWS (…).",
        )
    return LogPath(log, planning.connection(connection, REACHES).name)


def parse_size(text: str, option: str, written: Sequence[ast.Option], span: Span) -> int:
    """Return the number of bytes of a text such as `10GB`; raises SQ2103 at the option."""
    match = re.fullmatch(r"\s*(\d{1,18}(?:\.\d{1,9})?)\s*([kmgt]?b)\s*", text.lower())
    bytes_ = int(float(match[1]) * _UNITS[match[2]]) if match else 0
    if not 0 < bytes_ <= _MOST:
        where = option_span(written, option, span)
        raise SinkqlError(
            "SQ2103", f"option {option} takes a size in B, KB, MB, GB or TB", where, hint=f"Write {option} = '10GB'."
        )
    return bytes_
