"""One statement's lexemes → Lark's tree; a word is a keyword where one may stand, and a name elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from lark import Token, Tree
from lark.exceptions import UnexpectedToken
from lark.parsers.lalr_interactive_parser import InteractiveParser

from sinkql import words
from sinkql.parser import grammar
from sinkql.parser.complaint import complaint
from sinkql.parser.lexical import Lexeme

END = "$END"
_QUERY_STARTS = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "("})
_TEXTS = {"STRING": "STRING", "NUMBER": "NUMBER", "QUOTED": "NAME", "END": END, ";": END}
_LITERALS = frozenset({"STRING", "NUMBER", "HEX", "-"})
_AFTER_VALUE = frozenset({",", ")", ".", "END", ";"})
_BEFORE_LITERAL = frozenset({"INTERVAL", "FOR", "EVERY", "AT"})
_VALUE_WORDS = frozenset({"TRUE", "FALSE", "NULL", "MAP"})


def read(lexemes: Sequence[Lexeme], text: str) -> Tree[Token]:
    """Return the tree of a statement, whose last lexeme is an END or a semicolon. Raises SQ1001 to SQ1005, SQ29xx."""
    parser = grammar.start()
    place = 0
    tokens: list[Token] = []
    while True:
        terminal, count = _next_terminal(parser, lexemes, place)
        first, last = lexemes[place], lexemes[place + count - 1]
        token = Token(terminal, _token_text(terminal, lexemes[place : place + count], text))
        token.start_pos, token.end_pos = first.start, last.end
        try:
            result = parser.feed_token(token)
        except UnexpectedToken:
            raise complaint(_expected(tokens), lexemes, place, text=text) from None
        if terminal == END:
            assert isinstance(result, Tree)
            return result
        tokens.append(token)
        place += count


def _expected(tokens: Sequence[Token]) -> frozenset[str]:
    """Return the terminals that may follow; asked afresh, since a failing token may already have reduced the stack."""
    parser = grammar.start()
    for token in tokens:
        parser.feed_token(token)
    return frozenset(_accepted(parser))


def _token_text(terminal: str, lexemes: Sequence[Lexeme], text: str) -> str:
    match terminal:
        case "LABEL" | "KIND":
            return " ".join(lexeme.text.upper() for lexeme in lexemes)
        case "NAME" | "STRING" | "NUMBER":
            return lexemes[0].value
        case _:
            return text[lexemes[0].start : lexemes[-1].end]


def _next_terminal(parser: InteractiveParser, lexemes: Sequence[Lexeme], place: int) -> tuple[str, int]:
    """Return the terminal that stands at `place`, and how many lexemes it takes."""
    lexeme, row = lexemes[place], _row(parser)
    if lexeme.kind in ("END", ";"):
        return END, 1
    if ("QUERY" in row and (lexeme.keyword or lexeme.kind) in _QUERY_STARTS) or "CONDITION" in row:
        return ("QUERY" if "QUERY" in row else "CONDITION"), len(lexemes) - 1 - place
    if lexeme.kind != "WORD":
        return _TEXTS.get(lexeme.kind) or grammar.symbols().get(lexeme.kind, "UNKNOWN"), 1
    if "LABEL" in row:
        return "LABEL", _label_length(lexemes, place)
    if "KIND" in row:
        return "KIND", _kind_length(lexemes, place)
    return _word_terminal(parser, lexemes, place), 1


def _word_terminal(parser: InteractiveParser, lexemes: Sequence[Lexeme], place: int) -> str:
    """Say what one word is: where both may stand, a keyword if what follows can follow it, else a name."""
    lexeme, row = lexemes[place], _row(parser)
    keyword = lexeme.keyword
    if keyword == "WITH" and "CSV_WITH" in row and lexemes[place + 1].kind != "(":
        return "CSV_WITH"
    if keyword not in row or keyword not in grammar.keywords():
        return "RESERVED" if _reserved(lexemes, place) else "NAME"
    if (
        "NAME" not in row
        or _follows(parser, keyword, lexemes[place + 1])
        or not _follows(parser, "NAME", lexemes[place + 1])
    ):
        return keyword
    return "NAME"


def _reserved(lexemes: Sequence[Lexeme], place: int) -> bool:
    """Say whether the word needs quotes to be a name."""
    keyword = lexemes[place].keyword
    if place == 1 and lexemes[0].keyword == "SHOW":
        return keyword in words.RESERVED | words.SHOWN
    return keyword in words.RESERVED and lexemes[place - 1].keyword != "AS"


def _follows(parser: InteractiveParser, terminal: str, following: Lexeme) -> bool:
    """Say whether the parser takes `terminal` and then some reading of the lexeme after it."""
    ahead = _copy(parser)
    try:
        ahead.feed_token(Token(terminal, ""))
    except UnexpectedToken:
        return False
    return any(_takes(ahead, reading) for reading in _readings(following) if reading in _row(ahead))


def _row(parser: InteractiveParser) -> dict[str, object]:
    """Return what the parser's tables list for its state."""
    row: dict[str, object] = parser.choices()  # type: ignore[no-untyped-call]  # Lark has no types there
    return row


