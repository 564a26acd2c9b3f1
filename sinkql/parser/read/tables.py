"""Turn Lark's tables of a grammar into plain data, which the next process reads without Lark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

Row = Mapping[str, int]
"""The actions of a state by symbol: the next state, or `~n` to reduce rule n."""


class Rule(NamedTuple):
    """One expansion of a rule: its symbols, and which symbols stay in its node.

    `kept` has the indexes of the symbols that stay, and whether the node's children replace the node itself. A rule
    that may vanish makes no node around a single child.
    """

    origin: str
    expansion: Sequence[str]
    data: str
    may_vanish: bool
    kept: Sequence[tuple[int, bool]]


@dataclass(frozen=True, slots=True)
class Tables:
    """The states of the parser; `terminals` has the text of each terminal."""

    states: tuple[Row, ...]
    rules: tuple[Rule, ...]
    terminals: Mapping[str, str]
    start: int
    end: int

    def to_json(self) -> bytes:
        return msgspec.json.encode([self.states, self.rules, self.terminals, self.start, self.end])


def from_json(data: bytes) -> Tables:
    """Return the tables of `to_json`. Raises MsgspecError, ValueError or TypeError for other data."""
    states, rules, terminals, start, end = msgspec.json.decode(data)
    return Tables(tuple(states), tuple(map(Rule._make, rules)), terminals, start, end)


def make(text: str) -> Tables:
    """Return the tables of a grammar; this takes one or two seconds."""
    from lark import Lark  # only in the first process of this user
    from lark.lexer import Lexer
    from lark.parsers.lalr_analysis import Shift

    class Unused(Lexer):
        """A placeholder for Lark's lexer: tokens come from outside, one at a time."""

        def __init__(self, lexer_conf: Any) -> None:  # a class of Lark that it does not export
            pass

        def lex(self, lexer_state: Any, parser_state: Any) -> Iterator[Any]:
            return iter(())

    whole = Lark(text, parser="lalr", lexer=Unused, maybe_placeholders=False)
    conf = whole.parse_interactive().parser_state.parse_conf
    numbers = {rule: number for number, rule in enumerate(whole.rules)}
    for row in conf.states.values():
        for action, to in row.values():
            if action is not Shift:
                numbers.setdefault(to, len(numbers))
    order = {state: place for place, state in enumerate(conf.states)}
    states = tuple(
        {
            str(symbol): order[to] if action is Shift else ~numbers[to]
            for symbol, (action, to) in row.items()
            if action is not Shift or to in order
        }
        for row in conf.states.values()
    )
    terminals = {terminal.name: terminal.pattern.value for terminal in whole.terminals}
    return Tables(states, tuple(map(_rule, numbers)), terminals, order[conf.start_state], order[conf.end_state])


def _rule(rule: Any) -> Rule:
    """Return a rule of Lark; the same parts stay in the tree as with Lark."""
    options = rule.options
    kept = tuple(
        (place, not symbol.is_term and symbol.name.startswith("_"))
        for place, symbol in enumerate(rule.expansion)
        if options.keep_all_tokens or not (symbol.is_term and symbol.filter_out)
    )
    name = rule.alias or options.template_source or rule.origin.name
    symbols = tuple(str(symbol.name) for symbol in rule.expansion)
    return Rule(str(rule.origin.name), symbols, str(name), bool(options.expand1 and not rule.alias), kept)
