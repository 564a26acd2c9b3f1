"""Check transactions: return notices and errors for BEGIN, COMMIT and statements between them."""

from __future__ import annotations

from sinkql import ast
from sinkql.errors import Notice, SinkqlError

_READ_ONLY = "READ ONLY"
_CHANGING = ast.Create | ast.Alter | ast.Drop | ast.AlterSystem | ast.CommentOn


def without_effect(statement: ast.Transaction, *, in_progress: bool) -> Notice | None:
    """Return the notice for a BEGIN within a transaction, or for another statement outside of one."""
    if (statement.action == "BEGIN") != in_progress:
        return None
    if in_progress:
        return Notice("SQ2651", "there is already a transaction in progress", statement.span)
    return Notice("SQ2652", "there is no transaction in progress", statement.span)


def check_allowed(statement: ast.Statement, modes: tuple[str, ...]) -> None:
    """Raise SQ2961 for a statement that is not allowed in a transaction, SQ2654 if the transaction is read-only."""
    match statement:
        case ast.Insert() | ast.Update() | ast.Delete():
            raise changes_rows(statement)
        case ast.Drop(with_table=True):
            raise _outside("DROP SINK … WITH TABLE", statement)
        case ast.OptimizeSink():
            raise _outside("OPTIMIZE SINK", statement)
        case ast.ReplayErrors():
            raise _outside("REPLAY ERRORS", statement)
        case ast.Alter(action=ast.Publish()):
            raise _outside("ALTER SINK … PUBLISH", statement)
        case ast.Alter(action=ast.Skip()):
            raise _outside("ALTER SOURCE … SKIP", statement)
        case _ if _READ_ONLY in modes and isinstance(statement, _CHANGING):
            hint = "Run ROLLBACK; and BEGIN; without READ ONLY."
            raise SinkqlError("SQ2654", "the transaction is read-only", statement.span, hint=hint)
        case _:
            return


def _outside(what: str, statement: ast.Statement) -> SinkqlError:
    message = f"{what} between BEGIN and COMMIT is not supported yet"
    return SinkqlError("SQ2961", message, statement.span, hint="Run it outside of the transaction.")


def changes_rows(statement: ast.RowChange) -> SinkqlError:
    """Return the error for a statement that changes rows in a transaction."""
    word = type(statement).__name__.upper()
    return SinkqlError(
        "SQ2961",
        f"{word} between BEGIN and COMMIT is not supported yet",
        statement.span,
        hint=f"Run {word} outside of the transaction; each statement is atomic.",
    )


def not_ended() -> SinkqlError:
    """Return the error for a script that ends within a transaction."""
    return SinkqlError(
        "SQ2655", "the script ends inside a transaction, which was rolled back", hint="Write COMMIT; at its end."
    )
