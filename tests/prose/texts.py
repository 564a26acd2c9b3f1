"""The prose of SinkQL: docstrings, comments, strings in the code, and pages, each with its file and line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
KINDS = ("docstrings", "comments", "messages", "docs")
_FENCE = re.compile(r"^(\s*)(```|~~~).*?^\1\2\s*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]+`")
_STRING_OR_COMMENT = re.compile(
    r'"""(?:[^\\]|\\.)*?"""|\'\'\'(?:[^\\]|\\.)*?\'\'\'|"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|#[^\n]*', re.DOTALL
)
"""A string or a comment of Python: finds comments in a tenth of the time of `tokenize`."""
_WORDS_OF_A_MESSAGE = 4
_SQL = ("SELECT", "WITH", "INSERT", "CREATE")


@dataclass(frozen=True)
class Text:
    """A piece of prose and its place."""

    kind: str
    path: Path
    line: int
    text: str


def texts(*roots: Path, messages: bool = True) -> Iterator[Text]:
    """Yield the prose of files and folders; without `messages`, strings in the code are left out."""
    for root in roots:
        paths = [root] if root.is_file() else sorted(root.rglob("*"))
        for path in paths:
            if path.suffix == ".py":
                yield from _of_module(path, messages=messages)
            elif path.suffix == ".md":
                yield Text("docs", path, 1, prose_of_page(path.read_text()))
            elif path.suffix == ".toml":
                yield from _of_toml(path)


def house() -> Iterator[Text]:
    """Yield all prose that the limits apply to. Strings of tests and benchmarks are data."""
    pages = [
        ROOT / name
        for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "bench/README.md", "bench/FIGURES.md")
    ]
    yield from texts(ROOT / "sinkql", ROOT / "docs", *pages)
    code = texts(ROOT / "tests", ROOT / "bench", ROOT / "tools", messages=False)
    for text in (*code, *texts(ROOT / "examples")):
        if text.kind in ("docstrings", "comments") or text.path.parent.parent == ROOT / "examples":
            yield text


def prose_of_page(text: str) -> str:
    """Return a page's text without code; lines keep their numbers."""

    def blank(match: re.Match[str]) -> str:
        return "\n" * match.group().count("\n")

    return _CODE.sub("X", _FENCE.sub(blank, text))


def _of_module(path: Path, *, messages: bool) -> Iterator[Text]:
    source = path.read_text()
    documented: set[int] = set()
    tree = ast.parse(source)
    nodes = list(ast.walk(tree) if messages else _statements(tree))
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            documented.add(id(node.value))
            yield Text("docstrings", path, node.lineno, _CODE.sub("X", node.value.value))
    inside: set[int] = set()

    def is_plain(node: ast.Constant) -> bool:
        return id(node) not in documented and id(node) not in inside

    for node in nodes if messages else ():
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in ast.walk(node) if part is not node}
            yield from _message(path, node.lineno, _joined(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and is_plain(node):
            yield from _message(path, node.lineno, node.value)
    line, end = 1, 0
    for match in _STRING_OR_COMMENT.finditer(source):
        line += source.count("\n", end, match.start())
        end = match.start()
        comment = match.group()
        if comment.startswith("#") and not comment.startswith(("# type:", "# noqa", "# fmt:")):
            yield Text("comments", path, line, _CODE.sub("X", comment.lstrip("# ")))


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements in a node, which are much fewer than its nodes."""
    for blocks in ("body", "orelse", "finalbody", "handlers", "cases"):
        for child in getattr(node, blocks, ()):
            yield child
            yield from _statements(child)


def _message(path: Path, line: int, text: str) -> Iterator[Text]:
    """Yield a string of the code if it is prose: several words, and no SQL."""
    if text.count(" ") >= _WORDS_OF_A_MESSAGE - 1 and not text.lstrip().startswith(
        ("SELECT", "WITH", "INSERT", "CREATE")
    ):
        yield Text("messages", path, line, _CODE.sub("X", text))


def _joined(node: ast.JoinedStr) -> str:
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)


def _of_toml(path: Path) -> Iterator[Text]:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        _, found, value = line.partition(" = ")
        if found and value.startswith(('"', "'")):
            yield from _message(path, number, value.strip("\"'"))
