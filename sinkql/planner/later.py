"""A statement that this version understands and does not run → the error that says what to use instead."""

from __future__ import annotations

from sinkql import ast
from sinkql.errors import SinkqlError

Later = ast.CreateTableFrom | ast.CreateIndex | ast.OptimizeSink | ast.ReplayErrors | ast.Subscribe


def later(statement: Later) -> SinkqlError:
    """Return the error for a statement that nothing here does yet."""
    match statement:
        case ast.CreateTableFrom():
            origin = "WEBHOOK" if statement.source is None else "SOURCE"
            hint = "Use CREATE SOURCE with columns, and a view of it."
            return _error("SQ2967", f"CREATE TABLE … FROM {origin}", statement, hint)
        case ast.CreateIndex():
            return _error("SQ2967", "CREATE INDEX", statement, "Use CREATE MATERIALIZED VIEW and CREATE SINK.")
        case ast.OptimizeSink():
            hint = "Compact the table with another Iceberg writer."
            return _error("SQ2968", "OPTIMIZE SINK", statement, hint)
        case ast.ReplayErrors():
            hint = "Correct the rows in a new file; the source reads it."
            return _error("SQ2968", "REPLAY ERRORS", statement, hint)
        case ast.Subscribe():
            return _error("SQ2963", "SUBSCRIBE", statement, "Use CREATE SINK, and query its table.")


def check_kind(statement: ast.Drop | ast.ShowCreate) -> None:
    """Raise SQ2967 for a kind of items that is not dropped, or whose CREATE is shown, yet."""
    match statement:
        case ast.Drop(kind="INDEX"):
            raise _error("SQ2967", "DROP INDEX", statement, "Leave it out: there are no indexes.")
        case ast.Drop(kind="CLUSTER REPLICA"):
            raise _error("SQ2967", "DROP CLUSTER REPLICA", statement, "Drop the cluster: it is its one replica.")
        case ast.Drop(kind="TYPE" | "ROLE"):
            raise _error("SQ2967", f"DROP {statement.kind}", statement, "Leave it out: there are none.")
        case ast.ShowCreate(kind="INDEX"):
            raise _error("SQ2967", f"SHOW CREATE {statement.kind}", statement, "Query the catalog: SHOW VIEWS.")
        case ast.Drop() | ast.ShowCreate():
            return


def _error(code: str, what: str, statement: Later | ast.Drop | ast.ShowCreate, hint: str) -> SinkqlError:
    return SinkqlError(code, f"{what} is not supported yet", statement.span, hint=hint)
