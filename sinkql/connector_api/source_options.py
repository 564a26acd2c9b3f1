"""WITH (…) of a source that is captured → how its log is kept, and what becomes of records that do not decode.

ON ERROR of a source → what becomes of its records that do not decode: one way for all sources and formats.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from sinkql import ast, logical, physical
from sinkql.connector_api.cdc import LogPath, LogRetention
from sinkql.connector_api.options import Tuning, option_field, option_span
from sinkql.connector_api.planning import PlanningContext
from sinkql.connector_api.stream import RowError, Tally, invalid_row
from sinkql.errors import SinkqlError, Span
from sinkql.object_store.s3 import SCHEME

OnError = Literal["fail", "skip", "dead letter"]
LEFT_OUT = (
    "ALTER SOURCE … SET (ON ERROR = SKIP) leaves such records out and counts them, ON ERROR = DEAD LETTER keeps them "
    "in a table as well; the sink continues when it is started again."
)


@dataclass(frozen=True, slots=True)
class OnErrorOptions(Tuning):
    """The option that each source of records has in its WITH (…)."""

    on_error: Literal["FAIL", "SKIP", "DEAD LETTER"] = option_field(
        "what happens to invalid records: stop, skip, or also store them in `<table>__errors`",
        default="FAIL",
    )


def on_error(options: Mapping[str, Any]) -> OnError:
    """Return what planned options of a source, or of one of its tables, say; it decides no plan."""
    tuning = options.get("tuning", {})
    kept: OnError = tuning.get("on_error") or tuning.get("keeping", {}).get("on_error", "fail")
    return kept


def has_dead_letter_table(read: physical.Read) -> bool:
    """Tell whether records of a source that do not decode are kept in a table."""
    return on_error(read.options) == "dead letter"


DEAD_LETTER_COLUMNS = (
    physical.Column("source", "text", False),
    physical.Column("position", "text", False),
    physical.Column("code", "text", False),
    physical.Column("message", "text", False),
    physical.Column("key", "bytea"),
    physical.Column("raw", "bytea", False),
    physical.Column("about", "text"),
    physical.Column("at", "timestamptz", False),
)
"""The columns of all dead-letter tables."""


def may_replay_late(job: physical.Job, read: physical.Read) -> bool:
    """Tell whether a sink may take a record of a source after others that came later."""
    return job.write.mode == "append" and read.change == "append"


def can_reread_source(job: physical.Job, read: physical.Read) -> bool:
    """Tell whether a sink may compute all rows again from a source, for the records that decode by now."""
    return job.renewable and "source_id" not in read.options


@dataclass(frozen=True, slots=True)
class RecordErrorPolicy:
    """What a reader of `source` does with records that do not decode; `correct` says how such a record is mended."""

    source: str
    policy: OnError
    correct: str = ""

    def take(self, tally: Tally, error: RowError) -> None:
        """Count a record; raises SQ3101 where such records stop the sinks."""
        if self.policy == "fail":
            raise self.failure(error)
        tally.fail(error)

    def failure(self, error: RowError) -> SinkqlError:
        """Return the error of a record that stops the sinks."""
        hint = f"{self.correct} {LEFT_OUT}".strip()
        return invalid_row(self.source, error.position, error.message, error.raw, hint=hint)


_UNITS = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}
_MOST = 1 << 62
_POLICIES: dict[str, OnError] = {"FAIL": "fail", "SKIP": "skip", "DEAD LETTER": "dead letter"}

_EXAMPLE = "LOG = 's3://bucket/prefix'"
LOG = "a bucket for the log; by default the cluster's `STATE` or the catalog's folder"
LOG_FACT = "log"
"""The fact that says in which STATE a source has its log: that of its cluster when it was made."""
FIXED = ("LOG",)
"""What was captured stays where it is: a log in another place would be a lost one."""
REACHES = "AWS"
"""The type of connections to buckets, in which logs and state are."""
REACHED_BY = f"{REACHES} CONNECTION"
AWS_CONNECTION = "the AWS connection for `LOG`"


@dataclass(frozen=True, slots=True)
class CaptureOptions(OnErrorOptions):
    """The options that each captured source has in its WITH (…)."""

    fixed: ClassVar[tuple[str, ...]] = FIXED
    keep: Literal["server", "log"] | None = option_field(
        "who retains uncommitted changes: the server, or the log, which frees the server immediately",
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
    given: CaptureOptions,
    written: Sequence[ast.Option],
    span: Span,
    planning: PlanningContext,
    *,
    usual: Literal["server", "log"],
    elsewhere: LogPath | None,
) -> LogRetention:
    """Return how a log is kept; `usual` is what keeps changes where KEEP is left out, `elsewhere` where LOG is.

    Raises SQ2103 and SQ2818.
    """
    retained = given.max_retained_wal
    return LogRetention(
        keep=given.keep or usual,
        max_retained=None if retained is None else size(retained, "MAX RETAINED WAL", written, span),
        max_log=size(given.max_log_size, "MAX LOG SIZE", written, span),
        on_truncate="apply" if given.on_truncate == "APPLY" else "fail",
        on_error=_POLICIES[given.on_error],
        log=log_path(given.log, given.aws_connection, written, span, planning) or elsewhere,
    )


def state_of_cluster(statement: ast.Create, planning: PlanningContext) -> LogPath | None:
    """Return STATE of the cluster that IN CLUSTER of a source names, if that is a bucket."""
    if not isinstance(statement, ast.CreateSource) or statement.cluster is None:
        return None
    state = planning.cluster(statement.cluster).state
    return LogPath(state.path, state.connection) if state is not None and state.connection is not None else None


def log_elsewhere(statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext) -> LogPath | None:
    """Return where the log of a source lies that is in STATE of its cluster."""
    found = state_of_cluster(statement, planning) if LOG_FACT in facts else None
    return None if found is None else LogPath(facts[LOG_FACT], found.connection)


def log_path(
    log: str | None, connection: ast.Name | None, written: Sequence[ast.Option], span: Span, planning: PlanningContext
) -> LogPath | None:
    """Return where LOG puts the log; raises SQ2818 for another place than a bucket, or one that nothing reaches."""
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
            hint=f"Write {_EXAMPLE}, or leave it out: the log is in the catalog's folder then.",
        )
    if connection is None:
        raise SinkqlError(
            "SQ2818",
            "LOG requires AWS CONNECTION",
            where,
            hint="Add AWS CONNECTION = name, of a connection made by CREATE CONNECTION name TO AWS (…).",
        )
    return LogPath(log, planning.connection(connection, REACHES).name)


def size(text: str, option: str, written: Sequence[ast.Option], span: Span) -> int:
    """Return how many bytes a text such as `10GB` means; raises SQ2103 at the option."""
    found = re.fullmatch(r"\s*(\d{1,18}(?:\.\d{1,9})?)\s*([kmgt]?b)\s*", text.lower())
    bytes_ = int(float(found[1]) * _UNITS[found[2]]) if found else 0
    if not 0 < bytes_ <= _MOST:
        where = option_span(written, option, span)
        raise SinkqlError(
            "SQ2103", f"option {option} takes a size in B, KB, MB, GB or TB", where, hint=f"Write {option} = '10GB'."
        )
    return bytes_
