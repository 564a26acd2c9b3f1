"""Read the words and signs of a query, and list the words that are not names.

Also orders operators by their precedence, as in Postgres.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from sinkql.errors import SinkqlError, Span
from sinkql.parser.read.lexer import Lexeme

OPERATORS = frozenset((
    "=", "<>", "!=", "<", ">", "<=", ">=", "||", "->", "->>", "#>", "#>>", "@>", "<@", "?", "?|", "?&", "&", "|", "#",
    "<<", ">>", "~", "~*", "!~", "!~*", "~~", "~~*", "!~~", "!~~*", "^@", "&&", "@@", "@?", "#-", "+", "-", "*", "/",
    "%", "^", "&<", "&>", "-|-", "<->", "<<=", ">>=",
))  # fmt: skip
"""The operators of Postgres for types that SinkQL or its system catalogs have."""
CLAUSES = frozenset((
    "WITH", "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH",
    "OPTIONS", "RETURNING", "UNION", "EXCEPT", "INTERSECT",
))  # fmt: skip
RESERVED = CLAUSES | {
    "ALL", "AND", "ANY", "ARRAY", "AS", "ASC", "ASYMMETRIC", "BOTH", "CASE", "CAST", "COLLATE", "CROSS", "DESC",
    "DISTINCT", "ELSE", "END", "FALSE", "FOR", "FULL", "ILIKE", "IN", "INNER", "INTO", "IS", "ISNULL", "JOIN",
    "LATERAL", "LEADING", "LEFT", "LIKE", "NATURAL", "NOT", "NOTNULL", "NULL", "ON", "ONLY", "OR", "OUTER", "OVERLAPS",
    "PLACING", "RIGHT", "SIMILAR", "SOME", "SYMMETRIC", "TABLESAMPLE", "THEN", "TRAILING", "TRUE", "USING", "VARIADIC",
    "WHEN",
}  # fmt: skip
"""Words that are not names of columns, relations or functions without quotes."""
NO_LABELS = CLAUSES | {
    "ARRAY", "AS", "CHAR", "CHARACTER", "CREATE", "DAY", "FILTER", "FOR", "GRANT", "HOUR", "INTO", "ISNULL", "MINUTE",
    "MONTH", "NOTNULL", "ON", "OVER", "OVERLAPS", "PRECISION", "SECOND", "TO", "VARYING", "WITHIN", "WITHOUT", "YEAR",
}  # fmt: skip
"""Words that name a column only after AS."""


@dataclass(frozen=True, slots=True)
class Form:
    """One application of a rule: an operator by its sign or words, or "call", "cast", "case" or "label"."""

    kind: str
    start: int
    end: int


class MistakeError(Exception):
    """The text is not a query: the position where the grammar stops, and what was expected, if it is unambiguous."""

    def __init__(self, start: int, expected: str | None = None) -> None:
        super().__init__(expected or "unexpected")
        self.start = start
        self.expected = expected


class ForeignError(MistakeError):
    """The text has a form of another SQL dialect: the error for it, and its position in the query."""

    def __init__(self, error: SinkqlError, start: int) -> None:
        super().__init__(start)
        self.error = error


class TokenReader:
    """The reader of a query's words, with the forms read up to now."""

    def __init__(self, lexemes: list[Lexeme]) -> None:
        self.lexemes = lexemes
        self.place = 0
        self.forms: list[Form] = []
        for lexeme, following in pairwise(self.lexemes):
            if lexeme.kind == "NUMBER" and following.kind in ("WORD", "NUMBER") and lexeme.end == following.start:
                raise MistakeError(following.start)

    @property
    def next(self) -> Lexeme:
        return self.lexemes[self.place]

    def ahead(self, count: int = 1) -> Lexeme:
        """Return the word `count` words after the next one."""
        return self.lexemes[min(self.place + count, len(self.lexemes) - 1)]

    def at(self, *words: str) -> bool:
        """Return whether the next words or signs are these."""
        return all(_is(self.ahead(number), word) for number, word in enumerate(words))

    def at_any(self, *words: str) -> bool:
        """Return whether the next word or sign is one of these."""
        return any(_is(self.next, word) for word in words)

    def take(self, *words: str) -> bool:
        """Read these words or signs if they are next."""
        matches = self.at(*words)
        self.place += len(words) if matches else 0
        return matches

    def take_any(self, *words: str) -> str | None:
        """Read one of these words and return it, None if none is next."""
        match = next((word for word in words if _is(self.next, word)), None)
        self.place += match is not None
        return match

    def expect(self, *words: str) -> None:
        """Read these words or signs; raise MistakeError if others are next."""
        for word in words:
            if not self.take(word):
                raise self.mistake(word if word.isalpha() else f'"{word}"')

    def mistake(self, expected: str | None = None) -> MistakeError:
        return MistakeError(self.next.start, expected)

    def foreign(self, code: str, message: str, hint: str | None = None, *, length: int | None = None) -> ForeignError:
        """Return the error for a form of another SQL dialect at the next word."""
        start = self.next.start
        span = Span(start, self.next.end if length is None else start + length)
        return ForeignError(SinkqlError(code, message, span, hint=hint), start)

    def form(self, kind: str, start: int) -> None:
        """Record a form that ends before the next word."""
        self.forms.append(Form(kind, start, self.lexemes[self.place - 1].end))

    def named(self) -> bool:
        """Return whether the next word is a name."""
        return self.next.kind == "QUOTED" or (self.next.kind == "WORD" and self.next.keyword not in RESERVED)

    def name(self, expected: str = "a name") -> None:
        """Read a name."""
        if not self.named():
            raise self.mistake(expected)
        self.place += 1

    def any_name(self) -> None:
        """Read a name that may be any word, after AS or a dot."""
        if self.next.kind not in ("WORD", "QUOTED"):
            raise self.mistake("a name")
        self.place += 1

    def path(self, expected: str = "a name") -> None:
        """Read a name of one or more parts."""
        self.name(expected)
        while self.take("."):
            self.any_name()

    def list_of(self, read_item: Callable[[], object]) -> None:
        """Read one or more items, separated by commas."""
        read_item()
        while self.take(","):
            read_item()

    def names(self) -> None:
        """Read names in parentheses."""
        self.expect("(")
        self.list_of(self.name)
        self.expect(")")


def _is(lexeme: Lexeme, word: str) -> bool:
    return lexeme.keyword == word if word[0].isalpha() else lexeme.kind == word


OR, AND, NOT, IS, COMPARED, RANGE, OTHER, SUM, PRODUCT, POWER, AT, COLLATE, SIGNED = range(1, 14)
