"""Functions import only modules that their file does not load anyway."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from prose.texts import ROOT

_PACKAGE = ROOT / "sinkql"


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


_FILES = {_module(path): path for path in sorted(_PACKAGE.rglob("*.py"))}


def _imports(node: ast.AST, *, in_function: bool = False) -> Iterator[tuple[bool, int, str]]:
    """Yield the imported modules, with whether a function imports them and their line."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        inside = in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(child, ast.ImportFrom) and child.module is not None:
            for alias in child.names:
                member = f"{child.module}.{alias.name}"
                yield inside, child.lineno, member if member in _FILES else child.module
        elif isinstance(child, ast.Import):
            for alias in child.names:
                yield inside, child.lineno, alias.name
        yield from _imports(child, in_function=inside)


@cache
def _imports_of(module: str) -> tuple[tuple[bool, int, str], ...]:
    return tuple(_imports(ast.parse(_FILES[module].read_text())))


@cache
def _loaded_with(module: str) -> frozenset[str]:
    """Return the modules that an import of this one loads: its packages and, transitively, all top-level imports."""
    loaded: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in loaded:
            continue
        loaded.add(name)
        if name not in _FILES:
            continue
        package = name.rpartition(".")[0]
        waiting += [package] if package else []
        waiting += [imported for in_function, _, imported in _imports_of(name) if not in_function]
    return frozenset(loaded)


def test_functions_import_only_modules_that_their_file_does_not_load() -> None:
    needless = [
        f"{_FILES[module].relative_to(ROOT)}:{line} {imported}"
        for module in _FILES
        for in_function, line, imported in _imports_of(module)
        if in_function and imported in _loaded_with(module)
    ]
    assert needless == []
