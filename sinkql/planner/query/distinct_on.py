"""DISTINCT ON (…) → the first row of each partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from sinkql import logical
from sinkql.errors import SinkqlError
from sinkql.logical import Change
from sinkql.planner.expression.typed_expression import Typed, column
from sinkql.planner.query import relation as query_relation
from sinkql.planner.query.order_by import narrowed, sort
from sinkql.planner.query.relation import check_group
from sinkql.planner.syntax.sqlglot_tree import Syntax

_ON, _BY = "?on{}?", "?by{}?"


@dataclass(frozen=True, slots=True)
class DistinctOn:
    """The expressions of DISTINCT ON, and the terms of ORDER BY, which begin with these."""

    syntax: Syntax
    on: Sequence[Any]
    terms: Sequence[Any]

    @classmethod
    def of(cls, syntax: Syntax, select: Any) -> DistinctOn | None:
        """Return what a SELECT says; None for one without DISTINCT ON."""
        distinct = select.args.get("distinct")
        on = distinct.args.get("on") if distinct is not None else None
        if on is None:
            return None
        order = select.args.get("order")
        parts = on.expressions if isinstance(on, exp.Tuple) else [on.this if isinstance(on, exp.Paren) else on]
        return cls(syntax, parts, order.expressions if order is not None else ())

    @property
    def columns(self) -> list[tuple[str, Any, str]]:
        """Return names, nodes and clauses of what is to be computed behind the select list."""
        on = [(_ON.format(place), node, "DISTINCT ON") for place, node in enumerate(self.on)]
        return [*on, *((_BY.format(place), term.this, "ORDER BY") for place, term in enumerate(self.terms))]

    def plan(self, relation: logical.Relation, width: int) -> logical.Relation:
        """Return the first columns of the first row of each; raises SQ2226 where ORDER BY begins otherwise."""
        assert isinstance(relation, logical.Project)
        outputs = {each.name: each.expression for each in relation.outputs}
        names = [name for name, *_ in self.columns]
        kept = {each.expression: each.name for each in reversed(relation.outputs[:width])}
        for name in names:
            kept.setdefault(outputs[name], name)
        below = query_relation.project(
            relation.input,
            [
                (each.name, Typed(each.expression, each.expression.type))
                for each in relation.outputs
                if each.name not in names or kept[each.expression] == each.name
            ],
        )
        on = {outputs[name]: None for name in names[: len(self.on)]}
        self._check(on, [outputs[name] for name in names[len(self.on) :]])
        partition = tuple(self._column(below, kept[each]) for each in on)
        for each in partition:
            check_group(each.type, each.span, "DISTINCT ON")
        order = tuple(
            sort(self._column(below, kept[outputs[name]], term.this), term)
            for name, term in zip(names[len(self.on) :], self.terms, strict=True)
            if outputs[name] not in on
        )
        by = frozenset(each.column for each in partition if each.column is not None)
        shape = replace(below.shape, keys=(by, *below.shape.keys), change=Change.RETRACT)
        trees = tuple(each.tree for each in partition)
        return narrowed(logical.Rank(below, trees, order, "row_number", 1, 1, None, shape), width)

    def _check(self, on: dict[logical.Expression, None], order: Sequence[logical.Expression]) -> None:
        left = dict(on)
        for each, term in zip(order, self.terms, strict=True):
            if not left:
                return
            if each not in on:
                raise SinkqlError(
                    "SQ2226",
                    "the expressions of DISTINCT ON must be those that ORDER BY begins with",
                    self.syntax.span(term.this),
                    hint=f"Begin with ORDER BY {', '.join(map(self.syntax.written, self.on))}.",
                )
            left.pop(each, None)

    def _column(self, below: logical.Relation, name: str, node: Any = None) -> Typed:
        found = next(each for each in below.shape.columns if each.name == name)
        span = self.syntax.span(self.on[0] if node is None else node)
        return column(found.name, found.type, nullable=found.nullable, span=span)
