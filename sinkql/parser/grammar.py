"""The files of the grammar → Lark's tables, built once a process and at first use."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from lark import Lark
from lark.lexer import Lexer, Token

from sinkql.parser.automaton import Automaton


class _Unused(Lexer):
    """Stand where Lark wants a lexer: the tokens come from outside, one at a time."""

    def __init__(self, lexer_conf: Any) -> None:  # Lark's own class, which it does not export
        pass

    def lex(self, lexer_state: Any, parser_state: Any) -> Iterator[Token]:
        return iter(())


def text() -> str:
    """Return the text of the grammar's files, in order of their names."""
    packaged = files("sinkql") / "grammar"
    folder = packaged if packaged.is_dir() else Path(__file__).parents[2] / "grammar"
    texts = sorted((file.name, file.read_text("utf-8")) for file in folder.iterdir() if file.name.endswith(".lark"))
    return "\n".join(text for _, text in texts)


@cache
def _lark() -> Lark:
    return Lark(
        text(),
        parser="lalr",
        lexer=_Unused,
        propagate_positions=True,
        maybe_placeholders=False,
    )


@cache
def symbols() -> dict[str, str]:
    """Return the name of the terminal for each symbol, as in `(` is LPAR."""
    return {
        terminal.pattern.value: terminal.name for terminal in _lark().terminals if not terminal.pattern.value.isalpha()
    }


@cache
def keywords() -> frozenset[str]:
    """Return all keywords, in upper case."""
    return frozenset(terminal.name for terminal in _lark().terminals if terminal.pattern.value.isalpha())


def start() -> Automaton:
    """Return what stands before a statement."""
    return Automaton(_lark().parse_interactive().parser_state.parse_conf)
