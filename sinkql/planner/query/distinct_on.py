"""Plan DISTINCT ON (…): the first row of each partition."""

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
    """The expressions of DISTINCT ON, and the terms of ORDER BY, which start with these expressions."""

    syntax: Syntax
    on: Sequence[Any]
    terms: Sequence[Any]

    @classmethod
    def of(cls, syntax: Syntax, select: Any) -> DistinctOn | None:
        """Return the DISTINCT ON of a SELECT, None if it has none."""
        distinct = select.args.get("distinct")
        on = distinct.args.get("on") if distinct is not None else None
        if on is None:
            return None
        order = select.args.get("order")
        parts = on.expressions if isinstance(on, exp.Tuple) else [on.this if isinstance(on, exp.Paren) else on]
        return cls(syntax, parts, order.expressions if order is not None else ())

    @property
    def columns(self) -> list[tuple[str, Any, str]]:
        """Return names, nodes and clauses of the columns to compute behind the select list."""
        on = [(_ON.format(place), node, "DISTINCT ON") for place, node in enumerate(self.on)]
        return [*on, *((_BY.format(place), term.this, "ORDER BY") for place, term in enumerate(self.terms))]

    def plan(self, relation: logical.Relation, width: int) -> logical.Relation:
        """Return the first columns of each partition's first row.

        Raises SQ2226 if ORDER BY starts with other expressions.
        """
        assert isinstance(relation, logical.Project)
        outputs = {output.name: output.expression for output in relation.outputs}
        names = [name for name, *_ in self.columns]
        names_below = {output.expression: output.name for output in reversed(relation.outputs[:width])}
        for name in names:
            names_below.setdefault(outputs[name], name)
        below = query_relation.project(
            relation.input,
            [
                (output.name, Typed(output.expression, output.expression.type))
                for output in relation.outputs
                if output.name not in names or names_below[output.expression] == output.name
            ],
        )
        on = {outputs[name]: None for name in names[: len(self.on)]}
        self._check(on, [outputs[name] for name in names[len(self.on) :]])
        partition = tuple(self._column(below, names_below[expression]) for expression in on)
        for value in partition:
            check_group(value.type, value.span, "DISTINCT ON")
        order = tuple(
            sort(self._column(below, names_below[outputs[name]], term.this), term)
            for name, term in zip(names[len(self.on) :], self.terms, strict=True)
            if outputs[name] not in on
        )
        by = frozenset(value.column for value in partition if value.column is not None)
        shape = replace(below.shape, keys=(by, *below.shape.keys), change=Change.RETRACT)
        trees = tuple(value.tree for value in partition)
        return narrowed(logical.Rank(below, trees, order, "row_number", 1, 1, None, shape), width)

    def _check(self, on: dict[logical.Expression, None], order: Sequence[logical.Expression]) -> None:
        remaining = dict(on)
        for expression, term in zip(order, self.terms, strict=True):
            if not remaining:
                return
            if expression not in on:
                raise SinkqlError(
                    "SQ2226",
                    "ORDER BY must start with the expressions of DISTINCT ON",
                    self.syntax.span(term.this),
                    hint=f"Start with ORDER BY {', '.join(map(self.syntax.written, self.on))}.",
                )
            remaining.pop(expression, None)

    def _column(self, below: logical.Relation, name: str, node: Any = None) -> Typed:
        match_ = next(column_ for column_ in below.shape.columns if column_.name == name)
        span = self.syntax.span(self.on[0] if node is None else node)
        return column(match_.name, match_.type, nullable=match_.nullable, span=span)
