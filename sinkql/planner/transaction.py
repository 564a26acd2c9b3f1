"""What is said of transactions: that there is one, that there is none, that one is left open."""

from __future__ import annotations

from sinkql import ast
from sinkql.errors import Notice, SinkqlError


def already(statement: ast.Transaction) -> Notice:
    """Return the notice of a BEGIN in a transaction, which changes nothing."""
    return Notice("SQ2651", "there is a transaction already", statement.span)


def none(statement: ast.Transaction) -> Notice:
    """Return the notice of a statement that ends or changes a transaction where there is none."""
    return Notice("SQ2652", "there is no transaction", statement.span)


def not_ended() -> SinkqlError:
    """Return the error for a script that ends within a transaction."""
    return SinkqlError(
        "SQ2655", "the script ends within a transaction: nothing of it is kept", hint="Write COMMIT; at its end."
    )
