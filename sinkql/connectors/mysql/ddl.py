"""The text of a statement in the log → which tables it empties, takes away, alters, or changes without rows in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

What = Literal["emptied", "dropped", "altered", "columns", "versioned", "unlogged", "database", "anything"]
"""`altered`: it has, or may have, another definition; `columns`: some are gone, or have another name; `unlogged`: rows
of it may be other ones, and the log has none of them; `database` and `anything`: all of a database are dropped, or may
have other rows.
"""

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
    columns: tuple[str, ...] = ()


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


def effects(text: str, database: str, *, strict: bool = True) -> list[Effect]:
    """Return what a statement that is logged as text does to rows.

    One that was not `strict` may have changed values that did not fit a column's new definition.
    """
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
            return list(_altered(reader, strict=strict))
        case "CREATE":
            return list(_created(reader))
        case "INSERT" | "REPLACE":
            reader.skip("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO")
            return list(_written([reader.name()]))
        case "UPDATE" | "LOAD" | "WITH":
            return list(_written(reader.names()))
        case "DELETE":
            return list(_deleted(reader))
        case "SELECT" | "DO":  # which call a function that changes rows, or would not be in the log
            return [Effect("anything", name, "") for name in sorted({database, *(each for each, _ in reader.names())})]
    return []


def _written(names: Iterable[tuple[str, str]]) -> Iterator[Effect]:
    """Yield the effects on tables that are named, and on those that views and triggers beside them may change."""
    found = list(names)
    yield from (Effect("unlogged", *name) for name in found)
    yield from (Effect("anything", database, "") for database in sorted({each for each, _ in found}))


def _deleted(reader: _Reader) -> Iterator[Effect]:
    """Yield the effects of DELETE; of all rows it is what the server says of tables in memory as it starts."""
    names = list(reader.names())
    if len(names) == 2 and names[0][1].upper() == "FROM":
        yield Effect("unlogged", *names[1])
    else:
        yield from _written(names)


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

    def skip_mark(self, mark: str) -> None:
        """Go over a mark, if it is there."""
        if self.mark() == mark:
            self.next()

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

    def clauses(self) -> Iterator[_Reader]:
        """Yield what is from here on, parted at the commas that are in no parentheses."""
        depth, clause = 0, list[_Token]()
        for token in self._tokens[self._at :]:
            mark = token.text if token.kind == "mark" else ""
            depth += (mark == "(") - (mark == ")")
            if mark == "," and not depth:
                yield _Reader(clause, self._database)
                clause = []
            else:
                clause.append(token)
        yield _Reader(clause, self._database)

    def has(self, *words: str) -> bool:
        """Tell whether one of some words comes from here on."""
        return any(each.word in words for each in self._tokens[self._at :])

    def engine(self, first: str) -> str:
        """Return the engine that options of a table name, of which the first word is read; empty where none does."""
        words = [first, *(each.text.upper() for each in self._tokens[self._at :] if each.text != "=")]
        place = words.index("ENGINE") if "ENGINE" in words else len(words)
        return words[place + 1] if place + 1 < len(words) else ""


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


def _altered(reader: _Reader, *, strict: bool) -> Iterator[Effect]:
    reader.skip("ONLINE", "IGNORE")
    if reader.word() != "TABLE":
        return
    reader.skip("TABLE", "IF", "EXISTS")
    table = reader.name()
    if reader.skip("WAIT"):
        reader.next()
    reader.skip("NOWAIT")
    yield Effect("altered", *table)
    columns: list[str] = []
    for clause in reader.clauses():
        first = clause.word()
        clause.next()
        match first:
            case "RENAME" if clause.skip("COLUMN"):
                clause.skip("IF", "EXISTS")
                columns.append(clause.name()[1])
            case "RENAME" if clause.word() not in ("INDEX", "KEY"):
                clause.skip("TO", "AS")
                clause.skip_mark("=")
                yield Effect("dropped", *table)
                yield Effect("dropped", *clause.name())
            case "DROP" if clause.word() not in _NO_COLUMN:
                clause.skip("COLUMN", "IF", "EXISTS")
                columns.append(clause.name()[1])
            case "CHANGE" | "MODIFY":
                clause.skip("COLUMN", "IF", "EXISTS")
                name = clause.name()[1]
                if first == "CHANGE" and clause.name()[1].lower() != name.lower():
                    columns.append(name)
                if not strict or clause.has("AS", "GENERATED"):
                    yield Effect("unlogged", *table)
            case "CONVERT" if clause.skip("TABLE"):  # which becomes a partition
                yield Effect("unlogged", *table)
                yield Effect("dropped", *clause.name())
            case "CONVERT" if clause.word() == "TO":
                if not strict:
                    yield Effect("unlogged", *table)
            case "EXCHANGE":
                yield from (Effect("unlogged", *name) for name in (table, *clause.names()))
            case "DROP" | "TRUNCATE" | "CONVERT" | "DISCARD" | "IMPORT":
                if clause.word() in ("PARTITION", "TABLESPACE"):
                    yield Effect("unlogged", *table)
            case "ADD":
                if clause.word() == "SYSTEM":
                    yield Effect("versioned", *table)
            case "ALTER":
                pass
            case _:
                if clause.engine(first) not in ("", "INNODB"):
                    yield Effect("unlogged", *table)
    if columns:
        yield Effect("columns", *table, tuple(columns))


_NO_COLUMN = frozenset({
    "PARTITION", "INDEX", "KEY", "PRIMARY", "FOREIGN", "CONSTRAINT", "CHECK", "SYSTEM", "PERIOD",
})  # fmt: skip
"""What ALTER TABLE … DROP is followed by where it drops something else."""


def _created(reader: _Reader) -> Iterator[Effect]:
    replaced = reader.skip("OR", "REPLACE")
    if reader.word() != "TABLE":
        return
    reader.skip("TABLE", "IF", "NOT", "EXISTS")
    name = reader.name()
    yield Effect("altered", *name)
    if replaced:
        yield Effect("emptied", *name)
