"""The text of a statement in the log → which tables it empties, takes away, or changes without rows in the log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

What = Literal["emptied", "dropped", "unlogged", "database"]

_TOKEN = re.compile(
    r"""
    \s+ | --[\s][^\n]*(?:\n|$) | \#[^\n]*(?:\n|$) | /\*(?![!M])(?:[^*]|\*(?!/))*\*/ | /\*M?!\d* | \*/
    | (?P<quoted>`(?:[^`]|``)*`) | (?P<double>"(?:[^"\\]|""|\\.)*") | (?P<text>'(?:[^'\\]|''|\\.)*')
    | (?P<word>[\w$\x80-\U0010ffff]+) | (?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Effect:
    """What a statement does to a table, by database and name; to all of a database where the name is empty."""

    what: What
    database: str
    table: str


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str

    @property
    def word(self) -> str:
        """The upper-case word that it is; empty for anything else."""
        return self.text.upper() if self.kind == "word" else ""


def _tokens(text: str) -> list[_Token]:
    found = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "quoted":
            found.append(_Token("name", match[0][1:-1].replace("``", "`")))
        elif kind == "double":
            found.append(_Token("name", match[0][1:-1].replace('""', '"')))
        elif kind is not None:
            found.append(_Token(kind, match[0]))
    return found


def control(text: str) -> str:
    """Return the first two words of a statement, in upper case: enough for BEGIN, COMMIT, ROLLBACK TO, XA START."""
    return " ".join(each.word for each in _tokens(text[:200])[:2]).strip()


def savepoint(text: str) -> str:
    """Return the name in SAVEPOINT name and ROLLBACK TO [SAVEPOINT] name."""
    return _tokens(text)[-1].text


def effects(text: str, database: str) -> list[Effect]:
    """Return what a statement that is logged as text does to rows; nothing for those that only change a definition."""
    reader = _Reader(_tokens(text), database)
    first = reader.word()
    reader.next()
    if first == "SET" and reader.word() == "STATEMENT":
        while not reader.done() and reader.word() != "FOR":
            reader.next()
        reader.next()
        first = reader.word()
        reader.next()
    match first:
        case "TRUNCATE":
            reader.skip("TABLE")
            return [Effect("emptied", *reader.name())]
        case "DROP":
            return list(_dropped(reader))
        case "RENAME":
            return [Effect("dropped", *name) for name in _renamed(reader)]
        case "ALTER":
            return list(_altered(reader))
        case "CREATE":
            return list(_created(reader))
        case "INSERT" | "REPLACE":
            reader.skip("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO")
            return [Effect("unlogged", *reader.name())]
        case "UPDATE" | "DELETE" | "LOAD" | "WITH":
            return [Effect("unlogged", *name) for name in reader.names()]
    return []


class _Reader:
    """Tokens, and how far they are read."""

    def __init__(self, tokens: list[_Token], database: str) -> None:
        self._tokens = tokens
        self._database = database
        self._at = 0

    def word(self) -> str:
        return self._tokens[self._at].word if self._at < len(self._tokens) else ""

    def mark(self) -> str:
        token = self._tokens[self._at] if self._at < len(self._tokens) else _Token("mark", "")
        return token.text if token.kind == "mark" else ""

    def done(self) -> bool:
        return self._at >= len(self._tokens)

    def next(self) -> None:
        self._at += 1

    def skip(self, *words: str) -> bool:
        """Go over some words, wherever they come; tell whether there was one."""
        before = self._at
        while self.word() in words:
            self.next()
        return self._at > before

    def name(self) -> tuple[str, str]:
        """Return the name of a table here, with its database."""
        first = self._part()
        if self.mark() != ".":
            return self._database, first
        self.next()
        return first, self._part()

    def _part(self) -> str:
        if self.done():
            return ""
        token = self._tokens[self._at]
        self.next()
        return token.text

    def names(self) -> Iterator[tuple[str, str]]:
        """Yield whatever may be the name of a table from here on."""
        while not self.done():
            if self._tokens[self._at].kind in ("word", "name"):
                yield self.name()
            else:
                self.next()


def _dropped(reader: _Reader) -> Iterator[Effect]:
    if reader.word() in ("DATABASE", "SCHEMA"):
        reader.skip("DATABASE", "SCHEMA", "IF", "EXISTS")
        yield Effect("database", reader.name()[1], "")
        return
    if reader.word() not in ("TABLE", "TABLES"):
        return
    reader.skip("TABLE", "TABLES", "IF", "EXISTS")
    yield Effect("dropped", *reader.name())
    while reader.mark() == ",":
        reader.next()
        yield Effect("dropped", *reader.name())


def _renamed(reader: _Reader) -> Iterator[tuple[str, str]]:
    if reader.word() not in ("TABLE", "TABLES"):
        return
    reader.skip("TABLE", "TABLES", "IF", "EXISTS")
    yield from reader.names()


def _altered(reader: _Reader) -> Iterator[Effect]:
    reader.skip("ONLINE", "IGNORE")
    if reader.word() != "TABLE":
        return
    reader.skip("TABLE", "IF", "EXISTS")
    table = reader.name()
    while not reader.done():
        word = reader.word()
        reader.next()
        following = reader.word()
        if word == "RENAME" and following not in ("COLUMN", "INDEX", "KEY"):
            yield Effect("dropped", *table)
            reader.skip("TO", "AS")
            if reader.mark() == "=":
                reader.next()
            yield Effect("dropped", *reader.name())
        elif word in ("DROP", "TRUNCATE", "EXCHANGE", "CONVERT", "DISCARD", "IMPORT") and following in (
            "PARTITION",
            "TABLESPACE",
        ):
            yield Effect("unlogged", *table)
            if word == "EXCHANGE":
                yield from (Effect("unlogged", *name) for name in reader.names())
        elif word == "ENGINE":
            if reader.mark() == "=":
                reader.next()
            if reader.word() != "INNODB":
                yield Effect("unlogged", *table)


def _created(reader: _Reader) -> Iterator[Effect]:
    if reader.word() != "OR":
        return
    reader.skip("OR", "REPLACE")
    if reader.word() == "TABLE":
        reader.next()
        yield Effect("emptied", *reader.name())
