"""Read one statement's lexemes into Lark's tree; a word is a keyword if it can be one, otherwise a name."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from sinkql import keywords
from sinkql.errors import Span, nearest
from sinkql.keywords import Keywords, longest_match
from sinkql.parser.read import automaton
from sinkql.parser.read.automaton import END, Ahead
from sinkql.parser.read.lexer import Lexeme, too_long
from sinkql.parser.read.lookahead import expression_length, follows, query_starts, symbol, text_length
from sinkql.parser.read.tree import Node, Token

_LITERALS = frozenset({"STRING", "NUMBER", "HEX", "-"})
_AFTER_VALUE = frozenset({",", ")", ".", "END", ";"})
_BEFORE_LITERAL = frozenset({"INTERVAL", "FOR", "EVERY", "AT"})
_RUNS = {
    "CSV_WITH": r"WITH [^(\s]\S*",
    "KEY_STRATEGY": "KEY STRATEGY",
    "VALUE_STRATEGY": "VALUE STRATEGY",
    "DOC_ON": "((KEY|VALUE) )?DOC ON (TYPE|COLUMN)",
    "PARTITION_BY": "PARTITION BY",
}
"""Terminals of several words: more than one word decides between terminals with the same beginning."""
_LONGEST_RUN = 4
MAX_TOKENS = 50_000
"""The maximum number of lexemes outside of a statement's query."""
_TYPE_WORDS = frozenset(
    {
        "DAY", "HOUR", "LIST", "MINUTE", "MONTH", "PRECISION", "SECOND", "TIME", "TO", "VARYING", "WITHOUT", "YEAR",
        "ZONE",
    }
)  # fmt: skip
_VALUE_WORDS = frozenset({"TRUE", "FALSE", "NULL", "MAP"})


class StuckError(Exception):
    """A statement that cannot be read past the lexeme `place`, and a reading of its beginning for hints."""

    def __init__(self, lexemes: Sequence[Lexeme], place: int, text: str, reading: Reading) -> None:
        super().__init__(lexemes[place].text)
        self.lexemes = lexemes
        self.place = place
        self.text = text
        self.reading = reading


def read(lexemes: Sequence[Lexeme], text: str, words: Keywords) -> Node:
    """Return the tree of a statement whose last lexeme is an END or a semicolon. Raises StuckError."""
    parser = automaton.start(words)
    place = 0
    terminals: list[str] = []
    places: list[int] = []
    while True:
        terminal, count = next_terminal(parser, lexemes, place)
        if not parser.takes(terminal):
            raise StuckError(lexemes, place, text, Reading(terminals, places, words))
        if len(terminals) == MAX_TOKENS:
            raise too_long(lexemes[place].span, MAX_TOKENS)
        where = Span(lexemes[place].start, lexemes[place + count - 1].end)
        token = Token.of(terminal, _token_text(terminal, lexemes[place : place + count], text), where)
        result = parser.feed(token)
        if result is not None:
            return result
        terminals.append(terminal)
        places.append(place)
        place += count


class Reading:
    """Reads the beginning of a statement again, and continues it with other lexemes."""

    def __init__(self, terminals: Sequence[str], places: Sequence[int], words: Keywords) -> None:
        self._words = words
        self._terminals = terminals
        self._places = places
        self._before: dict[int, Ahead] = {}

    def unknown_kind(self, lexemes: Sequence[Lexeme], place: int) -> Sequence[Lexeme]:
        """Return the words before `place` that were read as an unknown kind of connector, if any."""
        if self._terminals[-1:] != ["KIND"]:
            return ()
        words = lexemes[self._places[-1] : place]
        return () if self.knows_kind(" ".join(word.text for word in words)) else words

    def knows_kind(self, name: str) -> bool:
        """Return whether words are a kind that a connector offers."""
        return name.upper() in self._words.words

    def near_kind(self, name: str) -> str | None:
        """Return the kind that a word most likely misspells."""
        return nearest(name, tuple(self._words.words))

    def token_places(self) -> Sequence[int]:
        """Return the first lexeme of each token that was read."""
        return self._places

    def expected(self, place: int) -> frozenset[str]:
        """Return the possible terminals at the lexeme `place`, which begins a token."""
        return self._at(bisect_left(self._places, place)).expected()

    def reach(self, lexemes: Sequence[Lexeme], changed: int) -> int:
        """Return how many lexemes can be read of a statement that differs from the lexeme `changed` on."""
        # the token before may differ too, since the following words decide its terminal
        number = max(0, bisect_left(self._places, changed) - 1)
        place = self._places[number] if number < len(self._places) else changed
        parser = self._at(number)
        while True:
            terminal, count = next_terminal(parser, lexemes, place)
            behind = parser.after(terminal)
            if behind is None:
                return place
            parser = behind
            place += count
            if terminal == END:
                return place

    def _at(self, count: int) -> Ahead:
        """Return the parser after the first `count` tokens."""
        if count not in self._before:
            ahead = automaton.start(self._words).after(*self._terminals[:count])
            assert ahead is not None
            self._before[count] = ahead
        return self._before[count]


def _token_text(terminal: str, lexemes: Sequence[Lexeme], text: str) -> str:
    match terminal:
        case "LABEL" | "KIND" | "FORMAT_NAME" | "OPTION_NAME" | "DOC_ON":
            return " ".join(lexeme.text.upper() for lexeme in lexemes)
        case "NAME" | "STRING" | "NUMBER" | "TYPE_WORD":
            return lexemes[0].value
        case _:
            return text[lexemes[0].start : lexemes[-1].end]


