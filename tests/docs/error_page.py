"""The declared error codes and the source that raises them → their page: messages, cause and cure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from sinkql.errors import Family
from sinkql.errors import error_codes as declared
from sinkql.parser.hint.other_dialects import habits

_PACKAGE = Path(__file__).parents[2] / "sinkql"
_CODE = re.compile(r"SQ\d{4}")
_HEAD = """# Error codes

An error is `path:line:col: error[SQ2204]: message`, the line with a caret, sometimes a detail, and a hint; with
`--output json` the same as data. The first digit is the family of the code, and decides the exit code.

| codes | what is wrong | exit code |
|---|---|---|
"""
_TAIL = """
Other exit codes: 0 success, 64 wrong command line, 130 and 143 stopped by a signal, at once or before a sink ran.

A running sink tries again by itself after an error that is marked *retryable*; any other error stops it. In messages, …
stands for what changes.
"""


def codes() -> dict[str, list[str]]:
    """Return the codes of the package, each with its messages. A message's changing parts are shown as …"""
    found: dict[str, list[str]] = {}
    for path in sorted(_PACKAGE.rglob("*.py")):
        for code, message in _messages(ast.parse(path.read_text())):
            messages = found.setdefault(code, [])
            if message and message not in messages:
                messages.append(message)
    for form in (*habits().statement, *habits().query):
        message = _line(form.message.replace("{0}", "…"))
        if message not in found.setdefault(form.code, []):
            found[form.code].append(message)
    return found


def page() -> str:
    """Return the whole page: by family, each code with its messages, its cause and its cure."""
    messages = codes()
    parts = [
        _HEAD,
        *(f"| SQ{digit}… | {each.title} | {each.exit_code} |\n" for digit, each in enumerate(Family, 1)),
        _TAIL,
    ]
    for family in Family:
        parts.append(f"\n## {family.title[0].upper()}{family.title[1:]}\n")
        parts += [_entry(code, messages[code]) for code in sorted(declared) if declared[code].family is family]
    return "".join(parts)


def _entry(code: str, messages: list[str]) -> str:
    about = declared[code]
    shown = "".join(f"    {each}\n" for each in sorted({_whole(code, each) for each in messages})) or "    …\n"
    retryable = " *Retryable.*" if about.retryable else ""
    return f"\n### {code}\n\n{shown}\n{_escaped(about.cause)}{retryable}\n\n**What to do:** {_escaped(about.cure)}\n"


def _whole(code: str, message: str) -> str:
    """Return a message as it is shown; the source may name alone what a helper says is not supported."""
    if (
        not code.startswith("SQ29")
        or any(word in message for word in ("support", "allowed"))
        or message.endswith(" yet")
        or message == "…"
    ):
        return message
    return f"{message} not supported yet" if message.endswith(" are") else f"{message} is not supported yet"


def _escaped(text: str) -> str:
    """Return a sentence as Markdown that shows it as it is."""
    return re.sub(r"([\\*<])", r"\\\1", text)


def _messages(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each code, and what follows a code as arguments or in a tuple; a helper may know the code itself."""
    helpers = dict(_helpers(tree))
    for node, known in _within(tree, {}):
        match node:
            case ast.Constant(value=str() as value) if _CODE.fullmatch(value):
                yield value, ""
            case ast.Call(func=ast.Name(id=name), args=[message, *_]) if name in helpers:
                yield from ((helpers[name], _line(text)) for text in _texts(message, known))
            case ast.Call(args=parts) | ast.Tuple(elts=parts):
                for first, second in pairwise(parts):
                    codes = [text for text in _texts(first, known) if _CODE.fullmatch(text)]
                    yield from ((code, _line(text)) for code in codes for text in _texts(second, known) if text != code)


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


def _line(text: str) -> str:
    return re.sub(r"\{\d\}", "…", text).replace("\n", " ")


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
