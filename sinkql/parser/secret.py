"""Text → where it holds secrets: literals of CREATE SECRET, and of options that take secrets.

Meant for text that may be wrong: what might be meant as a secret is taken for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from sinkql import words
from sinkql.errors import SinkqlError, Span, nearest
from sinkql.parser import grammar, lexical
from sinkql.parser.lexical import Lexeme

_REFERENCES = frozenset(name.upper() for name in words.SECRET_FUNCTIONS if name != "decode")
_OTHERS = frozenset(
    {"CONNECTION", "SOURCE", "SINK", "CLUSTER", "SELECT", "DROP", "SHOW", "COMMENT", "GRANT", "REVOKE", "EXPLAIN"}
)
_WRITTEN = ("STRING", "HEX", "NUMBER", "QUOTED", "WORD")
_COMMENT = re.compile(r"--([^\r\n]*)|/\*(.*?)(?:\*/|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Literal:
    """Hold where a secret's text stands, quotes excluded; `of_secret` is false for one in an option."""

    span: Span
    of_secret: bool


def holds_secret(text: str) -> bool:
    """Say whether a text, finished or not, holds a secret in the clear: in a statement, or in a comment."""
    comments = (found[1] or found[2] or "" for found in _COMMENT.finditer(text))
    return any(any(literals(each)) for each in (text, *comments))


def literals(text: str) -> Iterator[Literal]:
    """Yield the secrets in a text; from where the text is no SQL any more, all the rest if it may be part of one."""
    statement: list[Lexeme] = []
    try:
        for lexeme in lexical.scan(text):
            if lexeme.kind in (";", "END"):
                yield from _in_statement(statement)
                statement = []
            else:
                statement.append(lexeme)
    except SinkqlError:
        yield from _in_statement(statement)
        of_secret = _is_of_secret(statement)
        if statement and (of_secret or _names_secret(statement)):
            yield Literal(Span(statement[-1].end, len(text)), of_secret)


def _in_statement(statement: Sequence[Lexeme]) -> Iterator[Literal]:
    if _is_of_secret(statement):
        for lexeme in _of_secret(statement):
            yield Literal(_inside(lexeme), of_secret=True)
    elif not any(lexeme.keyword == "SELECT" for lexeme in statement):
        for option in _options(statement):
            yield from (Literal(_inside(lexeme), of_secret=False) for lexeme in _value(option))


def _of_secret(statement: Sequence[Lexeme]) -> Iterator[Lexeme]:
    """Yield what a secret's statement gives as its value: also words whose quotes were forgotten."""
    value = statement[_name_end(statement) :]
    if value and value[0].keyword in ("RENAME", "OWNER"):
        return
    referring = False
    for lexeme, following in zip_longest(value, value[1:]):
        opens = following is not None and following.kind == "("
        if opens and lexeme.keyword in _REFERENCES:
            referring = True
        elif lexeme.kind == ")":
            referring = False
        elif lexeme.kind in _WRITTEN and not referring and not opens and _telling(lexeme):
            yield lexeme


def _telling(lexeme: Lexeme) -> bool:
    return lexeme.keyword not in ("AS", "SECRET") and lexeme.value.lower() not in ("base64", "hex")


def _name_end(statement: Sequence[Lexeme]) -> int:
    """Return where the name of a secret's statement ends."""
    place = next(place for place, lexeme in enumerate(statement) if _says_secret(lexeme)) + 1
    while place < len(statement) and statement[place].keyword in ("IF", "NOT", "EXISTS"):
        place += 1
    while place + 1 < len(statement) and statement[place + 1].kind == ".":
        place += 2
    return place + (place < len(statement) and statement[place].kind in ("WORD", "QUOTED"))


def _is_of_secret(statement: Sequence[Lexeme]) -> bool:
    """Say whether the words before the first bracket, AS or literal name a secret, or misspell it."""
    for lexeme in statement:
        if lexeme.kind not in ("WORD", "QUOTED", ".") or lexeme.keyword == "AS":
            return False
        if lexeme.keyword in _OTHERS:
            return False
        if _says_secret(lexeme):
            return True
    return False


def _says_secret(lexeme: Lexeme) -> bool:
    if lexeme.keyword == "SECRET":
        return True
    return lexeme.keyword not in grammar.keywords() and nearest(lexeme.text, ["SECRET"], cutoff=0.75) is not None


def _options(statement: Sequence[Lexeme]) -> Iterator[list[Lexeme]]:
    """Yield what stands between brackets and commas."""
    option: list[Lexeme] = []
    for lexeme in statement:
        if lexeme.kind in ("(", ",", ")"):
            yield option
            option = []
        else:
            option.append(lexeme)
    yield option


def _value(option: Sequence[Lexeme]) -> Iterator[Lexeme]:
    """Yield the literals after a sensitive option's name."""
    end = _label_end(option)
    if end == 0:
        return
    for before, lexeme in zip(option[end - 1 :], option[end:], strict=False):
        if lexeme.kind in _WRITTEN and lexeme.keyword != "SECRET" and before.keyword != "SECRET":
            yield lexeme


def _label_end(option: Sequence[Lexeme]) -> int:
    """Return how many lexemes the option's name takes, 0 if it is no sensitive one."""
    run: list[str] = []
    end = 0
    for lexeme in option:
        if lexeme.kind != "WORD":
            break
        run.append(lexeme.text.upper())
        if any(" ".join(run[start:]) in words.SENSITIVE for start in range(len(run))):
            end = len(run)
    return end


def _names_secret(statement: Sequence[Lexeme]) -> bool:
    return any(_label_end(option) for option in _options(statement))


def _inside(lexeme: Lexeme) -> Span:
    """Return the span of a lexeme without its quotes."""
    if lexeme.kind in ("WORD", "NUMBER"):
        return lexeme.span
    quote = lexeme.text[: lexeme.text.find("$", 1) + 1] if lexeme.text[0] == "$" else lexeme.text[-1]
    return Span(lexeme.start + lexeme.text.find(quote) + len(quote), lexeme.end - len(quote))
