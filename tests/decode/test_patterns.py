"""Patterns of the code: old Pythons match them correctly, and matching takes linear time."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from re import _constants as op
from re import _parser
from typing import Any

import pytest

from files.copying import FORMS
from sinkql.decode.csv import Fields
from sinkql.decode.csv_records import Splitter
from sinkql.regex_repeat import RepeatedPattern
from support.backtracking import TooManyError, characters, nodes, steps

_ROOT = Path(__file__).parents[2]
_WRONG = {op.POSSESSIVE_REPEAT, op.ATOMIC_GROUP}
_LOOKS_WRONG = re.compile(r"[*+?}]\+|\(\?>")
_HOLDS_NONE = {" /*+ OPTIONS('upsert-enabled' = 'false') */", "~!@#%^&|`?+-*/<>="}
"""Strings that are not patterns, and would be wrong as patterns."""
_OF_JAVA = {"sinkql/lowering/spark/string.py", "tests/expressions/tried.py"}
"""Modules whose suspicious patterns are for Java, which matches them correctly."""
_OF_OURS = {"sinkql.logical.function._ENTRY"}
"""Patterns that match only texts of the code itself."""


def _texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the strings and bytes of a module except docstrings; a replacement field counts as one character."""
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            values = [part.value if isinstance(part, ast.Constant) else "x" for part in node.values]
            yield node.lineno, "".join(map(str, values))
        elif isinstance(node, ast.Constant) and id(node) not in parts | alone:
            if isinstance(node.value, str):
                yield node.lineno, node.value
            elif isinstance(node.value, bytes):
                yield node.lineno, node.value.decode("latin-1").replace("%b", "x")


def _is_wrong(text: str) -> bool:
    if not _LOOKS_WRONG.search(text) or text in _HOLDS_NONE:
        return False
    try:
        return any(code in _WRONG for code, _ in nodes(_parser.parse(text)))
    except re.error:  # possibly a part of a pattern
        return True


def test_no_pattern_has_what_python_matched_wrongly_before_3_11_5() -> None:
    found = [
        (str(path.relative_to(_ROOT)), line, text)
        for folder in ("sinkql", "tests", "bench", "examples", "deploy")
        for path in sorted((_ROOT / folder).rglob("*.py"))
        if path != Path(__file__) and _LOOKS_WRONG.search(source := path.read_text())
        for line, text in _texts(ast.parse(source))
        if _is_wrong(text)
    ]
    assert {name for name, *_ in found} == _OF_JAVA, (
        "write it without possessive quantifiers and atomic groups: see sinkql.regex_repeat",
        [each for each in found if each[0] not in _OF_JAVA],
    )


@pytest.mark.parametrize("text", ["a*+b", "[^,]++", "(?:ab?)?+", "x{2,3}+", "(?>a)b", "(a++"])
def test_a_wrong_pattern_is_found(text: str) -> None:
    for source in (
        f"x = {text!r}",
        f"x = {text.encode()!r}",
        f"x = f'{{y}}' {text!r}" if "{" not in text else "x = 'a++'",
    ):
        assert [each for _, each in _texts(ast.parse(source)) if _is_wrong(each)]


def _patterns() -> Iterator[tuple[str, re.Pattern[Any], bool]]:
    """Yield the patterns for data and statements, with their names and whether they must match a whole text."""
    rooms = (
        "sinkql.decode",
        "sinkql.logical",
        "sinkql.connectors.files",
        "sinkql.parser.read",
        "sinkql.parser.hint",
    )
    for room in rooms:
        for module in pkgutil.iter_modules(importlib.import_module(room).__path__, f"{room}."):
            yield from _within(module.name, importlib.import_module(module.name))
    for form in (FORMS[0], FORMS[3], FORMS[5]):
        for holder in (Fields(form), *vars(Splitter(form)).values()):
            if hasattr(holder, "__dict__"):
                yield from _within(f"{form} {type(holder).__name__}", holder)


def _within(name: str, holder: object) -> Iterator[tuple[str, re.Pattern[Any], bool]]:
    for each, value in vars(holder).items():
        if isinstance(value, RepeatedPattern):
            yield f"{name}.{each}", value._some, False
        elif isinstance(value, re.Pattern):
            yield f"{name}.{each}", value, True


def _hostile(pattern: re.Pattern[Any], seed: random.Random) -> Iterator[tuple[str, str, str]]:
    """Yield the beginning of a text, its repeated part, and its end."""
    known = characters(_parser.parse(pattern.pattern, pattern.flags))
    alphabet = [*(seed.sample(known, 6) if len(known) > 6 else known), "a", "0", " ", "\n"]
    for _ in range(8):
        begin, many, end = ("".join(seed.choices(alphabet, k=seed.randrange(low, 4))) for low in (0, 1, 0))
        yield begin, many, end


def test_patterns_take_steps_as_many_as_a_text_is_long() -> None:
    """A quadratic pattern takes four times as many steps for a text twice as long. A worse one stops a sink forever."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    seed, found, count = random.Random(5), {}, 0
    try:
        for name, pattern, whole in _patterns():
            if name in _OF_OURS:
                continue
            count += 1
            for begin, many, end in _hostile(pattern, seed):
                try:
                    few = steps(pattern, begin + many * 12 + end, most=10_000, whole=whole)
                    steps(pattern, begin + many * 24 + end, most=3 * few + 200, whole=whole)
                except TooManyError:
                    found[name] = begin, many, end
    finally:
        sys.setrecursionlimit(before)
    assert count > 60
    assert found == {}


def test_a_pattern_that_takes_more_is_found() -> None:
    for pattern, many in ((r"(?:a|a)*b", "a"), (r"a*a*b", "a"), (r"(?:[^x]+|y)*z", "y")):
        with pytest.raises(TooManyError):
            steps(re.compile(pattern), many * 20, most=3 * steps(re.compile(pattern), many * 10, most=10**7))
