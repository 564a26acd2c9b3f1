"""The files of the grammar → Lark's tables, made at first use and kept in a file for the next process."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import sys
import time
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import lark
from lark import Lark
from lark.lexer import Lexer, Token
from lark.parsers.lalr_parser_state import ParseConf

from sinkql import durable
from sinkql.parser.read.automaton import Automaton
from sinkql.vocabulary import Vocabulary

_KEPT_SECONDS = 30 * 24 * 3600


class _Unused(Lexer):
    """Stand where Lark wants a lexer: the tokens come from outside, one at a time."""

    def __init__(self, lexer_conf: Any) -> None:  # Lark's own class, which it does not export
        pass

    def lex(self, lexer_state: Any, parser_state: Any) -> Iterator[Token]:
        return iter(())


def text() -> str:
    """Return the text of the grammar's files, in order of their names."""
    packaged = files("sinkql") / "grammar"
    folder = packaged if packaged.is_dir() else Path(str(files("sinkql"))).parent / "grammar"
    texts = sorted((file.name, file.read_text("utf-8")) for file in folder.iterdir() if file.name.endswith(".lark"))
    return "\n".join(text for _, text in texts)


@cache
def _lark() -> Lark:
    given = text()
    kept = _kept(given)
    with contextlib.suppress(Exception), kept.open("rb") as file:
        return Lark.load(file)
    # it is not there, or not what was written
    made = Lark(given, parser="lalr", lexer=_Unused, propagate_positions=True, maybe_placeholders=False)
    with contextlib.suppress(OSError):
        _keep(made, kept)
    return made


def _kept(given: str) -> Path:
    """Return the file of the tables of a grammar: in the user's own folder, since loading it runs what is in it."""
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    made_by = f"{lark.__version__} {sys.version_info[:2]} {given}"
    return Path(caches) / "sinkql" / f"grammar-{hashlib.sha256(made_by.encode()).hexdigest()[:16]}"


def _keep(made: Lark, kept: Path) -> None:
    """Write the tables for the next process, which loads them in a tenth of the time."""
    if not kept.is_absolute():  # a user without a home
        return
    kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for other in kept.parent.glob("grammar-*"):
        if other.stat().st_mtime < time.time() - _KEPT_SECONDS:
            other.unlink()
    tables = io.BytesIO()
    made.save(tables)
    durable.write(kept, tables.getvalue(), private=True, sync=False)


@cache
def _conf() -> ParseConf[Any]:
    return _lark().parse_interactive().parser_state.parse_conf


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


@cache
def rules() -> dict[str, tuple[tuple[str, ...], ...]]:
    """Return what each rule may be made of: the names of rules, in lower case, and of terminals, in upper case."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for rule in _lark().rules:
        found.setdefault(str(rule.origin.name), []).append(tuple(symbol.name for symbol in rule.expansion))
    return {name: tuple(expansions) for name, expansions in found.items()}


def start(vocabulary: Vocabulary) -> Automaton:
    """Return what stands before a statement; `vocabulary` tells the words of connectors."""
    return Automaton(_conf(), vocabulary)
