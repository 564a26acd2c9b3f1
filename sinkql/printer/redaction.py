"""A statement → the same without its secrets."""

from __future__ import annotations

from dataclasses import replace

from sinkql import ast, words

_REDACTED = ast.Text("<redacted>")


def without_secrets(statement: ast.Statement) -> ast.Statement:
    """Return the statement with '<redacted>' for a secret's literal, and for literals in options that take secrets."""
    match statement:
        case ast.CreateSecret():
            return replace(statement, value=_value(statement.value))
        case ast.Alter(action=ast.SetSecret() as action):
            return replace(statement, action=replace(action, value=_value(action.value)))
        case ast.CreateConnection() | ast.CreateCluster() | ast.CreateSource() | ast.CreateSink():
            return replace(statement, options=_all_hidden(statement.options))
        case ast.Alter(action=ast.ChangeConnection() as action):
            return replace(statement, action=replace(action, actions=tuple(_change(each) for each in action.actions)))
        case ast.Explain(explainee=ast.CreateSink() as sink):
            return replace(statement, explainee=replace(sink, options=_all_hidden(sink.options)))
        case _:
            return statement


def _value(value: ast.SecretValue) -> ast.SecretValue:
    """Return what may be shown of a secret's value: a reference as it is."""
    return value if isinstance(value, ast.Call) and value.refers else _REDACTED


def _change(
    change: ast.SetOptions | ast.ResetOptions | ast.RotateKeys,
) -> ast.SetOptions | ast.ResetOptions | ast.RotateKeys:
    return replace(change, options=_all_hidden(change.options)) if isinstance(change, ast.SetOptions) else change


def _all_hidden(options: tuple[ast.Option, ...]) -> tuple[ast.Option, ...]:
    return tuple(_hidden(option) for option in options)


def _hidden(option: ast.Option) -> ast.Option:
    if option.name not in words.SENSITIVE:
        return option
    match option.value:
        case None | ast.SecretRef():
            return option
        case ast.Concat(parts=parts):
            shown = tuple(_REDACTED if isinstance(part, ast.Text) else part for part in parts)
            return replace(option, value=ast.Concat(shown))
        case _:
            return replace(option, value=_REDACTED)
