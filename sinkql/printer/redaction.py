"""A statement → the same without its secrets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sinkql import ast, words

_REDACTED = ast.Text("<redacted>")

Change = Callable[[ast.Value], ast.Value]


def without_secrets(statement: ast.Statement) -> ast.Statement:
    """Return the statement with '<redacted>' for a secret's literal, and for literals in options that take secrets."""
    match statement:
        case ast.CreateSecret():
            return replace(statement, value=_value(statement.value))
        case ast.Alter(action=ast.SetSecret() as action):
            return replace(statement, action=replace(action, value=_value(action.value)))
        case _:
            return change_literals(statement, lambda literal: _REDACTED)


def change_literals(statement: ast.Statement, change: Change) -> ast.Statement:
    """Return the statement with other values for the literals in its options that take secrets."""
    match statement:
        case ast.CreateConnection() | ast.CreateCluster() | ast.CreateSource() | ast.CreateSink():
            return replace(statement, options=_in_all(statement.options, change))
        case ast.Explain(explainee=ast.CreateSink() as sink):
            return replace(statement, explainee=replace(sink, options=_in_all(sink.options, change)))
        case ast.Alter(action=ast.SetOptions() as action):
            return replace(statement, action=_in_action(action, change))
        case ast.Alter(action=ast.ChangeConnection() as action):
            actions = tuple(
                _in_action(each, change) if isinstance(each, ast.SetOptions) else each for each in action.actions
            )
            return replace(statement, action=replace(action, actions=actions))
        case _:
            return statement


def _value(value: ast.SecretValue) -> ast.SecretValue:
    """Return what may be shown of a secret's value: a reference as it is."""
    return value if isinstance(value, ast.Call) and value.refers else _REDACTED


def _in_action(action: ast.SetOptions, change: Change) -> ast.SetOptions:
    return replace(action, options=_in_all(action.options, change))


def _in_all(options: tuple[ast.Option, ...], change: Change) -> tuple[ast.Option, ...]:
    return tuple(_in_option(option, change) for option in options)


def _in_option(option: ast.Option, change: Change) -> ast.Option:
    if option.name not in words.SENSITIVE:
        return option
    match option.value:
        case None | ast.SecretRef():
            return option
        case ast.Concat(parts=parts):
            found = (change(part) if isinstance(part, ast.Text) else part for part in parts)
            shown = tuple(part for part in found if isinstance(part, ast.Text | ast.SecretRef))
            return replace(option, value=ast.Concat(shown))
        case literal:
            return replace(option, value=change(literal))
