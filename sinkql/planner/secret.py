"""CREATE SECRET → a name: the value stays with the statement, and never enters a plan."""

from __future__ import annotations

from sinkql import ast, logical
from sinkql.errors import SinkqlError


def plan_secret(full_name: str, statement: ast.CreateSecret) -> logical.Secret:
    """Return the secret's name; raises SQ2610 for a reference to nothing."""
    call = statement.value
    if isinstance(call, ast.Call) and not all(argument.value for argument in call.arguments):
        raise SinkqlError(
            "SQ2610",
            f"{call.function} takes a string that is not empty",
            call.span,
            hint=f"Write {call.function}('…') with what it names.",
        )
    return logical.Secret(full_name)
