"""Collect the results of lowering one job: shared operators, the statements of views, and connections."""

from __future__ import annotations

from dataclasses import dataclass, field

from sinkql import ast, logical, physical
from sinkql.errors import Span
from sinkql.logical.expression import without_spans
from sinkql.lowering.common_subplan import unused
from sinkql.lowering.index import ViewIndexes, indexes_of
from sinkql.printer import to_sql


@dataclass(slots=True)
class Context:
    """The context of lowering one job; `texts` collects the statements of the inlined views.

    The views `logs` are read from their logs. The job may use indexes of views in its `cluster`. If `placed`, it runs
    once, and its expressions keep their spans.
    """

    catalog: logical.CatalogReader
    logs: frozenset[str] = frozenset()
    cluster: str | None = None
    placed: bool = False
    texts: dict[str, str] = field(default_factory=dict)
    shared: dict[str, physical.Operator] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)
    _constants: dict[str, physical.Read] = field(default_factory=dict)

    def arrangement(self) -> str:
        """Return a placeholder for the name of an arrangement, until the whole job is known."""
        return ""

    def indexes(self, log: physical.Read) -> tuple[ViewIndexes, ...]:
        """Return the indexes that the job may use of a view whose log it reads."""
        view = logical.get_item(self.catalog, log.name, logical.View)
        return indexes_of(log.name, self.catalog) if view.cluster == self.cluster else ()

    def again(self, body: physical.Operator, name: str = "shared") -> physical.Operator:
        """Return a reference to an operator whose rows are used again; without state, the operator itself."""
        if not any(isinstance(node, physical.Stateful) for node in physical.walk(body)):
            return body
        if id(body) not in self._names:
            shared_name = self._names[id(body)] = unused(name, self.shared)
            self.shared[shared_name] = body
        return physical.Use(self._names[id(body)], physical.columns_of(body), physical.change_of(body))

    def constant(self, read: physical.Read) -> physical.Operator:
        """Return the read of constant rows; equal rows are one source in a job, whatever their columns' names."""
        first = self._constants.setdefault(read.source, read)
        if first.columns == read.columns:
            return first
        outputs = tuple(
            physical.Output(column.name, logical.Reference(old.name, old.type, old.nullable))
            for column, old in zip(read.columns, first.columns, strict=True)
        )
        return physical.Map(first, outputs)

    def retracting(self, body: physical.Operator) -> physical.Operator:
        """Return `body` as a relation with retractions, normalized if it is an upsert relation."""
        if physical.change_of(body) != "upsert":
            return body
        return physical.Normalize(body, self.arrangement(), physical.key_of(body))

    def connection(self, name: str) -> physical.Connection:
        item = logical.get_item(self.catalog, name, logical.Connection)
        options = dict(item.options)
        values = [part for value in options.values() for part in (value if isinstance(value, list) else [value])]
        through = [part["connection"] for part in values if isinstance(part, dict) and "connection" in part]
        return physical.Connection(item.name, item.kind, options, {used: self.connection(used) for used in through})

    def state(self, cluster: logical.Cluster) -> physical.StatePath | None:
        """Return the place of the state of a cluster's sinks."""
        if cluster.state is None:
            return None
        through = cluster.state.connection
        return physical.StatePath(cluster.state.path, self.connection(through) if through is not None else None)

    def state_of(self, cluster: str) -> physical.StatePath | None:
        """Return the place of the state of a cluster's sinks, by the cluster's full name."""
        item = logical.get_item(self.catalog, cluster, logical.Cluster)
        return self.state(item)

    def origin(self, name: str, span: Span) -> physical.Origin | None:
        """Return the place in a view's printed statement of a span of its plan."""
        if not span.end:
            return None
        if self.catalog.entry(name) is None:
            return physical.Origin(name, span.start, span.end)  # a query outside of the catalog is its text
        statement = logical.get_statement(self.catalog, name, ast.CreateView)
        query = statement.query
        if name not in self.texts:
            self.texts[name] = to_sql(statement)
        place = query.place(span).shifted(self.texts[name].index(query.text))
        return physical.Origin(name, place.start, place.end)

    def output(self, name: str, expression: logical.Expression, view: str) -> physical.Output:
        """Return a computed column with its origin in a view."""
        if self.placed:
            return physical.Output(name, expression)
        return physical.Output(name, without_spans(expression), self.origin(view, expression.span))
