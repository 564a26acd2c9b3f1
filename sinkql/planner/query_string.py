"""A string in a query, as it was written → its value."""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp

from sinkql.planner.query_syntax import Syntax

_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))|''", re.DOTALL)


def string_value(syntax: Syntax, node: Any) -> str | None:
    """Return the value of a string literal as it was written, '…' or E'…'; None for any other node or form."""
    written = syntax.written(node)
    if isinstance(node, exp.Literal) and node.is_string and written.startswith("'"):
        return written[1:-1].replace("''", "'")
    if isinstance(node, exp.ByteString) and written[:2].upper() == "E'":
        return _ESCAPE.sub(_unescape, written[2:-1])
    return None


def _unescape(match: re.Match[str]) -> str:
    if match[0] == "''":
        return "'"
    code = match[1] or match[2] or match[3]
    if code:
        return chr(int(code, 16))
    return chr(int(match[4], 8)) if match[4] else _ESCAPES.get(match[5], match[5])
