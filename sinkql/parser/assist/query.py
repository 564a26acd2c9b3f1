"""A query up to the cursor → what may stand there; the parser of queries is another one, so this goes by clauses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sinkql import keywords
from sinkql.errors import SinkqlError
from sinkql.parser.assist.name import NameKind
from sinkql.parser.read import lexer
from sinkql.parser.read.lexer import Lexeme

_BEFORE_RELATION = frozenset({"FROM", "JOIN"})
_CLAUSES = frozenset(
    {"SELECT", "FROM", "JOIN", "ON", "USING", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "WITH", "VALUES"}
)
_AFTER_RELATION = (
    "AS", "CROSS JOIN", "FULL JOIN", "GROUP BY", "HAVING", "JOIN", "LEFT JOIN", "LIMIT", "ON", "ORDER BY", "RIGHT JOIN",
    "UNION", "UNION ALL", "USING", "WHERE",
)  # fmt: skip
_IN_EXPRESSION = (
    "ALL", "AND", "AS", "ASC", "BETWEEN", "CASE", "CAST", "DESC", "DISTINCT", "ELSE", "END", "EXISTS", "FALSE",
    "FILTER", "FROM", "GROUP BY", "HAVING", "ILIKE", "IN", "INTERVAL", "IS", "IS NOT NULL", "IS NULL", "LIKE", "LIMIT",
    "NOT", "NULL", "NULLS FIRST", "NULLS LAST", "OFFSET", "OR", "ORDER BY", "OVER", "PARTITION BY", "SELECT", "THEN",
    "TRUE", "UNION", "UNION ALL", "WHEN", "WHERE",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class InQuery:
    """What may stand at a place in a query; `qualifier` is the name before a dot."""

    keywords: tuple[str, ...]
    kinds: tuple[NameKind, ...]
    qualifier: str | None = None


def within_query(lexemes: Sequence[Lexeme], *, whole: bool) -> InQuery:
    """Return what may stand behind the lexemes; `whole` is false for an expression, which has no clauses."""
    last = lexemes[-1] if lexemes else None
    clause = _clause(lexemes)
    in_from = whole and clause in _BEFORE_RELATION
    if last is not None and last.kind == ".":
        before = lexemes[-2] if len(lexemes) > 1 else None
        qualifier = before.value if before is not None and before.kind in ("WORD", "QUOTED") else None
        return InQuery((), ("RELATION",) if in_from else ("COLUMN",), qualifier)
    if in_from and last is not None:
        wants = last.keyword in _BEFORE_RELATION or last.kind in (",", "(")
        return InQuery(("SELECT",), ("RELATION",)) if wants else InQuery(_AFTER_RELATION, ())
    if last is not None and last.keyword in ("GROUP", "ORDER", "PARTITION"):
        return InQuery(("BY",), ())
    if last is not None and last.keyword == "AS":
        return InQuery((), ())
    return InQuery(_IN_EXPRESSION, ("COLUMN", "FUNCTION"))


def _clause(lexemes: Sequence[Lexeme]) -> str:
    """Return the clause that the end of the lexemes lies in; one in brackets that are closed does not count."""
    depth = 0
    for lexeme in reversed(lexemes):
        if lexeme.kind == ")":
            depth += 1
        elif lexeme.kind == "(":
            depth = max(0, depth - 1)
        elif depth == 0 and lexeme.keyword in _CLAUSES:
            return lexeme.keyword
    return "SELECT"


def relations_of(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the names, as written, and aliases of the relations that a query reads, up to its semicolon."""
    lexemes: list[Lexeme] = []
    try:
        for lexeme in lexer.scan(text):
            if lexeme.kind == ";":
                break
            lexemes.append(lexeme)
    except SinkqlError:
        pass  # what came before is enough
    place = 0
    while place < len(lexemes):
        place += 1
        if lexemes[place - 1].keyword in _BEFORE_RELATION:
            while True:
                name, alias, place = _relation(lexemes, place)
                if name:
                    yield name, alias
                if place >= len(lexemes) or lexemes[place].kind != "," or not name:
                    break
                place += 1


def _relation(lexemes: Sequence[Lexeme], place: int) -> tuple[str, str | None, int]:
    """Return the name at `place`, its alias, and the place behind them."""
    parts = []
    while place < len(lexemes) and _names(lexemes[place]):
        parts.append(lexemes[place].text)
        place += 1
        if place >= len(lexemes) or lexemes[place].kind != ".":
            break
        place += 1
    if place < len(lexemes) and lexemes[place].keyword == "AS":
        place += 1
    alias = None
    if parts and place < len(lexemes) and _names(lexemes[place]):
        alias = lexemes[place].value
        place += 1
    return ".".join(parts), alias, place


def _names(lexeme: Lexeme) -> bool:
    return lexeme.kind == "QUOTED" or (lexeme.kind == "WORD" and lexeme.keyword not in keywords.QUERY)
