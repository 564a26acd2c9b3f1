"""A constant in ORDER BY, GROUP BY or DISTINCT ON → the position in the select list that it is."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from sinkql.errors import SinkqlError
from sinkql.planner.syntax.sqlglot_tree import Syntax


def select_list_position(syntax: Syntax, node: Any, clause: str, width: int) -> int | None:
    """Return the place in a select list of so many columns, from 0; None for what is no constant. Raises SQ2222."""
    value = node.unnest()
    negative = isinstance(value, exp.Neg) and isinstance(value.this, exp.Literal)
    literal = value.this if negative else value
    if not isinstance(literal, exp.Literal | exp.Null | exp.Boolean):
        return None
    span = syntax.span(node)
    hint = f"Write {'a position from 1 to' if width > 1 else 'position'} {width}, or an expression."
    if not isinstance(literal, exp.Literal) or literal.is_string or not str(literal.this).isdigit():
        raise SinkqlError("SQ2222", f"non-integer constant in {clause}", span, hint=hint)
    if negative or not 1 <= int(literal.this) <= width:
        shown = f"-{literal.this}" if negative else literal.this
        raise SinkqlError("SQ2222", f"{clause} position {shown} is not in the select list", span, hint=hint)
    return int(literal.this) - 1
