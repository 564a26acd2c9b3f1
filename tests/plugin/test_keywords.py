"""Keywords of a connector occur only in its folder."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import sinkql
from sinkql.connector_api.registry import discover

_PACKAGE = Path(sinkql.__file__).parent
_GRAMMAR = _PACKAGE.parent / "grammar"
_LANGUAGE = {"KEY", "LOAD GENERATOR", "TABLE", "VALUE"}
_ELSEWHERE = {
    # examples in messages or forms, and system relations that other systems also have
    "parser/hint/syntax_error.py",
    "catalog/system/mz_internal.py",
    "catalog/system/properties.py",
    # logs of captured sources, which independent connectors store in S3
    "connector_api/source_options.py",
}


def _words() -> set[str]:
    registry = discover()
    later = (name for role, name in registry.later if role != "FORMAT")  # some formats have a special syntax
    kinds = {*registry.connections, *registry.sources, *registry.sinks, *later}
    return {kind.removeprefix("LOAD GENERATOR ") for kind in kinds} - _LANGUAGE


def _texts(tree: ast.AST) -> Iterator[str]:
    """Yield the strings of a module; a keyword within a message is not a whole string."""
    yield from (each.value for each in ast.walk(tree) if isinstance(each, ast.Constant) and isinstance(each.value, str))


def test_no_module_outside_of_connectors_lists_their_words() -> None:
    words = _words()
    found = [
        f"{path.relative_to(_PACKAGE)}: {text}"
        for path in sorted(_PACKAGE.rglob("*.py"))
        if "connectors" not in path.parts and str(path.relative_to(_PACKAGE)) not in _ELSEWHERE
        for text in _texts(ast.parse(path.read_text("utf-8")))
        if text in words or text in {f"{word} CONNECTION" for word in words}
    ]
    assert found == []


def test_the_grammar_has_no_word_of_a_connector() -> None:
    words = {word for kind in _words() for word in kind.split()} - {"SQL"} - _LANGUAGE - {"SCHEMA"}
    keywords = {word for path in _GRAMMAR.glob("*.lark") for word in re.findall(r'"([A-Z_]+)"i', path.read_text())}
    assert keywords & words == set()
