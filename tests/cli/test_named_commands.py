"""Commands in errors, hints and help exist, have the named options, and are complete."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import sinkql
from sinkql.cli.main import cli

_FOLDER = Path(sinkql.__file__).parent
_NAMED = re.compile(r"([Rr]un )?`?(?<![.\w])sinkql ((?:secret|catalog) [a-z]+|[a-z]+)\b((?: [^.,;`\n]+)?)")
_OTHER = ("as", "query", "relations")
"""Words after `sinkql` that are not commands: `run sinkql as root`, a Spark application's name, an item's comment."""
_GIVEN = re.compile(r" (-|[A-Z{]|name\b|with )")


def _texts(path: Path) -> Iterator[str]:
    """Yield the texts of a file, including the docstrings of commands, which are their help."""
    text = path.read_text()
    if "sinkql " not in text:
        return
    if path.suffix == ".toml":
        yield from _strings(tomllib.loads(text))
        return
    docstrings = set() if path.parent.name == "command" else {*_docstrings(ast.parse(text))}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in docstrings:
            yield node.value


def _docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node, clean=False) or ""


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _strings(each)


def _command(words: str) -> click.Command | None:
    found: click.Command | None = cli
    context = click.Context(cli)
    for word in words.split():
        found = found.get_command(context, word) if isinstance(found, click.Group) else found
    return found


def test_every_command_that_a_text_names_can_be_run_as_it_is_written() -> None:
    wrong, number = [], 0
    for path in sorted([*_FOLDER.rglob("*.py"), *_FOLDER.rglob("*.toml")]):
        for text in _texts(path):
            for run, words, rest in _NAMED.findall(text):
                if words in _OTHER:
                    continue
                command, number = _command(words), number + 1
                options = {name for each in command.params for name in each.opts} if command is not None else set()
                needs = command is not None and any(each.required for each in command.params)
                if (
                    command is None
                    or not set(re.findall(r"(?<= )--?[a-z][\w-]*", rest)) <= options | {"--output"}
                    or (run and needs and not _GIVEN.match(rest))
                ):
                    wrong.append(f"{path.name}: sinkql {words}{rest}")
    assert wrong == []
    assert number > 20