def next_terminal(parser: Ahead, lexemes: Sequence[Lexeme], place: int) -> tuple[str, int]:
    """Return the terminal at `place`, and its number of lexemes."""
    lexeme, row = lexemes[place], parser.row
    if lexeme.kind in ("END", ";"):
        return END, 1
    if parser.takes("QUERY") and query_starts(parser, lexemes, place):
        return "QUERY", text_length(lexemes, place, ends=("RETURNING",))
    if "CONDITION" in row and lexeme.kind not in (")", "]", "}"):
        return "CONDITION", text_length(lexemes, place)
    for terminal in ("EXPRESSION", "EXPRESSIONS"):
        if terminal in row and not _other_stands(parser, lexemes, place):
            count = expression_length(parser, terminal, lexemes, place)
            if count:
                return terminal, count
    if lexeme.kind != "WORD":
        return symbol(lexeme), 1
    for terminal in _RUNS.keys() & row.keys():
        count = _run_length(terminal, lexemes, place)
        if count and parser.takes(terminal):
            return terminal, count
    if "OPTION_NAME" in row:
        return "OPTION_NAME", max(len(_words(lexemes, place)), 1)
    if "LABEL" in row and not ("NAME" in row and lexemes[place + 1].kind in (",", ")")):
        return "LABEL", _label_length(parser.words, lexemes, place)
    if "KIND" in row and not _other_stands(parser, lexemes, place):
        count = _kind_length(parser, lexemes, place)
        if count:
            return "KIND", count
    return _word_terminal(parser, lexemes, place), 1


def _run_length(terminal: str, lexemes: Sequence[Lexeme], place: int) -> int:
    """Return the number of words at `place` that form the terminal, 0 if they do not."""
    ahead = " ".join(lexeme.text.upper() for lexeme in lexemes[place : place + _LONGEST_RUN])
    match = re.match(rf"({_RUNS[terminal]})(?= |$)", ahead)
    if match is None:
        return 0
    return 1 if terminal == "CSV_WITH" else match[0].count(" ") + 1


def _word_terminal(parser: Ahead, lexemes: Sequence[Lexeme], place: int) -> str:
    """Return the terminal of a word: a keyword if the next words can follow it, else a name."""
    lexeme, row = lexemes[place], parser.row
    keyword = lexeme.keyword
    if keyword in _TYPE_WORDS and parser.takes("TYPE_WORD"):
        return "TYPE_WORD"
    name = "FORMAT_NAME" if "FORMAT_NAME" in row else "NAME"
    if keyword not in row or keyword not in automaton.keywords():
        return "RESERVED" if _reserved(lexemes, place) else name
    if name not in row or (_reserved(lexemes, place) and keyword != "FROM"):
        return keyword
    following = lexemes[place + 1 : place + 3]
    return keyword if follows(parser, keyword, *following) or not follows(parser, name, *following) else name


def _other_stands(parser: Ahead, lexemes: Sequence[Lexeme], place: int) -> bool:
    """Return whether a keyword or a symbol of the statement is possible where an expression may begin too."""
    lexeme = lexemes[place]
    if lexeme.kind != "WORD":
        return lexeme.kind != "(" and parser.takes(symbol(lexeme))
    return lexeme.keyword in parser.row and follows(parser, lexeme.keyword, lexemes[place + 1])


def _reserved(lexemes: Sequence[Lexeme], place: int) -> bool:
    """Return whether the word needs quotes to be a name."""
    keyword = lexemes[place].keyword
    if place == 1 and lexemes[0].keyword == "SHOW":
        return keyword in keywords.RESERVED | keywords.SHOWN
    return keyword in keywords.RESERVED and lexemes[place - 1].keyword != "AS"


def _words(lexemes: Sequence[Lexeme], place: int) -> list[str]:
    """Return the words from `place` in upper case, up to the WITH of another clause."""
    run: list[str] = []
    while lexemes[place].kind == "WORD" and lexemes[place].keyword != "WITH":
        run.append(lexemes[place].text.upper())
        place += 1
    return run


def _label_length(words: Keywords, lexemes: Sequence[Lexeme], place: int) -> int:
    """Return the number of words in an option's name: all before `=` or a literal, else the longest known name."""
    run = _words(lexemes, place)
    if not run:
        return 1
    following = lexemes[place + len(run)].kind
    if run == ["PUBLIC", "KEY"] and following == "NUMBER":
        return 3  # the only name with a number in it
    if following == "=":
        return len(run)
    if "SECRET" in run[1:]:
        return run.index("SECRET", 1)
    length = longest_match(run, words.labels)
    if following in _LITERALS:
        begins_value = length and all(word in _BEFORE_LITERAL for word in run[length:])
        return length if begins_value else len(run)
    if length:
        return length
    bare_value = following in _AFTER_VALUE or run[-1] in _VALUE_WORDS
    return len(run) - 1 if bare_value and len(run) > 1 else len(run)


def _kind_length(parser: Ahead, lexemes: Sequence[Lexeme], place: int) -> int:
    """Return the number of words in a kind: the words before its follower, or of a known kind; 0 for no kind."""
    behind, run = parser.after("KIND"), _words(lexemes, place)
    assert behind is not None
    for end in range(len(run)):
        keyword, next_ = lexemes[place + end].keyword, lexemes[place + end + 1]
        if keyword in behind.row and (next_.kind == "END" or follows(behind, keyword, next_)):
            run = run[:end]
            break
    words = parser.words
    length = longest_match(run, words.words)
    following = lexemes[place + len(run)]
    if length and "LABEL" in behind.row and longest_match(run[length:], words.labels):
        return length  # options without brackets
    if "NAME" in behind.row:
        return length or (len(run) if following.kind == "QUOTED" else len(run) - 1) or 1
    whole = symbol(following) in behind.row  # the next symbol can follow a kind, so all these words are the kind
    return len(run) if whole or not length else length
