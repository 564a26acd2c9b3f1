"""A statement's literals in options that take secrets ↔ the same, encrypted: what the catalog file's text shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

from sinkql import ast
from sinkql.keywords import Keywords
from sinkql.printer.redaction import change_literals

MARK = "<sealed:"
_END = ">"
_Create = TypeVar("_Create", bound=ast.Create)


def hidden(statement: _Create, seal: Callable[[str], str], words: Keywords) -> _Create:
    """Return the statement as it is stored; what `seal` returns is text without quotes."""

    def hide(literal: ast.Value) -> ast.Value:
        match literal:
            case ast.Text(value=value) if value.startswith(MARK):
                return literal
            case ast.Text(value=value):
                return ast.Text(f"{MARK}{seal(json.dumps(value))}{_END}")
            case ast.Word(name=name):
                parts = [part.value for part in name.parts]
                return ast.Text(f"{MARK}{seal(json.dumps(parts))}{_END}")
            case _:
                return literal  # no option takes it, so no such statement is stored

    return change_literals(statement, hide, words)  # type: ignore[return-value]  # it is a statement of the same class


def shown(statement: _Create, open_: Callable[[str], str]) -> _Create:
    """Return the statement that `hidden` made into this one; raises what `open_` does."""

    def show(literal: ast.Value) -> ast.Value:
        if not isinstance(literal, ast.Text) or not literal.value.startswith(MARK):
            return literal
        found = json.loads(open_(literal.value.removeprefix(MARK).removesuffix(_END)))
        if isinstance(found, str):
            return ast.Text(found)
        return ast.Word(ast.Name(tuple(ast.Ident(part) for part in found)))

    return change_literals(statement, show, None)  # type: ignore[return-value]  # as above
