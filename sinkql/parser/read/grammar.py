"""The files of the grammar → its tables, made at first use and kept in a file for the next process."""

from __future__ import annotations

import contextlib
import hashlib
import time
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec

from sinkql.keywords import Keywords
from sinkql.local_path import cache_folder
from sinkql.parser.read import tables
from sinkql.parser.read.automaton import Automaton
from sinkql.parser.read.tables import Tables
from sinkql.storage import files as storage_files

_FORM = 1
"""Goes up when the tables are kept in another form, or made in another way."""
_KEPT_SECONDS = 30 * 24 * 3600


def text() -> str:
    """Return the text of the grammar's files, in order of their names."""
    packaged = files("sinkql") / "grammar"
    folder = packaged if packaged.is_dir() else Path(str(files("sinkql"))).parent / "grammar"
    texts = sorted((file.name, file.read_text("utf-8")) for file in folder.iterdir() if file.name.endswith(".lark"))
    return "\n".join(text for _, text in texts)


@cache
def _tables() -> Tables:
    given = text()
    kept = _kept(given)
    # It is not there, or not what was written.
    with contextlib.suppress(OSError, ValueError, TypeError, msgspec.MsgspecError):
        return tables.from_json(kept.read_bytes())
    made = tables.make(given)
    with contextlib.suppress(OSError):
        _keep(made, kept)
    return made


def _kept(given: str) -> Path:
    """Return the file of the tables of a grammar, in the user's own folder."""
    return cache_folder() / f"grammar-{_FORM}-{hashlib.sha256(given.encode()).hexdigest()[:16]}.json"


def _keep(made: Tables, kept: Path) -> None:
    """Write the tables for the next process, which has them in a hundredth of the time."""
    kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for other in kept.parent.glob("grammar-*"):
        if other.stat().st_mtime < time.time() - _KEPT_SECONDS:
            other.unlink()
    storage_files.write_atomic(kept, made.to_json(), private=True, sync=False)


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
    """Return what each rule may be made of: the names of rules, in lower case, and of terminals, in upper case."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for rule in _tables().rules:
        if not rule.origin.startswith("$"):
            found.setdefault(rule.origin, []).append(tuple(rule.expansion))
    return {name: tuple(expansions) for name, expansions in found.items()}


def start(vocabulary: Keywords) -> Automaton:
    """Return what stands before a statement; `vocabulary` tells the words of connectors."""
    return Automaton(_tables(), vocabulary)
