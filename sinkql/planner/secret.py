"""CREATE SECRET → a name: the value stays with the statement, and never enters a plan."""

from __future__ import annotations

from sinkql import ast, logical
from sinkql.errors import SinkqlError, nearest

_ARGUMENTS = {"env_var": "'NAME'", "file": "'path'"}
_LATER = ("aws_secret", "keyring", "vault")


def plan_secret(full_name: str, statement: ast.CreateSecret) -> logical.Secret:
    """Check how the secret is given; raises SQ2610 (no such function), SQ2611 (arguments), SQ2612 (other secrets)."""
    match statement.value:
        case ast.Call() as call:
            _check_call(call)
        case ast.Concat() as concat:
            for part in concat.parts:
                if isinstance(part, ast.SecretRef):
                    raise SinkqlError(
                        "SQ2612",
                        "a secret is not made of other secrets",
                        part.span,
                        hint="Put the secrets together in the option that uses them: CREDENTIAL = 'id:' || SECRET s.",
                    )
        case ast.Text():
            pass
    return logical.Secret(full_name)


def _check_call(call: ast.Call) -> None:
    if call.function in _LATER:
        raise SinkqlError(
            "SQ2920",
            f"secrets from {call.function}() are not supported yet",
            call.span,
            hint="Use env_var('NAME') or file('path').",
        )
    if call.function not in _ARGUMENTS:
        near = nearest(call.function, (*_ARGUMENTS, *_LATER))
        raise SinkqlError(
            "SQ2610",
            f'there is no secret function "{call.function}"',
            call.span,
            hint=f"Did you mean {near}?" if near else "Use env_var('NAME') or file('path').",
        )
    if len(call.arguments) != 1 or not call.arguments[0].value:
        raise SinkqlError(
            "SQ2611",
            f"{call.function}() takes one string that is not empty",
            call.span,
            hint=f"Write {call.function}({_ARGUMENTS[call.function]}).",
        )
