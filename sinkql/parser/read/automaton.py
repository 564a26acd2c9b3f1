"""Drive the grammar's tables with tokens: return the possible next tokens, and at the end the tree.

First use builds the tables from the files of the grammar, and caches them in a file for the next process.
"""

from __future__ import annotations

import contextlib
import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec

from sinkql.errors import Span
from sinkql.keywords import Keywords
from sinkql.local_path import cache_folder
from sinkql.machine import clock
from sinkql.parser.read import tables
from sinkql.parser.read.tables import Row, Rule, Tables
from sinkql.parser.read.tree import Node, Token
from sinkql.storage import files as storage_files

END = "$END"


class Ahead:
    """The parser's states after some tokens, without trees, which makes looking ahead cheap."""

    def __init__(self, tables: Tables, states: list[int], words: Keywords) -> None:
        self.words = words
        self._tables = tables
        self._states = states

    @property
    def row(self) -> Row:
        """Return the row of the state in the tables; the states below may still refuse some of its terminals."""
        return self._tables.states[self._states[-1]]

    def expected(self) -> frozenset[str]:
        """Return the terminals that are possible next."""
        return frozenset(terminal for terminal in self.row if terminal.isupper() and self.takes(terminal))

    def takes(self, *terminals: str) -> bool:
        """Return whether these terminals are possible next, in this order."""
        return self.after(*terminals) is not None

    def after(self, *terminals: str) -> Ahead | None:
        """Return the states after these terminals; None if they are not possible."""
        states, rows = list(self._states), self._tables.states
        for terminal in terminals:
            while True:
                action = rows[states[-1]].get(terminal)
                if action is None:
                    return None
                if action >= 0:
                    states.append(action)
                    break
                rule = self._tables.rules[~action]
                if rule.expansion:
                    del states[-len(rule.expansion) :]
                states.append(rows[states[-1]][rule.origin])
                if terminal == END and states[-1] == self._tables.end:
                    break
        return Ahead(self._tables, states, self.words)


class Automaton(Ahead):
    """Reads a statement's tokens one by one."""

    def __init__(self, tables: Tables, words: Keywords) -> None:
        super().__init__(tables, [tables.start], words)
        self._values: list[Node | Token] = []  # tokens, and the nodes built from them

    def feed(self, token: Token) -> Node | None:
        """Read a possible token; return the statement's tree at its end."""
        states, values, rows = self._states, self._values, self._tables.states
        while True:
            action = rows[states[-1]][token.type]
            if action >= 0:
                states.append(action)
                values.append(token)
                return None
            rule = self._tables.rules[~action]
            size = len(rule.expansion)
            first = len(values) - size
            reduced = _reduced(rule, values[first:])
            del values[first:], states[len(states) - size :]
            states.append(rows[states[-1]][rule.origin])
            values.append(reduced)
            if states[-1] == self._tables.end and token.type == END and isinstance(reduced, Node):
                return reduced


def _reduced(rule: Rule, values: list[Node | Token]) -> Node | Token:
    """Return the node or token of a rule, built from the values of its symbols."""
    children: list[Node | Token] = []
    for place, spread in rule.children:
        value = values[place]
        if not spread:
            children.append(value)
        elif isinstance(value, Node):
            if children:
                children += value.children
            else:
                children = value.children  # a long list is extended in place
    node = children[0] if rule.may_vanish and len(children) == 1 else Node(rule.data, children)
    if isinstance(node, Node):
        places = [place for place in map(_whole, values) if place is not None]
        if places:
            node.whole = Span(places[0].start, places[-1].end)
            node.place = node.place or node.whole
    return node


def _whole(value: Node | Token) -> Span | None:
    return value.span if isinstance(value, Token) else value.whole


_FORM = 1
"""Increases if the form or the contents of the cached tables change."""
_KEPT_SECONDS = 30 * 24 * 3600


def text() -> str:
    """Return the text of the grammar's files, in order of their names."""
    packaged = files("sinkql") / "grammar"
    folder = packaged if packaged.is_dir() else Path(str(files("sinkql"))).parent / "grammar"
    texts = sorted((file.name, file.read_text("utf-8")) for file in folder.iterdir() if file.name.endswith(".lark"))
    return "\n".join(text for _, text in texts)


@cache
def _tables() -> Tables:
    grammar = text()
    cache_path = _cache_file(grammar)
    # The file is missing, or damaged.
    with contextlib.suppress(OSError, ValueError, TypeError, msgspec.MsgspecError):
        return tables.from_json(cache_path.read_bytes())
    grammar_tables = tables.make(grammar)
    with contextlib.suppress(OSError):
        _keep(grammar_tables, cache_path)
    return grammar_tables


def _cache_file(grammar: str) -> Path:
    """Return the cache file of a grammar's tables, in the user's folder."""
    return cache_folder() / f"grammar-{_FORM}-{hashlib.sha256(grammar.encode()).hexdigest()[:16]}.json"


def _keep(grammar_tables: Tables, path: Path) -> None:
    """Write the tables for the next process, which loads them in a hundredth of the time."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for other in path.parent.glob("grammar-*"):
        if other.stat().st_mtime < clock.time() - _KEPT_SECONDS:
            other.unlink()
    storage_files.write_atomic(path, grammar_tables.to_json(), private=True, sync=False)


@cache
def symbols() -> dict[str, str]:
    """Return the name of the terminal for each symbol, as in `(` is LPAR."""
    return {sign: name for name, sign in _tables().terminals.items() if not sign.isalpha()}


@cache
def keywords() -> frozenset[str]:
    """Return all keywords, in upper case."""
    return frozenset(name for name, word in _tables().terminals.items() if word.isalpha())


@cache
def rules() -> dict[str, tuple[tuple[str, ...], ...]]:
    """Return the possible parts of each rule: names of rules in lower case, of terminals in upper case."""
    expansions: dict[str, list[tuple[str, ...]]] = {}
    for rule in _tables().rules:
        if not rule.origin.startswith("$"):
            expansions.setdefault(rule.origin, []).append(tuple(rule.expansion))
    return {name: tuple(expansions) for name, expansions in expansions.items()}


def start(words: Keywords) -> Automaton:
    """Return the parser before a statement; `words` has the words of connectors."""
    return Automaton(_tables(), words)
