"""Forms of CREATE statements that this version understands and does not run → the error that says what to use."""

from __future__ import annotations

from sinkql import ast
from sinkql.connector.options import unknown
from sinkql.errors import SinkqlError, Span

_SOURCES = ("KAFKA", "POSTGRES", "MYSQL", "SQL SERVER", "WEBHOOK")
_FORMATS = ("PROTOBUF", "REGEX")
_VIEW_OPTIONS = ("ASSERT NOT NULL", "PARTITION BY", "REFRESH", "RETAIN HISTORY")
_INSTEAD = {
    "ASSERT NOT NULL": "Leave it out, and select WHERE column IS NOT NULL.",
    "PARTITION BY": "Leave it out: a sink has PARTITION BY.",
}


def check_source(statement: ast.CreateSource) -> None:
    """Refuse sources and clauses of sources that are for later: SQ2971, SQ2973, SQ2974."""
    if statement.kind in _SOURCES:
        raise SinkqlError(
            "SQ2971",
            f"sources from {statement.kind} are not supported yet",
            statement.kind_span,
            hint="Use FROM FILES (PATH = '…') or FROM LOAD GENERATOR COUNTER.",
        )
    _check_formats(statement.key_format, statement.format)
    for include in statement.include:
        if include.name == "HEADER":
            raise _source("INCLUDE HEADER", include.span, "Use INCLUDE HEADERS.")
    if statement.inline_errors is not None:
        hint = "Use ENVELOPE UPSERT, and ON ERROR = SKIP."
        raise _source("VALUE DECODING ERRORS", statement.inline_errors.span, hint)
    if statement.subsources is not None:
        schemas, tables = statement.subsources.schemas, statement.subsources.references
        what = "FOR SCHEMAS" if schemas else "FOR TABLES" if tables else "FOR ALL TABLES"
        raise _source(what, statement.subsources.span, "Create one source for each table.")
    if statement.progress is not None:
        raise _source("EXPOSE PROGRESS", statement.progress.span, "Query mz_internal.mz_sink_statistics.")
    check_history(statement.with_options)


def _check_formats(key: ast.Format | None, value: ast.Format | None) -> None:
    if key is not None:
        raise _source("KEY FORMAT", key.span, "Use FORMAT JSON or FORMAT CSV.")
    if value is None:
        return
    if value.name in _FORMATS:
        raise _source(f"FORMAT {value.name}", value.span, "Use FORMAT JSON or FORMAT CSV.")
    if value.schema is not None:
        raise _source("FORMAT AVRO USING", value.span, "Use FORMAT AVRO: its files hold their schema.")


def _source(what: str, span: Span, hint: str) -> SinkqlError:
    return SinkqlError("SQ2973", f"{what} is not supported yet", span, hint=hint)


def check_history(options: tuple[ast.Option, ...]) -> None:
    """Refuse to retain history: SQ2974."""
    for option in options:
        if option.name == "RETAIN HISTORY":
            hint = "Leave it out: sinks keep history as snapshots, see RETAIN SNAPSHOTS."
            raise SinkqlError("SQ2974", "RETAIN HISTORY is not supported yet", option.span, hint=hint)


def check_view(statement: ast.CreateView) -> None:
    """Refuse views and options of views that are for later: SQ2904, SQ2905, SQ2974."""
    head = Span(statement.span.start, statement.name.span.end)
    if statement.temporary:
        raise SinkqlError("SQ2904", "temporary views are not supported yet", head, hint="Leave out TEMPORARY.")
    if statement.replacement:
        raise SinkqlError(
            "SQ2974", "replacements are not supported yet", head, hint="Use CREATE OR REPLACE MATERIALIZED VIEW."
        )
    if statement.replica is not None:
        raise SinkqlError(
            "SQ2974", "replicas are not supported yet", statement.replica.span, hint="Use IN CLUSTER name."
        )
    check_history(statement.with_options)
    for option in statement.with_options:
        if option.name == "REFRESH":
            if isinstance(option.value, ast.Phrase) and option.value.words == "ON COMMIT":
                continue
            hint = "Leave it out: a materialized view is refreshed with each commit."
            raise SinkqlError("SQ2974", "REFRESH is not supported yet", option.span, hint=hint)
        if option.name not in _VIEW_OPTIONS:
            raise unknown(option, _VIEW_OPTIONS, owner="materialized views")
        raise SinkqlError(
            "SQ2905",
            f"view option {option.name} is not supported yet",
            option.name_span,
            hint=_INSTEAD[option.name],
        )


def check_sink(statement: ast.CreateSink) -> None:
    """Refuse sinks that are for later: SQ2972."""
    if statement.kind == "KAFKA":
        raise SinkqlError(
            "SQ2972",
            "sinks into KAFKA are not supported yet",
            statement.kind_span,
            hint="Use INTO ICEBERG CATALOG CONNECTION name (NAMESPACE = '…', TABLE = '…').",
        )
