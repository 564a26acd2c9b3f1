"""Replace a statement's secrets: the type of an option decides whether its literals may be secrets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from sinkql import ast
from sinkql.keywords import Keywords, Role

_REDACTED = ast.Text("<redacted>")

_Formatted = TypeVar("_Formatted", ast.CreateSource, ast.CreateSink)

Substitute = Callable[[ast.Value], ast.Value]


def without_secrets(statement: ast.Statement, words: Keywords) -> ast.Statement:
    """Return the statement with '<redacted>' in place of a secret's literal, and of literals in secret options."""
    match statement:
        case ast.CreateSecret():
            return replace(statement, value=_value(statement.value))
        case ast.Alter(action=ast.SetSecret() as action):
            return replace(statement, action=replace(action, value=_value(action.value)))
        case _:
            return change_literals(statement, lambda literal: _REDACTED, words)


def change_literals(statement: ast.Statement, change: Substitute, words: Keywords | None) -> ast.Statement:
    """Return the statement with `change` applied to the literals of its options that take secrets.

    `words` says which options take secrets; None changes the literals of all options.
    """
    match statement:
        case ast.CreateConnection():
            options = _Literals(change, "CONNECTION", statement.kind, words)
            return replace(statement, options=options.within(statement.options))
        case ast.CreateSource():
            return _with_formats(statement, "SOURCE", change, words)
        case ast.CreateSink():
            return _with_formats(statement, "SINK", change, words)
        case ast.CreateSinks():
            return replace(statement, sink=_with_formats(statement.sink, "SINK", change, words))
        case ast.Explain(explainee=ast.CreateSink() as sink):
            return replace(statement, explainee=_with_formats(sink, "SINK", change, words))
        case ast.Alter(action=ast.SetOptions() as action):
            options = _Literals(change, "SINK", None, words)
            return replace(statement, action=replace(action, options=options.within(action.options)))
        case ast.Alter(action=ast.ChangeConnection() as action):
            options = _Literals(change, "CONNECTION", None, words)
            actions = tuple(
                replace(part, options=options.within(part.options)) if isinstance(part, ast.SetOptions) else part
                for part in action.actions
            )
            return replace(statement, action=replace(action, actions=actions))
        case _:
            return statement


def _value(value: ast.SecretValue) -> ast.SecretValue:
    """Return the printable form of a secret's value: a reference unchanged, any other value redacted."""
    return value if isinstance(value, ast.Call) and value.refers else _REDACTED


def _with_formats(statement: _Formatted, role: Role, change: Substitute, words: Keywords | None) -> _Formatted:
    options = _Literals(change, role, statement.kind, words)
    return replace(
        statement,
        options=options.within(statement.options),
        with_options=options.within(statement.with_options),
        format=_in_format(statement.format, change, words),
        key_format=_in_format(statement.key_format, change, words),
    )


def _in_format(format_: ast.Format | None, change: Substitute, words: Keywords | None) -> ast.Format | None:
    if format_ is None or not format_.options:
        return format_
    return replace(format_, options=_Literals(change, "FORMAT", format_.name, words).within(format_.options))


@dataclass(frozen=True, slots=True)
class _Literals:
    """Changes the literals that may be secrets among the options of one kind; None is an unknown kind."""

    change: Substitute
    role: Role
    kind: str | None
    words: Keywords | None

    def within(self, options: tuple[ast.Option, ...]) -> tuple[ast.Option, ...]:
        return tuple(self._option(option) for option in options)

    def _option(self, option: ast.Option) -> ast.Option:
        if option.value is None:
            return option
        if self.words is not None and not self.words.hides(self.role, self.kind, option.name):
            return option
        return replace(option, value=self._literal(option.value))

    def _literal(self, value: ast.Value) -> ast.Value:
        match value:
            case ast.SecretRef():
                return value
            case ast.Concat(parts=parts):
                changed = (self.change(part) if isinstance(part, ast.Text) else part for part in parts)
                return ast.Concat(tuple(part for part in changed if isinstance(part, ast.Text | ast.SecretRef)))
            case literal:
                return self.change(literal)
