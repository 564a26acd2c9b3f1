"""The source of the package → the page of error codes: each code with its messages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
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


def page() -> str:
    """Return the whole page. A message's changing parts are shown as …"""
    found: dict[str, list[str]] = {}
    for path in sorted(_PACKAGE.rglob("*.py")):
        for code, message in _messages(ast.parse(path.read_text())):
            messages = found.setdefault(code, [])
            if message and message not in messages:
                messages.append(message)
    return _HEAD + "".join(f"| {code} | {'<br>'.join(sorted(found[code]))} |\n" for code in sorted(found))


def _messages(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _CODE.fullmatch(node.value):
            yield node.value, ""
        if not isinstance(node, ast.Call):
            continue
        texts = [_text(argument) for argument in node.args]
        for place, text in enumerate(texts[:-1]):
            if text is not None and _CODE.fullmatch(text) and (message := texts[place + 1]) is not None:
                yield text, message.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


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
