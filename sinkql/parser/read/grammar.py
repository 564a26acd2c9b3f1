"""The files of the grammar → Lark's tables, made at first use and kept in a file for the next process."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pickle
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lexer import Lexer, TerminalDef, Token
from lark.parsers.lalr_analysis import Reduce, Shift
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


@dataclass(frozen=True, slots=True)
class _Tables:
    """What is asked of Lark; as one value they load in a third of the time that Lark's own file takes."""

    conf: ParseConf[Any]
    terminals: tuple[TerminalDef, ...]
    rules: tuple[Rule, ...]


class _Pickler(pickle.Pickler):
    """Keep Lark's two actions the objects that they are: it asks which one an action is."""

    def reducer_override(self, value: object) -> Any:
        if value is Shift:
            return "Shift"
        return "Reduce" if value is Reduce else NotImplemented


def text() -> str:
    """Return the text of the grammar's files, in order of their names."""
    packaged = files("sinkql") / "grammar"
    folder = packaged if packaged.is_dir() else Path(str(files("sinkql"))).parent / "grammar"
    texts = sorted((file.name, file.read_text("utf-8")) for file in folder.iterdir() if file.name.endswith(".lark"))
    return "\n".join(text for _, text in texts)


@cache
def _tables() -> _Tables:
    given = text()
    kept = _kept(given)
    with contextlib.suppress(Exception):
        found = pickle.loads(kept.read_bytes())
        assert isinstance(found, _Tables)
        return found
    # it is not there, or not what was written
    whole = Lark(given, parser="lalr", lexer=_Unused, propagate_positions=True, maybe_placeholders=False)
    conf = whole.parse_interactive().parser_state.parse_conf
    made = _Tables(conf, tuple(whole.terminals), tuple(whole.rules))
    with contextlib.suppress(OSError):
        _keep(made, kept)
    return made


def _kept(given: str) -> Path:
    """Return the file of the tables of a grammar: in the user's own folder, since loading it runs what is in it."""
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    made_by = f"{lark.__version__} {sys.version_info[:2]} {given}"
    return Path(caches) / "sinkql" / f"grammar-{hashlib.sha256(made_by.encode()).hexdigest()[:16]}"


def _keep(made: _Tables, kept: Path) -> None:
    """Write the tables for the next process, which loads them in a tenth of the time."""
    if not kept.is_absolute():  # a user without a home
        return
    kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for other in kept.parent.glob("grammar-*"):
        if other.stat().st_mtime < time.time() - _KEPT_SECONDS:
            other.unlink()
    tables = io.BytesIO()
    _Pickler(tables).dump(made)
    durable.write(kept, tables.getvalue(), private=True, sync=False)


@cache
def symbols() -> dict[str, str]:
    """Return the name of the terminal for each symbol, as in `(` is LPAR."""
    terminals = _tables().terminals
    return {each.pattern.value: each.name for each in terminals if not each.pattern.value.isalpha()}


@cache
def keywords() -> frozenset[str]:
    """Return all keywords, in upper case."""
    return frozenset(terminal.name for terminal in _tables().terminals if terminal.pattern.value.isalpha())


@cache
def rules() -> dict[str, tuple[tuple[str, ...], ...]]:
    """Return what each rule may be made of: the names of rules, in lower case, and of terminals, in upper case."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for rule in _tables().rules:
        found.setdefault(str(rule.origin.name), []).append(tuple(symbol.name for symbol in rule.expansion))
    return {name: tuple(expansions) for name, expansions in found.items()}


def start(vocabulary: Vocabulary) -> Automaton:
    """Return what stands before a statement; `vocabulary` tells the words of connectors."""
    return Automaton(_tables().conf, vocabulary)
