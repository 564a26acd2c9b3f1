"""What people bring from other SQLs → one sentence that says how it is written here; the habits are
`other_dialects.toml`.

They are asked only where the grammar has no way on, or no such name is known: a form that the grammar learns is never
looked up here again.
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
    """A form of statements or queries elsewhere: how it is found, and what is said of it.

    `before` matches all words before it, `found` its own first ones, which {0} stands for in message and hint. `back`
    is how many words before the form are what is wrong, in place of itself; with `here` reading stops just where the
    form of a query begins. `wrong` is an example, `right` the same after the hint, None if the hint says no rewrite.
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
    """A call elsewhere and the same here, over columns of the given types; or advice, and then `call` is a name.

    The rewrite gives `gives` for the rows `given`, and so does the call where it is known.
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
    """All habits; of those of one kind the first that fits is meant."""

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
    """Return the error for the foreign form that the lexeme at `place` begins, None for any other mistake."""
    if place > _LONGEST:
        return None
    before = " ".join(_word(lexeme) for lexeme in lexemes[:place])
    ahead = " ".join(_word(lexeme) for lexeme in lexemes[place : place + _AHEAD])
    if lexemes[place].kind == ":" and lexemes[place].end == lexemes[place + 1].start:
        ahead = ahead.replace(":", ":~", 1)  # a variable: nothing between the colon and its name
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
    """Return what of the words `ahead` is the form."""
    found = re.match(rf"(?:{form.found})(?= |$)", ahead)
    return None if found is None else found[0]


def known_refusal(form: Form, found: str, span: Span) -> SinkqlError:
    """Return the error for a form that was found."""
    return SinkqlError(form.code, form.message.format(found), span, hint=form.hint and form.hint.format(found))


def call_hint(name: str, arity: int) -> str | None:
    """Return what to write for a call of a function that only other systems have."""
    for each in habits().function:
        if each.name == name and each.advice is not None:
            return each.advice
        if each.name == name and each.arity == arity:
            return f"Write {each.write} for {each.call}."
    return None


def called_elsewhere(name: str) -> bool:
    """Tell whether other systems have a function of that name."""
    return any(each.name == name for each in habits().function)


def _word(lexeme: Lexeme) -> str:
    """Return a lexeme as the patterns see it: a word in upper case, a mark for what has a text of its own."""
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
