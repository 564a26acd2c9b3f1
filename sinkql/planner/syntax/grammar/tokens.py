"""Words and signs of a query, one after the other; which words are no names, and where.

How closely operators bind, in the order of Postgres.
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
"""The operators that Postgres has for types that are known here or in its catalogs."""
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
"""Words that are no names of columns, relations and functions unless they stand in quotes."""
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
    """The text is not a query: where its grammar stops, and what was expected there, if that is one thing."""

    def __init__(self, start: int, expected: str | None = None) -> None:
        super().__init__(expected or "unexpected")
        self.start = start
        self.expected = expected


class ForeignError(MistakeError):
    """The text has a form that is another SQL's: the error that says so, its place within the query."""

    def __init__(self, error: SinkqlError, start: int) -> None:
        super().__init__(start)
        self.error = error


class TokenReader:
    """The words of a query, the next of which is looked at and taken; and the forms that were found so far."""

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
        """Return the word behind the next one, or one further behind."""
        return self.lexemes[min(self.place + count, len(self.lexemes) - 1)]

    def at(self, *words: str) -> bool:
        """Tell whether the next words or signs are these."""
        return all(_is(self.ahead(number), word) for number, word in enumerate(words))

    def at_any(self, *words: str) -> bool:
        """Tell whether the next word or sign is one of these."""
        return any(_is(self.next, word) for word in words)

    def take(self, *words: str) -> bool:
        """Go past these words or signs if they are next."""
        found = self.at(*words)
        self.place += len(words) if found else 0
        return found

    def take_any(self, *words: str) -> str | None:
        """Go past one of these words, and return which."""
        found = next((word for word in words if _is(self.next, word)), None)
        self.place += found is not None
        return found

    def expect(self, *words: str) -> None:
        """Go past these words or signs; raises MistakeError if something else is next."""
        for word in words:
            if not self.take(word):
                raise self.mistake(word if word.isalpha() else f'"{word}"')

    def mistake(self, expected: str | None = None) -> MistakeError:
        return MistakeError(self.next.start, expected)

    def foreign(self, code: str, message: str, hint: str | None = None, *, length: int | None = None) -> ForeignError:
        """Return the error for a form of another SQL that is next."""
        start = self.next.start
        span = Span(start, self.next.end if length is None else start + length)
        return ForeignError(SinkqlError(code, message, span, hint=hint), start)

    def form(self, kind: str, start: int) -> None:
        """Note a form that ends before the next word."""
        self.forms.append(Form(kind, start, self.lexemes[self.place - 1].end))

    def named(self) -> bool:
        """Tell whether the next word is a name of its own."""
        return self.next.kind == "QUOTED" or (self.next.kind == "WORD" and self.next.keyword not in RESERVED)

    def name(self, expected: str = "a name") -> None:
        """Go past a name."""
        if not self.named():
            raise self.mistake(expected)
        self.place += 1

    def any_name(self) -> None:
        """Go past a name that may be any word: behind AS, or behind a dot."""
        if self.next.kind not in ("WORD", "QUOTED"):
            raise self.mistake("a name")
        self.place += 1

    def path(self, expected: str = "a name") -> None:
        """Go past a name of one or more parts."""
        self.name(expected)
        while self.take("."):
            self.any_name()

    def list_of(self, each: Callable[[], object]) -> None:
        """Go past one or more of something with commas between them."""
        each()
        while self.take(","):
            each()

    def names(self) -> None:
        """Go past names in parentheses."""
        self.expect("(")
        self.list_of(self.name)
        self.expect(")")


def _is(lexeme: Lexeme, word: str) -> bool:
    return lexeme.keyword == word if word[0].isalpha() else lexeme.kind == word


OR, AND, NOT, IS, COMPARED, RANGE, OTHER, SUM, PRODUCT, POWER, AT, COLLATE, SIGNED = range(1, 14)
