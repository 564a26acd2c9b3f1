"""An expression that stands alone, over the columns of one relation or of none → Spark SQL with its type."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from sinkql import ast
from sinkql.errors import SinkqlError, Span
from sinkql.planner.expression.typed_expression import Typed
from sinkql.planner.query.scope import RowContext, Scope
from sinkql.planner.query.translate import Translator
from sinkql.planner.syntax.sqlglot_tree import Syntax, parse

_HEAD = "SELECT "
_MADE = "syntax"


def expression(written: ast.Expression) -> tuple[Syntax, Any]:
    """Parse an expression, once; its spans point into the user's text. Raises SQ2201."""
    found: tuple[Syntax, Any] | None = written.made.get(_MADE)
    if found is None:
        found = written.made[_MADE] = _parsed(written)
    return found


def _parsed(written: ast.Expression) -> tuple[Syntax, Any]:
    start = written.span.start - len(_HEAD)
    syntax = parse(ast.Query(_HEAD + written.text, Span(start, start + len(_HEAD) + len(written.text))))
    items = syntax.tree.expressions if len([each for each in syntax.tree.args.values() if each]) == 1 else []
    if len(items) != 1:
        raise SinkqlError("SQ2201", "expected one expression", written.span)
    return syntax, items[0]


def scalar(written: ast.Expression, now: datetime | None, scope: Scope | None = None) -> Typed:
    """Translate an expression over a relation's columns, or over none."""
    syntax, node = expression(written)
    return translator(syntax, now, scope, "this place").translate(node)


def translator(syntax: Syntax, now: datetime | None, scope: Scope | None, where: str) -> Translator:
    """Return a translator in which clocks stand at `now`."""
    return Translator(syntax, RowContext(replace(scope or Scope(), now=now), where))
