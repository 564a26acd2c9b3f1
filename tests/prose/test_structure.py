"""The structure of the code: package docstrings list the modules; packages have few modules; classes are small."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from prose.texts import ROOT

_PACKAGE = ROOT / "sinkql"
_MOST_LINES, _MOST_FIELDS, _MOST_MODULES = 300, 15, 22
_ENTRY = re.compile(r"^\* `([\w.]+)`: ", re.MULTILINE)


def _packages() -> Iterator[Path]:
    yield from (path.parent for path in sorted(_PACKAGE.rglob("__init__.py")))


def _parts(folder: Path) -> set[str]:
    """Return the names of a package's modules and subpackages."""
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__", "__main__"}
    return modules | {path.parent.name for path in folder.glob("*/__init__.py")}


def _left() -> dict[str, list[str]]:
    """Return the packages and classes that do not comply yet. The lists only become shorter."""
    left: dict[str, list[str]] = tomllib.loads(Path(__file__).with_name("structure.toml").read_text())
    return left


def test_a_package_lists_its_modules() -> None:
    """The docstring has one sentence for each module, in the order of control flow."""
    wrong = {}
    for folder in _packages():
        listed = _ENTRY.findall(ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or "")
        parts = _parts(folder)
        if sorted(listed) != sorted(parts):
            wrong[str(folder.relative_to(ROOT))] = f"missing {parts - set(listed)}, unknown {set(listed) - parts}"
    assert sorted(wrong) == _left()["packages"], wrong


def test_a_room_has_few_modules() -> None:
    assert [folder for folder in _packages() if len(list(folder.glob("*.py"))) - 1 > _MOST_MODULES] == []


def test_a_large_class_says_why() -> None:
    """The docstring of a class with more lines or fields has a sentence that begins with "Large: "."""
    large = {}
    for path in sorted(_PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and "Large: " not in (ast.get_docstring(node) or ""):
                lines, fields = (node.end_lineno or node.lineno) - node.lineno + 1, len(_fields(node))
                if lines > _MOST_LINES or fields > _MOST_FIELDS:
                    large[f"{path.relative_to(ROOT)}: {node.name}"] = f"{lines} lines, {fields} fields"
    assert sorted(large) == _left()["classes"], large


def _fields(node: ast.ClassDef) -> set[str]:
    """Return the names of an object's fields: fields of the class, and attributes that methods assign."""
    fields = {
        part.target.id for part in node.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    }
    for part in ast.walk(node):
        match part:
            case ast.Attribute(value=ast.Name(id="self"), ctx=ast.Store()):
                fields.add(part.attr)
    return fields
