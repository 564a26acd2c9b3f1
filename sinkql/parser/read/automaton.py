"""The grammar's tables and the tokens so far → what may stand next, and at last the tree."""

from __future__ import annotations

from sinkql.errors import Span
from sinkql.keywords import Keywords
from sinkql.parser.read.tables import Row, Rule, Tables
from sinkql.parser.read.tree import Node, Token

END = "$END"


class Ahead:
    """The parser's states after some tokens, without their trees: looking ahead costs little."""

    def __init__(self, tables: Tables, states: list[int], vocabulary: Keywords) -> None:
        self.vocabulary = vocabulary
        self._tables = tables
        self._states = states

    @property
    def row(self) -> Row:
        """Return what the tables list for the state; what lies below it may still refuse some of that."""
        return self._tables.states[self._states[-1]]

    def expected(self) -> frozenset[str]:
        """Return the terminals that may stand next."""
        return frozenset(each for each in self.row if each.isupper() and self.takes(each))

    def takes(self, *terminals: str) -> bool:
        """Say whether these terminals may stand next, one after the other."""
        return self.after(*terminals) is not None

    def after(self, *terminals: str) -> Ahead | None:
        """Return what stands behind these terminals; None where they may not stand."""
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
        return Ahead(self._tables, states, self.vocabulary)


class Automaton(Ahead):
    """Read a statement's tokens one by one."""

    def __init__(self, tables: Tables, vocabulary: Keywords) -> None:
        super().__init__(tables, [tables.start], vocabulary)
        self._values: list[Node | Token] = []  # tokens, and the nodes that they were made into

    def feed(self, token: Token) -> Node | None:
        """Read a token that may stand next; return the statement's tree when that is the end."""
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
            made = _made(rule, values[first:])
            del values[first:], states[len(states) - size :]
            states.append(rows[states[-1]][rule.origin])
            values.append(made)
            if states[-1] == self._tables.end and token.type == END:
                assert isinstance(made, Node)
                return made


def _made(rule: Rule, values: list[Node | Token]) -> Node | Token:
    """Return what a rule is read as, of what its symbols were read as."""
    children: list[Node | Token] = []
    for place, spread in rule.kept:
        value = values[place]
        if not spread:
            children.append(value)
        elif isinstance(value, Node):
            if children:
                children += value.children
            else:
                children = value.children  # a long list grows in place
    made = children[0] if rule.may_vanish and len(children) == 1 else Node(rule.data, children)
    if isinstance(made, Node):
        places = [place for place in map(_whole, values) if place is not None]
        if places:
            made.whole = Span(places[0].start, places[-1].end)
            made.place = made.place or made.whole
    return made


def _whole(value: Node | Token) -> Span | None:
    return value.span if isinstance(value, Token) else value.whole
