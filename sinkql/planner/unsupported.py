"""Reject statements and clauses that are parsed but not supported, with errors that suggest alternatives."""

from __future__ import annotations

from sinkql import ast
from sinkql.connector_api.options import unknown_option_error
from sinkql.errors import SinkqlError, Span
from sinkql.printer.clause import name as print_name

JOB_OPTIONS = ("COMMIT INTERVAL", "RETAIN HISTORY")
"""Options that create a materialized view job."""
_VIEW_OPTIONS = ("ASSERT NOT NULL", "COMMIT INTERVAL", "PARTITION BY", "REFRESH", "REPLICATE", "RETAIN HISTORY")
_VIEW_OPTION_HINTS = {
    "ASSERT NOT NULL": "Leave it out, and select WHERE column IS NOT NULL.",
    "PARTITION BY": "Leave it out.",
}
_NEW_SOURCE = "Run CREATE SOURCE with another name, and ALTER SINK … SET FROM it."


def check_kind(statement: ast.Drop) -> None:
    """Raise SQ2967 for a kind of item that cannot be dropped yet."""
    match statement:
        case ast.Drop(kind="CLUSTER REPLICA"):
            raise _drop_error("SQ2967", "DROP CLUSTER REPLICA", statement, "Drop the cluster: it has only one replica.")
        case ast.Drop(kind="TYPE" | "ROLE"):
            raise _drop_error(
                "SQ2967", f"DROP {statement.kind}", statement, f"Leave it out: SinkQL has no {statement.kind.lower()}s."
            )
        case ast.Drop():
            return


def _drop_error(code: str, what: str, statement: ast.Drop, hint: str) -> SinkqlError:
    return SinkqlError(code, f"{what} is not supported yet", statement.span, hint=hint)


def check_source(statement: ast.CreateSource, *, messages: bool, progress: bool) -> None:
    """Raise SQ2973 or SQ2974 for unsupported clauses of a source.

    `messages` says that the kind reads messages, `progress` that it can expose its progress.
    """
    if not messages:
        _check_messages(statement)
    if statement.progress is not None and not progress:
        raise no_progress(statement.progress.span)
    check_history(statement.with_options)
    _check_timestamps(statement)


def no_progress(span: Span) -> SinkqlError:
    """Return SQ2973 for the progress of a source that cannot expose it."""
    return _source_error(
        "EXPOSE PROGRESS", span, "Query mz_internal.mz_source_progress, which has the progress of all sources."
    )


def check_table_from(statement: ast.CreateTableFrom, *, options: bool) -> None:
    """Raise SQ2464 for clauses that the source decides for its tables.

    `options` says that tables of the kind have options.
    """
    enveloped = statement.envelope not in (None, "NONE")
    parts: tuple[tuple[str, list[Span]], ...] = (
        ("columns", [column.span for column in statement.columns]),
        ("constraints", [constraint.span for constraint in statement.constraints]),
        ("FORMAT", [format_.span for format_ in (statement.key_format, statement.format) if format_ is not None]),
        ("INCLUDE", [include.span for include in statement.include]),
        (f"ENVELOPE {statement.envelope}", [statement.span] if enveloped else []),
        ("WITH", [] if options else [option.span for option in statement.with_options]),
    )
    for what, spans in parts:
        for span in spans:
            message = f"a table of this source cannot have {what}"
            hint = f"Leave out {what}: the source defines how its tables are read."
            raise SinkqlError("SQ2464", message, span, hint=hint)


def _check_messages(statement: ast.CreateSource) -> None:
    if statement.key_format is not None:
        raise _source_error("KEY FORMAT", statement.key_format.span, "Use FORMAT JSON or FORMAT CSV.")
    for include in statement.include:
        if include.name == "HEADER":
            raise _source_error("INCLUDE HEADER", include.span, "Leave it out.")
    if statement.inline_errors is not None:
        raise _source_error("VALUE DECODING ERRORS", statement.inline_errors.span, "Write WITH (ON ERROR = 'SKIP').")


def _source_error(what: str, span: Span, hint: str) -> SinkqlError:
    return SinkqlError("SQ2973", f"{what} is not supported yet", span, hint=hint)


def _check_timestamps(statement: ast.CreateSource) -> None:
    """Raise SQ2973 for TIMESTAMP INTERVAL."""
    for option in statement.with_options:
        if option.name == "TIMESTAMP INTERVAL":
            hint = "Leave it out: COMMIT INTERVAL of a sink sets how often it writes."
            raise _source_error("TIMESTAMP INTERVAL", option.span, hint)


def check_history(options: tuple[ast.Option, ...]) -> None:
    """Raise SQ2974 for RETAIN HISTORY."""
    for option in options:
        if option.name == "RETAIN HISTORY":
            hint = "Leave it out: sinks keep history as snapshots, see RETAIN SNAPSHOTS."
            raise SinkqlError("SQ2974", "RETAIN HISTORY is not supported yet", option.span, hint=hint)


def check_view(statement: ast.CreateView) -> None:
    """Raise SQ2904, SQ2905 or SQ2974 for views and view options that are not supported yet."""
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
            raise unknown_option_error(option, _VIEW_OPTIONS, owner="materialized views")
        raise SinkqlError(
            "SQ2905",
            f"view option {option.name} is not supported yet",
            option.name_span,
            hint=_VIEW_OPTION_HINTS[option.name],
        )


def unsupported_alter(statement: ast.Alter) -> SinkqlError:
    """Return SQ2983 for an unsupported ALTER."""
    kind, action = statement.kind, statement.action
    what, hint = _rejection(kind, action)
    return _alter_error(f"ALTER {kind} … {what}", action.span, hint)


def no_keys(action: ast.RotateKeys) -> SinkqlError:
    """Return SQ2983 for ROTATE KEYS of a connection."""
    return _alter_error(
        "ALTER CONNECTION … ROTATE KEYS", action.span, "Keep the key in a secret, and run ALTER SECRET … AS."
    )


def _alter_error(what: str, span: Span, hint: str) -> SinkqlError:
    return SinkqlError("SQ2983", f"{what} is not supported yet", span, hint=hint)


def _rejection(kind: str, action: ast.AlterAction) -> tuple[str, str]:
    match action:
        case ast.SetOptions():
            return ("WITH (WAIT …)", "Leave it out.") if action.wait else ("SET (…)", _options_hint(kind))
        case ast.ResetOptions():
            return "RESET (…)", _options_hint(kind)
        case ast.AddReferences():
            return "ADD", "Run CREATE TABLE … FROM SOURCE if the source has that table."
        case ast.DropReferences():
            return "DROP", "Run DROP SOURCE for each of them."
        case ast.RefreshReferences():
            return "REFRESH REFERENCES", "Create another source for the new tables."
        case ast.AddColumn():
            return "ADD COLUMN", "Leave it out: the source defines the columns of the table."
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
            return "this", "Create the item again with the changes."


def _options_hint(kind: str) -> str:
    match kind:
        case "SOURCE":
            return _NEW_SOURCE
        case "INDEX":
            return "Leave it out: indexes have no options."
        case _:
            return f"Leave it out: {kind.lower()}s keep no history."
