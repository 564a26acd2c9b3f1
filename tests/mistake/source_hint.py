"""Find the hints in the package's source that name SQL, each with its file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parents[2] / "sinkql"
_SENTENCE = re.compile(r"[A-Z].* .*[.?;]\s*", re.DOTALL)
_CHANGING = "\N{HORIZONTAL ELLIPSIS}"
_SQL = re.compile(
    r"\b(ALTER|CREATE|DROP|SHOW|SELECT|INSERT|UPDATE|DELETE|RESET|SET|OPTIMIZE|EXPLAIN|CAST|CASE|FILTER|OVER|LATERAL"
    r"|JOIN|UNION|GROUP BY|ORDER BY|WHERE|INTERVAL|WITH|FORMAT|KEY|MODE|ARRAY|ROW|IN CLUSTER|AS|WITHIN|HAVING|VALUES"
    r"|FROM|EXCEPT)\b|\w\(.*\)|::\w|->|\{.*\}|[A-Z]{3,}[A-Z ]* = "
)


@dataclass(frozen=True, slots=True)
class SourceHint:
    """A hint in a file of the package; an ellipsis stands for each part that varies."""

    file: str
    text: str

    def is_shown(self, hint: str) -> bool:
        """Return whether a shown hint is this one or contains it."""
        parts = [re.escape(each) for each in self.text.strip().split(_CHANGING)]
        return re.search(".*?".join(parts), hint) is not None


def hints(*folders: str) -> list[SourceHint]:
    """Return the hints that name SQL in files whose paths begin with one of `folders`."""
    return [each for each in sentences() if each.file.startswith(folders) and _SQL.search(each.text)]


@cache
def sentences() -> tuple[SourceHint, ...]:
    """Return all sentences in the package's source, including the causes and cures of errors."""
    found: dict[str, SourceHint] = {}
    for path in sorted(_PACKAGE.rglob("*.py")):
        file = path.relative_to(_PACKAGE).as_posix()
        for text in _texts(ast.parse(path.read_text("utf-8"))):
            if _SENTENCE.fullmatch(text):
                found.setdefault(text, SourceHint(file, text))
    return tuple(found.values())


def _texts(node: ast.AST) -> Iterator[str]:
    text = _text(node)
    if text is not None:
        yield re.sub(f"{_CHANGING}+", _CHANGING, text)
        return
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):  # a docstring
            yield from _texts(child)


def _text(node: ast.AST) -> str | None:
    match node:
        case ast.Constant(value=str() as value):
            return value
        case ast.JoinedStr(values=values):
            return "".join(_text(each) or _CHANGING for each in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = _text(left), _text(right)
            return None if first is None or second is None else first + second
    return None
