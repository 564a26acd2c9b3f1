"""Define the context of a query: the names around it, and the interface that plans the queries within it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from sinkql import logical
from sinkql.planner.query.scope import Outer
from sinkql.planner.syntax.sqlglot_tree import Syntax

Qualifiers = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class OuterQuery:
    """The query around a query: the relations that its WITH names, and its scope."""

    named: Mapping[str, logical.Relation] = field(default_factory=dict)
    outer: Outer | None = None


class QueryPlanner(Protocol):
    """The query planner, as FROM and subqueries use it."""

    @property
    def syntax(self) -> Syntax: ...

    @property
    def once(self) -> datetime | None: ...

    @property
    def scaled(self) -> bool:
        """Return whether numeric columns have the scale that Postgres shows, if it is known."""

    @property
    def listed(self) -> bool:
        """Return whether a list of names outside the query names all its columns."""

    def plan(self, node: Any, around: OuterQuery) -> logical.Relation:
        """Plan a query within a query."""

    def table(self, node: Any, around: OuterQuery) -> tuple[logical.Relation, Qualifiers]:
        """Return the relation that a name refers to, and the qualifiers of its columns."""

    def aliased(self, relation: logical.Relation, alias: Any) -> logical.Relation:
        """Return a relation with the column names of its alias."""

    def fresh(self) -> str:
        """Return a column name that no column has."""

    def refuse_clauses(self, node: Any) -> None:
        """Raise an error if a node has a clause that is not planned."""
