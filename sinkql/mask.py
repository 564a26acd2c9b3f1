"""A script or a CREATE SECRET → the same without literals of secrets, so that it may be stored, printed and quoted."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from sinkql import ast
from sinkql.errors import SinkqlError
from sinkql.parser import secret

_COVERED = re.compile(r"[^\n]")
REDACTED = "<redacted>"


@dataclass(frozen=True, slots=True)
class Masked:
    """Hold a script that shows no secret: `text` has the length of the original, so that spans still fit."""

    text: str
    literals: tuple[str, ...] = field(repr=False)

    def cover(self, error: SinkqlError) -> SinkqlError:
        """Take the literals out of an error's texts, and give it the masked script."""
        error.message = self._without(error.message)
        error.detail = self._without(error.detail) if error.detail else error.detail
        error.hint = self._without(error.hint) if error.hint else error.hint
        error.args = (error.message,)
        if error.text is not None:
            error.text = self._without(error.text)
        return error

    def _without(self, text: str) -> str:
        for literal in self.literals:
            text = text.replace(literal, "*" * len(literal))
        return text


def mask(script: str) -> Masked:
    """Cover the literals of secrets, and those in options that take secrets."""
    pieces: list[str] = []
    literals: set[str] = set()
    at = 0
    for literal in secret.literals(script):
        start, end = literal.span.start, literal.span.end
        pieces += [script[at:start], _COVERED.sub("*", script[start:end])]
        at = end
        if literal.of_secret:
            literals.add(script[start:end])
    # Longest first: a literal that holds another one is covered whole. Very short ones are in any text by chance.
    telling = sorted((each for each in literals if len(each) > 3), key=len, reverse=True)
    return Masked("".join([*pieces, script[at:]]), tuple(telling))


def without_literal(statement: ast.Create) -> ast.Create:
    """Return the statement as it may be stored: a secret's literal is taken out of it."""
    match statement:
        case ast.CreateSecret(value=ast.Call() as call) if call.refers:
            return statement
        case ast.CreateSecret():
            return replace(statement, value=ast.Text(REDACTED))
        case _:
            return statement
