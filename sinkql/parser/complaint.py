"""A token that cannot stand where it stands → the error that says what was expected, and what was found."""

from __future__ import annotations

from collections.abc import Sequence

from sinkql import words
from sinkql.errors import SinkqlError, line_and_column, nearest
from sinkql.parser import grammar
from sinkql.parser.lexical import Lexeme
from sinkql.parser.refusal import refusal

_LIMIT = 6
_DESCRIBED = {
    "NAME": "a name",
    "LABEL": "an option",
    "KIND": "a connection type",
    "STRING": "a string",
    "NUMBER": "a number",
    "CONDITION": "a condition",
    "QUERY": "SELECT",
    "EXPRESSION": "an expression",
    "EXPRESSIONS": "an expression",
    "CSV_WITH": "WITH",
}
_VALUE = frozenset({"NAME", "STRING", "NUMBER"})
_VALUE_PARTS = _VALUE | {"TRUE", "FALSE", "NULL", "INTERVAL", "MAP", "DEAD", "MINUS", "SECRET", "LPAR", "LSQB"}


def complaint(expected: frozenset[str], lexemes: Sequence[Lexeme], place: int, *, text: str) -> SinkqlError:
    """Return the error for the lexeme at `place`, where only the terminals `expected` may stand."""
    refused = refusal(lexemes, place)
    if refused is not None:
        return refused
    found = lexemes[place]
    message = f"expected {_listed(expected)}, found {_found(found)}"
    if found.kind in ("END", ";"):
        return SinkqlError("SQ1002", message, found.span, detail=_still_open(lexemes[:place], text))
    if found.keyword in words.RESERVED and "NAME" in expected:
        hint = f'Write it in quotes to use it as a name: "{found.value}".'
        return SinkqlError("SQ1004", message, found.span, hint=hint)
    code = "SQ1001" if place else "SQ1003"
    return SinkqlError(code, message, found.span, hint=_near(found, expected))


def _listed(expected: frozenset[str]) -> str:
    rest = set(expected)
    described = []
    if rest >= _VALUE:
        rest -= _VALUE_PARTS
        described.append("a value")
    shown = {_DESCRIBED.get(terminal, terminal) for terminal in rest & (grammar.keywords() | _DESCRIBED.keys())}
    described += sorted(shown, key=lambda word: (word.isupper(), word))
    names = {terminal: symbol for symbol, terminal in grammar.symbols().items()}
    described += sorted(f'"{names[terminal]}"' for terminal in rest if terminal in names)
    if "$END" in rest:
        described.append('";"')
    if len(described) > _LIMIT:
        return ", ".join(described[:_LIMIT]) + ", …"
    return " or ".join([", ".join(described[:-1]), described[-1]] if len(described) > 1 else described)


def _found(lexeme: Lexeme) -> str:
    match lexeme.kind:
        case "END":
            return "the end of the input"
        case "STRING" | "HEX":
            # not what is in it: it may be a secret
            return "a string"
        case "WORD" if lexeme.keyword in grammar.keywords() | words.RESERVED:
            return lexeme.keyword
        case "QUOTED" | "NUMBER" | "PARAMETER":
            return lexeme.text
        case _:
            return f'"{lexeme.text}"'


def _still_open(lexemes: Sequence[Lexeme], text: str) -> str | None:
    """Return which bracket waits for its end, if one does."""
    still_open: list[Lexeme] = []
    for lexeme in lexemes:
        if lexeme.kind in ("(", "["):
            still_open.append(lexeme)
        elif lexeme.kind in (")", "]") and still_open:
            still_open.pop()
    if not still_open:
        return None
    line, column = line_and_column(text, still_open[-1].start)
    return f'the "{still_open[-1].kind}" in line {line}, column {column} is still open'


def _near(found: Lexeme, expected: frozenset[str]) -> str | None:
    if found.kind != "WORD" or found.keyword in grammar.keywords():
        return None
    choices = sorted((expected & grammar.keywords()) | ({"SELECT", "VALUES", "WITH"} if "QUERY" in expected else set()))
    near = nearest(found.text, choices)
    return f"Did you mean {near}?" if near is not None else None
