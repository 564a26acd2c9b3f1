"""Statements and clauses that this version understands and does not run → the error that says what to use instead."""

from __future__ import annotations

from sinkql import ast
from sinkql.connector_api.options import unknown
from sinkql.errors import SinkqlError, Span
from sinkql.printer.clause import name as print_name

JOB_OPTIONS = ("COMMIT INTERVAL", "RETAIN HISTORY")
"""Options that make a materialized view a job of its own."""
_VIEW_OPTIONS = ("ASSERT NOT NULL", "COMMIT INTERVAL", "PARTITION BY", "REFRESH", "REPLICATE", "RETAIN HISTORY")
_INSTEAD = {
    "ASSERT NOT NULL": "Leave it out, and select WHERE column IS NOT NULL.",
    "PARTITION BY": "Leave it out.",
}
_NEW_SOURCE = "Run CREATE SOURCE with another name, and ALTER SINK … SET FROM it."


def check_kind(statement: ast.Drop) -> None:
    """Raise SQ2967 for a kind of items that is not dropped yet."""
    match statement:
        case ast.Drop(kind="CLUSTER REPLICA"):
            raise _not_yet(
                "SQ2967", "DROP CLUSTER REPLICA", statement, "Drop the cluster itself: it is its only replica."
            )
        case ast.Drop(kind="TYPE" | "ROLE"):
            raise _not_yet("SQ2967", f"DROP {statement.kind}", statement, "Leave it out: there are none.")
        case ast.Drop():
            return


def _not_yet(code: str, what: str, statement: ast.Drop, hint: str) -> SinkqlError:
    return SinkqlError(code, f"{what} is not supported yet", statement.span, hint=hint)


def check_source(statement: ast.CreateSource, *, messages: bool, progress: bool) -> None:
    """Refuse clauses of sources that are for later, or for sources of messages where this is none: SQ2973, SQ2974.

    With `progress` sources of the kind tell theirs.
    """
    if not messages:
        _check_messages(statement)
    if statement.progress is not None and not progress:
        raise no_progress(statement.progress.span)
    check_history(statement.with_options)
    _check_timestamps(statement)


def no_progress(span: Span) -> SinkqlError:
    """Return SQ2973 for the progress of a source that tells none."""
    return _source("EXPOSE PROGRESS", span, "Query mz_internal.mz_source_progress: it says how far a source is read.")


def check_table_from(statement: ast.CreateTableFrom, *, options: bool) -> None:
    """Refuse clauses of tables FROM SOURCE: the source says how its tables are read. SQ2464, SQ2967.

    With `options` its tables have some of their own.
    """
    enveloped = statement.envelope not in (None, "NONE")
    parts: tuple[tuple[str, list[Span]], ...] = (
        ("columns", [each.span for each in statement.columns]),
        ("constraints", [each.span for each in statement.constraints]),
        ("FORMAT", [each.span for each in (statement.key_format, statement.format) if each is not None]),
        ("INCLUDE", [each.span for each in statement.include]),
        (f"ENVELOPE {statement.envelope}", [statement.span] if enveloped else []),
        ("WITH", [] if options else [each.span for each in statement.with_options]),
    )
    for what, spans in parts:
        for span in spans:
            message = f"a table of this source cannot have {what}"
            hint = f"Leave out {what}: the source says how its tables are read."
            raise SinkqlError("SQ2464", message, span, hint=hint)


def _check_messages(statement: ast.CreateSource) -> None:
    if statement.key_format is not None:
        raise _source("KEY FORMAT", statement.key_format.span, "Use FORMAT JSON or FORMAT CSV.")
    for include in statement.include:
        if include.name == "HEADER":
            raise _source("INCLUDE HEADER", include.span, "Leave it out.")
    if statement.inline_errors is not None:
        raise _source("VALUE DECODING ERRORS", statement.inline_errors.span, "Write WITH (ON ERROR = 'SKIP').")


def _source(what: str, span: Span, hint: str) -> SinkqlError:
    return SinkqlError("SQ2973", f"{what} is not supported yet", span, hint=hint)


def _check_timestamps(statement: ast.CreateSource) -> None:
    """Refuse to say how often rows get a timestamp: SQ2973."""
    for option in statement.with_options:
        if option.name == "TIMESTAMP INTERVAL":
            hint = "Leave it out: COMMIT INTERVAL of a sink says how often it writes."
            raise _source("TIMESTAMP INTERVAL", option.span, hint)


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
    for option in statement.with_options:
        if option.name in JOB_OPTIONS or option.name == "REPLICATE":
            continue
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


def unsupported_alter(statement: ast.Alter) -> SinkqlError:
    """Return SQ2983 for what this version does not do."""
    kind, action = statement.kind, statement.action
    what, hint = _refused(kind, action)
    return _no_alter(f"ALTER {kind} … {what}", action.span, hint)


def no_keys(action: ast.RotateKeys) -> SinkqlError:
    """Return SQ2983 for ROTATE KEYS of a connection."""
    return _no_alter(
        "ALTER CONNECTION … ROTATE KEYS", action.span, "Keep the key in a secret, and run ALTER SECRET … AS."
    )


def _no_alter(what: str, span: Span, hint: str) -> SinkqlError:
    return SinkqlError("SQ2983", f"{what} is not supported yet", span, hint=hint)


def _refused(kind: str, action: ast.AlterAction) -> tuple[str, str]:
    match action:
        case ast.SetOptions():
            return ("WITH (WAIT …)", "Leave it out.") if action.wait else ("SET (…)", _instead_of_options(kind))
        case ast.ResetOptions():
            return "RESET (…)", _instead_of_options(kind)
        case ast.AddReferences():
            return "ADD", "Run CREATE TABLE … FROM SOURCE, if the source has that table."
        case ast.DropReferences():
            return "DROP", "Run DROP SOURCE for each of them."
        case ast.RefreshReferences():
            return "REFRESH REFERENCES", "Create another source for what is new."
        case ast.AddColumn():
            return "ADD COLUMN", "Leave it out: its source says which columns the table has."
        case ast.ApplyReplacement():
            return "APPLY REPLACEMENT", f"Run ALTER SINK … SET FROM {print_name(action.name)}."
        case (
            ast.Rename()
            | ast.Swap()
            | ast.SetOwner()
            | ast.SetFrom()
            | ast.Publish()
            | ast.Skip()
            | ast.SetSecret()
            | ast.ChangeConnection()
            | ast.SetCluster()
        ):
            return "this", "Create the item again with what should change."


def _instead_of_options(kind: str) -> str:
    match kind:
        case "SOURCE":
            return _NEW_SOURCE
        case "INDEX":
            return "Leave it out: indexes have no options."
        case _:
            return f"Leave it out: {kind.lower()}s keep no history."
