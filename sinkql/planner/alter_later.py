"""An ALTER that is not run → the error that says what to use instead."""

from __future__ import annotations

from sinkql import ast
from sinkql.errors import SinkqlError, Span

_NEW_SOURCE = "Run CREATE SOURCE with another name, and ALTER SINK … SET FROM it."


def not_run(statement: ast.Alter) -> SinkqlError:
    """Return SQ2983 for what this version does not do."""
    kind, action = statement.kind, statement.action
    what, hint = _refused(kind, action)
    return _error(f"ALTER {kind} … {what}", action.span, hint)


def no_keys(action: ast.RotateKeys) -> SinkqlError:
    """Return SQ2983 for ROTATE KEYS of a connection."""
    return _error("ALTER CONNECTION … ROTATE KEYS", action.span, "Keep the key in a secret, and run ALTER SECRET … AS.")


def _error(what: str, span: Span, hint: str) -> SinkqlError:
    return SinkqlError("SQ2983", f"{what} is not supported yet", span, hint=hint)


def _refused(kind: str, action: ast.AlterAction) -> tuple[str, str]:
    match action:
        case ast.SetOptions():
            return ("WITH (WAIT …)", "Leave it out.") if action.wait else ("SET (…)", _instead_of_options(kind))
        case ast.ResetOptions():
            return "RESET (…)", _instead_of_options(kind)
        case ast.AddReferences():
            return "ADD", "Run CREATE SOURCE for it."
        case ast.DropReferences():
            return "DROP", "Run DROP SOURCE."
        case ast.RefreshReferences():
            return "REFRESH REFERENCES", "Run CREATE SOURCE for what is new."
        case ast.Skip():
            return "SKIP", _NEW_SOURCE
        case ast.AddColumn():
            return "ADD COLUMN", "Run CREATE TABLE with another name, and copy the rows into it."
        case ast.ApplyReplacement():
            return "APPLY REPLACEMENT", f"Run ALTER SINK … SET FROM {action.name.text}."
        case ast.Rename() | ast.Swap() | ast.SetOwner() | ast.SetFrom() | ast.SetSecret() | ast.ChangeConnection():
            return "", "Write another ALTER."
        case ast.SetCluster():
            return "SET CLUSTER", "Run ALTER SINK … SET CLUSTER: a sink decides where its views and sources run."


def _instead_of_options(kind: str) -> str:
    match kind:
        case "SOURCE":
            return _NEW_SOURCE
        case "INDEX":
            return "Leave it out: there are no indexes."
        case _:
            return f"Leave it out: {kind.lower()}s keep no history."
