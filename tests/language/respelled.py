"""Respell SQL: keywords and unquoted names in another case, and comments between words.

Quoted text is unchanged, and so are words that are part of a string: N'…', U&'…'.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from random import Random
from typing import Any, Self

import pytest
from sqlglot import exp

from sinkql.parser.read.lexer import Lexeme, scan
from sinkql.planner.expression.typed_expression import Typed
from sinkql.planner.query.translate import Translator
from sinkql.planner.syntax.sqlglot_tree import RANGE, Syntax

_BETWEEN = (
    " /* FROM ' */ ",
    "\n",
    ' -- SELECT "\n',
    "\t/* /* x */ ; */\r\n",
    " /**/",
)
Change = Callable[[str], str]


def lower(text: str) -> str:
    """Return SQL with its words in lower case."""
    return _words(text, str.lower)


def upper(text: str) -> str:
    """Return SQL with its words in upper case."""
    return _words(text, str.upper)


def mixed(text: str, random: Random) -> str:
    """Return SQL with a random case for each character of its words, and a comment or line end between all words."""
    written = _words(text, lambda word: "".join(random.choice((each.lower(), each.upper())) for each in word))
    lexemes = list(scan(written))
    pieces, at = [], 0
    for lexeme, following in pairwise(lexemes):
        pieces.append(written[at : lexeme.end])
        at = lexeme.end
        if not _together(lexeme, following):
            pieces.append(random.choice(_BETWEEN))
    return "".join([*pieces, written[at:]])


def bracketed(text: str, places: Iterable[tuple[int, int]]) -> str:
    """Return SQL with an additional pair of brackets around each place."""
    marks: list[tuple[int, int, str]] = []
    for start, end in set(places):
        marks += [(start, -end, "("), (end, -start, ")")]
    # at one place, the longest range opens first and the shortest closes first
    pieces, at = [], 0
    for place, _, sign in sorted(marks, key=_order):
        pieces += [text[at:place], sign]
        at = place
    return "".join([*pieces, text[at:]])


def _order(mark: tuple[int, int, str]) -> tuple[int, bool, int]:
    place, other, sign = mark
    return place, sign == "(", other


def _words(text: str, change: Change) -> str:
    pieces, at = [], 0
    for lexeme in scan(text):
        if lexeme.kind == "WORD":
            pieces += [text[at : lexeme.start], _ascii(lexeme.text, change)]
            at = lexeme.end
    return "".join([*pieces, text[at:]])


def _ascii(word: str, change: Change) -> str:
    """Change the case of ASCII characters: SQL folds the case of no others."""
    return "".join(change(each) if each.isascii() else each for each in word)


def _together(lexeme: Lexeme, following: Lexeme) -> bool:
    """Return whether nothing may come between two lexemes because they are parts of one token."""
    if lexeme.end != following.start or following.kind == "END":
        return False
    prefix = lexeme.kind == "WORD" and lexeme.keyword in ("N", "B", "U") and following.kind in ("STRING", "&")
    return prefix or lexeme.kind in ("&", ":", "?", "OPERATOR")


def without_marks(text: str) -> str:
    """Return SQL in lower case without comments, space and brackets, to compare the printed forms of respelled SQL."""
    plain = _close(text)
    for mark in _BETWEEN:
        plain = plain.replace(_close(mark), "") if _close(mark) else plain
    return plain


def _close(text: str) -> str:
    return re.sub(r"[\s()]", "", text).lower()


class Places:
    """The ranges of expressions that brackets may enclose, recorded while statements of a text are planned."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._patch = pytest.MonkeyPatch()
        self.found: set[tuple[int, int]] = set()

    def __enter__(self) -> Self:
        translate = Translator.translate

        def noted(translator: Translator, node: Any) -> Typed:
            self._note(translator.syntax, node)
            return translate(translator, node)

        self._patch.setattr(Translator, "translate", noted)
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()

    def _note(self, syntax: Syntax, node: Any) -> None:
        written = self._text[syntax.offset : syntax.offset + len(syntax.text)] == syntax.text
        if not written or RANGE not in node.meta or not _whole(syntax, node):
            return
        span = syntax.span(node)
        self.found.add((span.start, span.end))
        if isinstance(node, exp.And | exp.Or) and type(node.this) is type(node):
            self._note(syntax, node.this)  # a AND b in a AND b AND c


def _whole(syntax: Syntax, node: Any) -> bool:
    """Return whether brackets may enclose an expression: not the text of DATE '…', the LIKE before ESCAPE, or t.*."""
    parent = node.parent
    if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
        return False
    if isinstance(parent, exp.Escape) and node.arg_key == "this":
        return False
    prefixed = isinstance(parent, exp.Cast) and syntax.span(node).start > syntax.span(parent).start
    return not prefixed or syntax.words(parent).startswith("CAST")
