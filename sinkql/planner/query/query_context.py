"""What planning a query needs of what it stands in: the names around it, and how the queries within it are planned."""

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
    """What stands around a query: the relations that WITH has named, and the scope of the query that it is within."""

    named: Mapping[str, logical.Relation] = field(default_factory=dict)
    outer: Outer | None = None


class QueryPlanner(Protocol):
    """What FROM and subqueries need to know of the query that they are in."""

    @property
    def syntax(self) -> Syntax: ...

    @property
    def once(self) -> datetime | None: ...

    @property
    def scaled(self) -> bool:
        """Tell whether columns of numerics have the scale that Postgres shows, where it is known."""

    @property
    def listed(self) -> bool:
        """Tell whether a list of names, which stands outside the query, names all columns of it."""

    def plan(self, node: Any, around: OuterQuery) -> logical.Relation:
        """Plan a query within a query."""

    def table(self, node: Any, around: OuterQuery) -> tuple[logical.Relation, Qualifiers]:
        """Return the relation that a name means, and the names that it goes by."""

    def aliased(self, relation: logical.Relation, alias: Any) -> logical.Relation:
        """Return a relation with the column names of its alias."""

    def fresh(self) -> str:
        """Return a name that no column has."""

    def refuse_clauses(self, node: Any) -> None:
        """Refuse what a node has beyond what is planned."""
