"""QUALIFY → a filter above the window functions of a SELECT, in which the names of its columns may stand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from sinkql import logical
from sinkql.planner.expression.typed_expression import Typed
from sinkql.planner.query import relation as query_relation
from sinkql.planner.query.expression_context import Context
from sinkql.planner.query.scope import Scope, identifier, qualifier
from sinkql.planner.query.translate import Translator
from sinkql.planner.syntax.sqlglot_tree import Syntax


class Qualified(Translator):
    """Translate the condition of a QUALIFY: a name that no column of FROM has may be one of the select list."""

    def __init__(self, syntax: Syntax, context: Context, scope: Scope, selected: Mapping[str, Typed]) -> None:
        super().__init__(syntax, context)
        self.scope = scope
        self.selected = selected

    def translate(self, node: Any) -> Typed:
        if isinstance(node, exp.Column) and not qualifier(node) and isinstance(node.this, exp.Identifier):
            name = identifier(node.this)
            known = self.selected.get(name)
            free = all(each.name != name for each in self.scope.columns) and node.find_ancestor(exp.Window) is None
            if known is not None and free:
                return known.at(self.syntax.span(node))
        return super().translate(node)


def condition(select: Any, t: Translator) -> Typed | None:
    """Return the condition of a QUALIFY; None where there is none."""
    clause = select.args.get("qualify")
    return t.boolean(clause.this, "QUALIFY") if clause is not None else None


def filter_windows(relation: logical.Relation, condition: Typed | None) -> logical.Relation:
    """Return the rows, with their window functions, for which a condition is true."""
    return relation if condition is None else query_relation.keep(relation, condition)
