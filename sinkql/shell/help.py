"""The commands, and the statements with their syntax from the grammar → the texts of `\\?` and `\\h`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Protocol

from sinkql.errors import SinkqlError, nearest
from sinkql.parser import parse
from sinkql.parser.syntax import syntax
from sinkql.planner.later import Later, later


class Listed(Protocol):
    """What `\\?` shows of a command."""

    @property
    def usage(self) -> str: ...

    @property
    def meaning(self) -> str: ...

    @property
    def group(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Statement:
    """Hold what `\\h` says of a statement: the grammar's rule, a sentence, and an example that parses."""

    name: str
    rule: str
    meaning: str
    example: str


@cache
def statements() -> tuple[Statement, ...]:
    """Return all statements in the order of their file."""
    found = tomllib.loads((files("sinkql.shell") / "statements.toml").read_text("utf-8"))
    return tuple(
        Statement(name, each["rule"], each["meaning"].strip(), each["example"].strip()) for name, each in found.items()
    )


def commands(entries: Iterable[Listed]) -> str:
    """Return the list of commands by groups."""
    entries = tuple(entries)
    width = max(len(each.usage) for each in entries)
    lines = []
    for group in dict.fromkeys(each.group for each in entries):
        lines.append(group)
        lines += [f"  {each.usage:<{width}}  {each.meaning}" for each in entries if each.group == group]
        lines.append("")
    lines += [
        "Keys",
        f"  {'Enter':<{width}}  run the statement, where it has its ; (else a new line)",
        f"  {'Ctrl-J, Alt-Enter':<{width}}  a new line",
        f"  {'Tab':<{width}}  choose from what may stand here",
        f"  {'Ctrl-R':<{width}}  search the history",
        f"  {'Ctrl-C':<{width}}  leave the statement, typed or running",
        f"  {'Ctrl-D':<{width}}  leave the shell",
    ]
    return "\n".join(lines) + "\n"


def statement(text: str) -> str:
    """Return the help on a statement, the list of all without a text; SQ4037 where there is none of that name."""
    wanted = " ".join(text.upper().rstrip(";").split())
    if not wanted:
        return _list(statements()) + "\n\\h STATEMENT tells more, as in \\h CREATE SINK.\n"
    named = {each.name: each for each in statements()}
    exact = named.get(wanted)
    # more words than the name has, as in \h DROP SINK
    longer = [each for each in statements() if f"{wanted} ".startswith(f"{each.name} ")]
    if exact is not None or longer:
        return _one(exact if exact is not None else max(longer, key=lambda each: len(each.name)))
    begun = [each for each in statements() if each.name.startswith(wanted)]
    if len(begun) == 1:
        return _one(begun[0])
    if begun:
        return _list(begun)
    near = nearest(wanted, tuple(named))
    hint = f"Did you mean \\h {near}?" if near else "Run \\h; it lists the statements."
    raise SinkqlError("SQ4037", f"there is no statement {wanted}", hint=hint)


def _list(found: Iterable[Statement]) -> str:
    found = tuple(found)
    width = max(len(each.name) for each in found)
    return "".join(f"  {each.name:<{width}}  {each.meaning.partition('. ')[0].rstrip('.')}.\n" for each in found)


def _one(found: Statement) -> str:
    example = "\n".join(f"  {line}" for line in found.example.splitlines())
    written = "\n".join(f"  {line}".rstrip() for line in syntax(found.rule, found.name).splitlines())
    return f"{found.name}\n{found.meaning}\n{_later(found)}\nExample\n{example}\n\nSyntax\n{written}\n"


def _later(found: Statement) -> str:
    """Say of a statement that is understood and not run what to use instead."""
    (parsed,) = parse(found.example)
    if not isinstance(parsed, Later):
        return ""
    error = later(parsed)
    return f"{error.message}. {error.hint}\n"
