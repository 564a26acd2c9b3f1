"""Parse a statement of the log and return its effects on tables: emptied, dropped, altered or changed without rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

What = Literal["emptied", "dropped", "altered", "columns", "versioned", "unlogged", "database", "anything"]
"""`altered`: the definition changed, or may have. `columns`: columns were dropped or renamed. `unlogged`: rows may have
changed, and the log has none of them. `database`: the whole database was dropped. `anything`: any row of the
database may have changed.
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
    """The effect of a statement on a table, by database and name; an empty name means the whole database."""

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
        """The word in upper case; empty for other tokens."""
        return self.text.upper() if self.kind == "word" else ""


def _tokenize(text: str) -> list[_Token]:
    tokens = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "quoted":
            tokens.append(_Token("name", match[0][1:-1].replace("``", "`")))
        elif kind == "double":
            tokens.append(_Token("name", match[0][1:-1].replace('""', '"')))
        elif kind is not None:
            tokens.append(_Token(kind, match[0]))
    return tokens


def control(text: str) -> str:
    """Return the first two words of a statement in upper case, as in BEGIN, COMMIT, ROLLBACK TO and XA START."""
    return " ".join(token.word for token in _tokenize(text[:200])[:2]).strip()


def savepoint(text: str) -> str:
    """Return the name in SAVEPOINT name and ROLLBACK TO [SAVEPOINT] name."""
    return _tokenize(text)[-1].text


def effects(text: str, database: str, *, strict: bool = True) -> list[Effect]:
    """Return the effects of a statement that is logged as text.

    A statement that was not `strict` may have changed values that did not fit a column's new definition.
    """
    reader = _Reader(_tokenize(text), database)
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
            return list(_drop_effects(reader))
        case "RENAME":
            return [Effect("dropped", *name) for name in _renamed_tables(reader)]
        case "ALTER":
            return list(_alter_effects(reader, strict=strict))
        case "CREATE":
            return list(_create_effects(reader))
        case "INSERT" | "REPLACE":
            reader.skip("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO")
            return list(_written_effects([reader.name()]))
        case "UPDATE" | "LOAD" | "WITH":
            return list(_written_effects(reader.names()))
        case "DELETE":
            return list(_delete_effects(reader))
        case "SELECT" | "DO":  # logged only if it calls a function that changes rows
            return [
                Effect("anything", name, "") for name in sorted({database, *(schema for schema, _ in reader.names())})
            ]
    return []


def _written_effects(names: Iterable[tuple[str, str]]) -> Iterator[Effect]:
    """Yield the effects on the named tables, and on tables that views and triggers of their databases may change."""
    tables = list(names)
    yield from (Effect("unlogged", *name) for name in tables)
    yield from (Effect("anything", database, "") for database in sorted({schema for schema, _ in tables}))


def _delete_effects(reader: _Reader) -> Iterator[Effect]:
    """Yield the effects of DELETE. The server logs a DELETE of all rows for MEMORY tables when it starts."""
    names = list(reader.names())
    if len(names) == 2 and names[0][1].upper() == "FROM":
        yield Effect("unlogged", *names[1])
    else:
        yield from _written_effects(names)


class _Reader:
    """A cursor over tokens."""

    def __init__(self, tokens: list[_Token], database: str) -> None:
        self._tokenize = tokens
        self._database = database
        self._at = 0

    def word(self) -> str:
        return self._tokenize[self._at].word if self._at < len(self._tokenize) else ""

    def mark(self) -> str:
        token = self._tokenize[self._at] if self._at < len(self._tokenize) else _Token("mark", "")
        return token.text if token.kind == "mark" else ""

    def done(self) -> bool:
        return self._at >= len(self._tokenize)

    def next(self) -> None:
        self._at += 1

    def skip(self, *words: str) -> bool:
        """Skip the words wherever they occur next; return whether there were any."""
        before = self._at
        while self.word() in words:
            self.next()
        return self._at > before

    def skip_mark(self, mark: str) -> None:
        """Skip a mark if it is next."""
        if self.mark() == mark:
            self.next()

    def name(self) -> tuple[str, str]:
        """Read the name of a table, and return it with its database."""
        first = self._part()
        if self.mark() != ".":
            return self._database, first
        self.next()
        return first, self._part()

    def _part(self) -> str:
        if self.done():
            return ""
        token = self._tokenize[self._at]
        self.next()
        return token.text

    def names(self) -> Iterator[tuple[str, str]]:
        """Yield all names from here on that may be tables."""
        while not self.done():
            if self._tokenize[self._at].kind in ("word", "name"):
                yield self.name()
            else:
                self.next()

    def clauses(self) -> Iterator[_Reader]:
        """Yield the remaining clauses, split at commas outside parentheses."""
        depth, clause = 0, list[_Token]()
        for token in self._tokenize[self._at :]:
            mark = token.text if token.kind == "mark" else ""
            depth += (mark == "(") - (mark == ")")
            if mark == "," and not depth:
                yield _Reader(clause, self._database)
                clause = []
            else:
                clause.append(token)
        yield _Reader(clause, self._database)

    def has(self, *words: str) -> bool:
        """Return whether any of the words remains."""
        return any(token.word in words for token in self._tokenize[self._at :])

    def engine(self, first: str) -> str:
        """Return the engine in table options whose first word was read; empty without an engine."""
        words = [first, *(token.text.upper() for token in self._tokenize[self._at :] if token.text != "=")]
        place = words.index("ENGINE") if "ENGINE" in words else len(words)
        return words[place + 1] if place + 1 < len(words) else ""


def _drop_effects(reader: _Reader) -> Iterator[Effect]:
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


def _renamed_tables(reader: _Reader) -> Iterator[tuple[str, str]]:
    if reader.word() not in ("TABLE", "TABLES"):
        return
    reader.skip("TABLE", "TABLES", "IF", "EXISTS")
    yield from reader.names()


def _alter_effects(reader: _Reader, *, strict: bool) -> Iterator[Effect]:
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
            case "CONVERT" if clause.skip("TABLE"):  # the table becomes a partition
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
"""Words after ALTER TABLE … DROP that do not introduce a column."""


def _create_effects(reader: _Reader) -> Iterator[Effect]:
    replaced = reader.skip("OR", "REPLACE")
    if reader.word() != "TABLE":
        return
    reader.skip("TABLE", "IF", "NOT", "EXISTS")
    name = reader.name()
    yield Effect("altered", *name)
    if replaced:
        yield Effect("emptied", *name)
