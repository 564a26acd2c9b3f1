"""Look at the next lexemes: whether a terminal fits before them, and where an expression ends."""

from __future__ import annotations

from collections.abc import Sequence

from sinkql import keywords
from sinkql.parser.read import automaton
from sinkql.parser.read.automaton import END, Ahead
from sinkql.parser.read.lexer import Lexeme

_QUERY_STARTS = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "("})
_TERMINALS = {"STRING": "STRING", "NUMBER": "NUMBER", "HEX": "HEX", "QUOTED": "NAME", "END": END, ";": END}
_LONG = frozenset({"LABEL", "OPTION_NAME", "KIND", "QUERY", "CONDITION", "EXPRESSION", "EXPRESSIONS", END})
"""Terminals of several lexemes, and terminals at the statement's end."""
_WORDS = ("LABEL", "OPTION_NAME", "KIND", "FORMAT_NAME", "QUERY", "CONDITION", "EXPRESSION", "EXPRESSIONS")
"""Terminals that may begin with any word."""
_OPENING = frozenset({"(", "[", "{"})
_CLOSING = frozenset({")", "]", "}"})
_OPERANDS = frozenset({"WORD", "QUOTED", "STRING", "NUMBER", "HEX", "PARAMETER"})
_EXPRESSION_STARTS = _OPERANDS | {"(", "[", "*", "+", "-", "~"}
_OPERATORS = frozenset(
    {
        "ALL", "AND", "ANY", "AT", "BETWEEN", "CASE", "COLLATE", "DISTINCT", "ELSE", "ESCAPE", "FROM", "ILIKE", "IN",
        "IS", "LIKE", "NOT", "OR", "SIMILAR", "SOME", "SYMMETRIC", "THEN", "WHEN",
    }
)  # fmt: skip
"""Words of expressions that another operand must follow."""


def symbol(lexeme: Lexeme) -> str:
    """Return the terminal of a lexeme that is not a word."""
    return _TERMINALS.get(lexeme.kind) or automaton.symbols().get(lexeme.kind, "UNKNOWN")


def follows(parser: Ahead, terminal: str, *following: Lexeme) -> bool:
    """Return whether the parser accepts `terminal` and then some reading of the lexemes after it."""
    ahead = parser.after(terminal)
    if ahead is None or not following or terminal in _LONG:
        return ahead is not None
    next_, *more = following
    return any(reading in ahead.row and follows(ahead, reading, *more) for reading in _readings(next_))


def _readings(lexeme: Lexeme) -> tuple[str, ...]:
    if lexeme.kind != "WORD":
        kind = symbol(lexeme)
        queries = ("QUERY",) if kind == "LPAR" else ()
        expressions = ("CONDITION", "EXPRESSION", "EXPRESSIONS") if lexeme.kind in _EXPRESSION_STARTS else ()
        return (kind, *queries, *expressions)
    runs = tuple(run for run, words in keywords.RUNS.items() if words.split()[0] == lexeme.keyword)
    readings = (*_WORDS, lexeme.keyword, *runs)
    return readings if lexeme.keyword in keywords.RESERVED else (*readings, "NAME")


def query_starts(parser: Ahead, lexemes: Sequence[Lexeme], place: int) -> bool:
    """Return whether a query begins here; if a list in brackets is possible too, the contents decide."""
    start = lexemes[place].keyword or lexemes[place].kind
    if start == "WITH" and parser.takes("WITH") and lexemes[place + 1].kind == "(":
        return False
    if start != "(" or not parser.takes("LPAR"):
        return start in _QUERY_STARTS
    match lexemes[place + 1].keyword or lexemes[place + 1].kind:
        case "SELECT" | "WITH" | "(":
            return True
        case "VALUES":
            return lexemes[place + 2].kind == "("
        case "TABLE":
            return lexemes[place + 2].kind in ("WORD", "QUOTED")
    return False


def text_length(lexemes: Sequence[Lexeme], place: int, *, ends: tuple[str, ...] = ()) -> int:
    """Return the number of lexemes before the statement's end, an unmatched closing bracket, or a word of `ends`.

    A word of `ends` inside brackets ends nothing.
    """
    depth, at = 0, place
    while lexemes[at].kind not in ("END", ";"):
        lexeme = lexemes[at]
        if lexeme.kind in _OPENING:
            depth += 1
        elif lexeme.kind in _CLOSING:
            depth -= 1
        if depth < 0 or (depth == 0 and lexeme.keyword in ends and lexemes[at - 1].keyword != "AS"):
            break
        at += 1
    return at - place


def expression_length(parser: Ahead, terminal: str, lexemes: Sequence[Lexeme], place: int) -> int:
    """Return the number of lexemes of the expression at `place`, 0 without an expression.

    An expression ends at an unmatched closing bracket, at a keyword that may follow `terminal` and can follow an
    operand, and at the statement's end. An EXPRESSION also ends at a comma; EXPRESSIONS are a list.
    """
    ahead = parser.after(terminal)
    if ahead is None or lexemes[place].kind not in _EXPRESSION_STARTS:
        return 0
    depth = 0
    for at in range(place, len(lexemes)):
        lexeme = lexemes[at]
        if lexeme.kind in ("END", ";"):
            break
        if depth == 0:
            if lexeme.kind in _CLOSING or (lexeme.kind == "," and terminal == "EXPRESSION"):
                break
            whole = at > place and _ends_operand(lexemes[at - 1])
            if whole and lexeme.keyword in ahead.row and follows(ahead, lexeme.keyword, lexemes[at + 1]):
                break
        if lexeme.kind in _OPENING or lexeme.keyword == "CASE":
            depth += 1
        elif lexeme.kind in _CLOSING or (lexeme.keyword == "END" and depth):
            depth -= 1
    else:
        at = len(lexemes)
    return at - place


def _ends_operand(lexeme: Lexeme) -> bool:
    return lexeme.kind in _CLOSING or (lexeme.kind in _OPERANDS and lexeme.keyword not in _OPERATORS)
