"""Lark's tables and the tokens so far → what may stand next, and at last the tree."""

from __future__ import annotations

from typing import Any

from lark import Token, Tree
from lark.parsers.lalr_analysis import Shift
from lark.parsers.lalr_parser_state import ParseConf

from sinkql.vocabulary import Vocabulary

END = "$END"

_Row = dict[str, tuple[Any, Any]]


class Ahead:
    """The parser's states after some tokens, without their trees: looking ahead costs little."""

    def __init__(self, table: ParseConf[Any], states: list[Any], vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._table = table.states
        self._conf = table
        self._states = states

    @property
    def row(self) -> _Row:
        """Return what the tables list for the state; what lies below it may still refuse some of that."""
        return self._table[self._states[-1]]

    def expected(self) -> frozenset[str]:
        """Return the terminals that may stand next."""
        return frozenset(each for each in self.row if each.isupper() and self.takes(each))

    def takes(self, *terminals: str) -> bool:
        """Say whether these terminals may stand next, one after the other."""
        return self.after(*terminals) is not None

    def after(self, *terminals: str) -> Ahead | None:
        """Return what stands behind these terminals; None where they may not stand."""
        states = list(self._states)
        for terminal in terminals:
            while True:
                action, to = self._table[states[-1]].get(terminal, (None, None))
                if action is None:
                    return None
                if action is Shift:
                    states.append(to)
                    break
                if to.expansion:
                    del states[-len(to.expansion) :]
                states.append(self._table[states[-1]][to.origin.name][1])
                if terminal == END and states[-1] == self._conf.end_state:
                    break
        return Ahead(self._conf, states, self.vocabulary)


class Automaton(Ahead):
    """Read a statement's tokens one by one."""

    def __init__(self, conf: ParseConf[Any], vocabulary: Vocabulary) -> None:
        super().__init__(conf, [conf.start_state], vocabulary)
        self._values: list[Any] = []  # tokens, and the trees that they were made into

    def feed(self, token: Token) -> Tree[Token] | None:
        """Read a token that may stand next; return the statement's tree when that is the end."""
        states, values = self._states, self._values
        while True:
            action, to = self._table[states[-1]][token.type]
            if action is Shift:
                states.append(to)
                values.append(token)
                return None
            size = len(to.expansion)
            first = len(values) - size
            made = self._conf.callbacks[to](values[first:])
            del values[first:], states[len(states) - size :]
            states.append(self._table[states[-1]][to.origin.name][1])
            values.append(made)
            if states[-1] == self._conf.end_state and token.type == END:
                assert isinstance(made, Tree)
                return made
