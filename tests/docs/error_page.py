"""The source of the package → the page of error codes: each code with its messages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

_PACKAGE = Path(__file__).parents[2] / "sinkql"
_CODE = re.compile(r"SQ\d{4}")
_HEAD = """# Error codes

An error is `path:line:col: error[SQ2204]: message`, the line with a caret, and a hint; with `--output json` the same as
data. The first digit tells the family, and with it the exit code.

| codes | what is wrong | exit code |
|---|---|---|
| SQ1… | the syntax of the SQL | 1 |
| SQ2… | what the SQL means | 1 |
| SQ3… | a job failed while running | 3 |
| SQ4… | the environment or a remote service | 4 |
| SQ5… | a conflict with another process | 5 |

Other exit codes: 0 ok, 64 a wrong command line, 130 and 143 stopped at once by a signal.

| code | message |
|---|---|
"""


def codes() -> dict[str, list[str]]:
    """Return the codes of the package, each with its messages. A message's changing parts are shown as …"""
    found: dict[str, list[str]] = {}
    for path in sorted(_PACKAGE.rglob("*.py")):
        for code, message in _messages(ast.parse(path.read_text())):
            messages = found.setdefault(code, [])
            if message and message not in messages:
                messages.append(message)
    return found


def page() -> str:
    """Return the whole page."""
    found = codes()
    return _HEAD + "".join(f"| {code} | {'<br>'.join(sorted(found[code])) or '…'} |\n" for code in sorted(found))


def _messages(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each code, and what follows a code as arguments or in a tuple; a helper may know the code itself."""
    helpers = dict(_helpers(tree))
    for node, known in _within(tree, {}):
        match node:
            case ast.Constant(value=str() as value) if _CODE.fullmatch(value):
                yield value, ""
            case ast.Call(func=ast.Name(id=name), args=[message, *_]) if name in helpers:
                yield from ((helpers[name], _cell(text)) for text in _texts(message, known))
            case ast.Call(args=parts) | ast.Tuple(elts=parts):
                for first, second in pairwise(parts):
                    codes = [text for text in _texts(first, known) if _CODE.fullmatch(text)]
                    yield from ((code, _cell(text)) for code in codes for text in _texts(second, known) if text != code)


def _helpers(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield functions that make an error of their first argument, with its code."""
    for function in tree.body:
        if not isinstance(function, ast.FunctionDef) or not function.args.args:
            continue
        for node in ast.walk(function):
            match node:
                case ast.Call(args=[ast.Constant(value=str() as code), ast.Name(id=name), *_]) if _CODE.fullmatch(code):
                    if name == function.args.args[0].arg:
                        yield function.name, code


def _within(node: ast.AST, known: Mapping[str, ast.expr]) -> Iterator[tuple[ast.AST, Mapping[str, ast.expr]]]:
    """Yield all nodes in their order, each with what the names that stand for texts there were last set to."""
    if isinstance(node, ast.Module | ast.FunctionDef):
        known = dict(known)
    yield node, known
    for child in ast.iter_child_nodes(node):
        yield from _within(child, known)
    match node, known:
        case ast.Assign(targets=[ast.Name(id=name)], value=value), dict():
            known[name] = value


def _texts(node: ast.expr, known: Mapping[str, ast.expr]) -> list[str]:
    """Return the texts that an expression may give."""
    match node:
        case ast.Name(id=name) if name in known:
            return _texts(known[name], {})
        case ast.IfExp(body=body, orelse=orelse):
            return _texts(body, known) + _texts(orelse, known)
        case ast.Call(func=ast.Attribute(value=value, attr="format")):
            return _texts(value, known)
        case _:
            text = _text(node)
            return [] if text is None else [text]


def _cell(text: str) -> str:
    return re.sub(r"\{\d\}", "…", text).replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def _text(node: ast.expr) -> str | None:
    match node:
        case ast.Constant(value=str() as value):
            return value
        case ast.JoinedStr(values=values):
            return re.sub("…+", "…", "".join(_text(each) or "…" for each in values))
        case ast.FormattedValue():
            return "…"
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return (_text(left) or "…") + (_text(right) or "…")
        case _:
            return None