def _copy(parser: InteractiveParser) -> InteractiveParser:
    """Return a parser to look ahead with: it shares the trees made so far, so it makes none itself."""
    copied: InteractiveParser = parser.copy(deepcopy_values=False)  # type: ignore[no-untyped-call]  # as above
    copied.parser_state.parse_conf = copy(copied.parser_state.parse_conf)
    copied.parser_state.parse_conf.callbacks = {}
    return copied


def _accepted(parser: InteractiveParser) -> set[str]:
    accepted: set[str] = parser.accepts()  # type: ignore[no-untyped-call]  # as above
    return accepted


def _takes(parser: InteractiveParser, terminal: str) -> bool:
    try:
        _copy(parser).feed_token(Token(terminal, ""))
    except UnexpectedToken:
        return False
    return True


def _readings(lexeme: Lexeme) -> tuple[str, ...]:
    if lexeme.kind != "WORD":
        kind = _TEXTS.get(lexeme.kind) or grammar.symbols().get(lexeme.kind, "UNKNOWN")
        return (kind, "QUERY", "CONDITION") if kind == "LPAR" else (kind,)
    readings = ("LABEL", "KIND", "QUERY", "CONDITION", lexeme.keyword)
    return readings if lexeme.keyword in words.RESERVED else (*readings, "NAME")


def _words(lexemes: Sequence[Lexeme], place: int) -> list[str]:
    """Return the run of words from `place` on, in upper case; a WITH begins another clause."""
    run: list[str] = []
    while lexemes[place].kind == "WORD" and lexemes[place].keyword != "WITH":
        run.append(lexemes[place].text.upper())
        place += 1
    return run


def _label_length(lexemes: Sequence[Lexeme], place: int) -> int:
    """Return how many words an option's name takes: all before `=` or a literal, else the longest known name."""
    run = _words(lexemes, place)
    if not run:
        return 1
    following = lexemes[place + len(run)].kind
    if following == "=":
        return len(run)
    if "SECRET" in run[1:]:
        return run.index("SECRET", 1)
    known = max((count for count in range(1, len(run) + 1) if " ".join(run[:count]) in words.OPTION_NAMES), default=0)
    if following in _LITERALS:
        begins_value = known and len(run) == known + 1 and run[-1] in _BEFORE_LITERAL
        return known if begins_value else len(run)
    if known:
        return known
    bare_value = following in _AFTER_VALUE or run[-1] in _VALUE_WORDS
    return len(run) - 1 if bare_value and len(run) > 1 else len(run)


def _kind_length(lexemes: Sequence[Lexeme], place: int) -> int:
    """Return how many words a connection's type takes: all before a bracket, else the longest known type."""
    run = _words(lexemes, place)
    if run and lexemes[place + len(run)].kind == "(":
        return len(run)
    known = [count for count in range(1, len(run) + 1) if " ".join(run[:count]) in words.CONNECTION_KINDS]
    return known[-1] if known else 1
