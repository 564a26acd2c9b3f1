"""A script or a CREATE SECRET → the same without literals of secrets, so that it may be stored, printed and quoted."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from sinkql import ast
from sinkql.errors import SinkqlError

REDACTED = "<redacted>"

_TOKENS = re.compile(
    r"""
    (?P<comment>--[^\n]*|/\*.*?\*/)
  | (?P<dollar>\$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z))
  | (?P<string>'(?:[^'\\]|''|\\.)*(?:'|\Z))
  | (?P<name>"(?:[^"]|"")*(?:"|\Z))
  | (?P<word>[^\W\d]\w*)
  | (?P<end>;)
    """,
    re.VERBOSE | re.DOTALL,
)


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
    """Cover what is in quotes between CREATE SECRET and the semicolon after it."""
    pieces: list[str] = []
    literals: list[str] = []
    at, words = 0, list[str]()
    for token in _TOKENS.finditer(script):
        match token.lastgroup:
            case "end":
                words = []
            case "word":
                words.append(token.group().upper())
            case "string" | "dollar" | "tag" if words[:2] == ["CREATE", "SECRET"]:
                start, end = _inside(token)
                literals.append(script[start:end])
                pieces += [script[at:start], "*" * (end - start)]
                at = end
            case _:
                pass
    # Longest first: a literal that holds another one is covered whole. Very short ones are in any text by chance.
    telling = sorted({each for each in literals if len(each) > 3}, key=len, reverse=True)
    return Masked("".join([*pieces, script[at:]]), tuple(telling))


def without_literal(statement: ast.Create) -> ast.Create:
    """Return the statement as it may be stored: a secret's literal is taken out of it."""
    if isinstance(statement, ast.CreateSecret) and not isinstance(statement.value, ast.Call):
        return replace(statement, value=ast.Text(REDACTED))
    return statement


def _inside(token: re.Match[str]) -> tuple[int, int]:
    """Return where a literal's text starts and ends, quotes excluded; one not closed ends with the script."""
    quote = "'" if token["string"] else f"${token['tag']}$"
    end = token.end() - len(quote) if len(token.group()) > len(quote) and token.group().endswith(quote) else token.end()
    return token.start() + len(quote), end
