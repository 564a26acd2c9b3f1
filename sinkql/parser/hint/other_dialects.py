"""Hints for forms of other SQL dialects, from `other_dialects.toml`.

They are used only where the grammar fails or a name is unknown, so they never hide a form that the grammar knows.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template

from sinkql import codec
from sinkql.errors import SinkqlError, Span
from sinkql.parser.read.lexer import Lexeme

_AHEAD = 11
"""The words of the longest form: [ id AS database . schema . item VERSION n ]."""
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class Form:
    """A form of statements or queries in other dialects: its pattern, and its error.

    `before` matches all words before the form, `found` its first words, which {0} inserts into message and hint. The
    error points `back` words before the form. With `here`, reading stops exactly where the form of a query begins.
    `wrong` is an example, `right` the example after the hint, None if the hint has no rewrite.
    """

    found: str
    message: str
    wrong: str
    hint: str | None = None
    right: str | None = None
    before: str = ".*"
    back: int = 0
    here: bool = False
    code: str = "SQ1006"


@dataclass(frozen=True, slots=True)
class Call:
    """A function call of another dialect and its rewrite, over columns of the given types; or advice on a name.

    The rewrite returns `gives` for the rows `given`, as the call does in its own dialect.
    """

    call: str
    write: str | None = None
    advice: str | None = None
    columns: str = ""
    given: str = ""
    gives: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.call.partition("(")[0]

    @property
    def arity(self) -> int:
        return self.call.count(",") + 1 - self.call.count("','")


@dataclass(frozen=True, slots=True)
class DialectHints:
    """All forms and calls; for several matches of one kind the first counts."""

    statement: tuple[Form, ...]
    query: tuple[Form, ...]
    function: tuple[Call, ...]
    type: Mapping[str, str]


@cache
def habits() -> DialectHints:
    """Read the habits, once."""
    found = tomllib.loads((files("sinkql.parser.hint") / "other_dialects.toml").read_text("utf-8"))
    texts = found.pop("text")
    for form in (*found["statement"], *found["query"]):
        form |= {name: Template(text).safe_substitute(texts) for name, text in form.items() if isinstance(text, str)}
    return codec.convert(found, DialectHints)


def statement_hint(lexemes: Sequence[Lexeme], place: int) -> SinkqlError | None:
    """Return the error for a form of another dialect at the lexeme `place`, None for any other mistake."""
    if place > _LONGEST:
        return None
    before = " ".join(_word(lexeme) for lexeme in lexemes[:place])
    ahead = " ".join(_word(lexeme) for lexeme in lexemes[place : place + _AHEAD])
    if lexemes[place].kind == ":" and lexemes[place].end == lexemes[place + 1].start:
        ahead = ahead.replace(":", ":~", 1)  # a variable has no blank between the colon and its name
    for form in habits().statement:
        found = begins(form, ahead)
        if found is None or re.fullmatch(form.before, before) is None:
            continue
        if form.back:
            span = Span(lexemes[place - form.back].start, lexemes[place - 1].end)
        else:
            span = Span(lexemes[place].start, lexemes[place + found.count(" ")].end)
        return known_refusal(form, found, span)
    return None


def begins(form: Form, ahead: str) -> str | None:
    """Return the part of the words `ahead` that matches the form."""
    found = re.match(rf"(?:{form.found})(?= |$)", ahead)
    return None if found is None else found[0]


def known_refusal(form: Form, found: str, span: Span) -> SinkqlError:
    """Return the error for a matched form."""
    return SinkqlError(form.code, form.message.format(found), span, hint=form.hint and form.hint.format(found))


def call_hint(name: str, arity: int) -> str | None:
    """Return the rewrite of a call that only other systems have."""
    for each in habits().function:
        if each.name == name and each.advice is not None:
            return each.advice
        if each.name == name and each.arity == arity:
            return f"Write {each.write} for {each.call}."
    return None


def called_elsewhere(name: str) -> bool:
    """Return whether another system has a function of that name."""
    return any(each.name == name for each in habits().function)


def _word(lexeme: Lexeme) -> str:
    """Return a lexeme as the patterns match it: a word in upper case, a mark for a literal or quoted name."""
    match lexeme.kind:
        case "WORD":
            return lexeme.text.upper()
        case "STRING":
            return "'"
        case "HEX":
            return "'HEX"
        case "QUOTED":
            return '"'
        case _:
            return lexeme.text
