"""What the lowering of one job gathers: what is used several times, the statements of views, connections."""

from __future__ import annotations

from dataclasses import dataclass, field

from sinkql import ast, logical, physical
from sinkql.errors import Span
from sinkql.logical.expression import without_spans
from sinkql.logical.type import parse_type
from sinkql.lowering.common_subplan import unused
from sinkql.lowering.index import ViewIndexes, indexes_of
from sinkql.printer import to_sql


@dataclass(slots=True)
class Context:
    """Lower the relations of one job; `texts` collects the statements of the views that went in.

    The views `logs` are read from their logs. In indexes of those in its `cluster` the job may look up.
    """

    catalog: logical.CatalogReader
    logs: frozenset[str] = frozenset()
    cluster: str | None = None
    texts: dict[str, str] = field(default_factory=dict)
    shared: dict[str, physical.Operator] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)
    _constants: dict[str, physical.Read] = field(default_factory=dict)

    def arrangement(self) -> str:
        """Return what stands for the name of an operator's state until the whole job is known."""
        return ""

    def indexes(self, log: physical.Read) -> tuple[ViewIndexes, ...]:
        """Return the indexes of a view, whose log is read, in which the job may look up."""
        view = self.catalog.item(log.name)
        assert isinstance(view, logical.View)
        return indexes_of(log.name, self.catalog) if view.cluster == self.cluster else ()

    def again(self, body: physical.Operator, name: str = "shared") -> physical.Operator:
        """Return what stands for an operator where its rows are used once more: itself, if it keeps no state."""
        if not any(isinstance(each, physical.Stateful) for each in physical.walk(body)):
            return body
        if id(body) not in self._names:
            known = self._names[id(body)] = unused(name, self.shared)
            self.shared[known] = body
        return physical.Use(self._names[id(body)], physical.columns_of(body), physical.change_of(body))

    def constant(self, read: physical.Read) -> physical.Operator:
        """Return the read of rows that a query says: a source has one in a job, whatever its columns are called."""
        first = self._constants.setdefault(read.source, read)
        if first.columns == read.columns:
            return first
        outputs = tuple(
            physical.Output(own.name, logical.Reference(known.name, parse_type(known.type), known.nullable))
            for own, known in zip(read.columns, first.columns, strict=True)
        )
        return physical.Map(first, outputs)

    def retracting(self, body: physical.Operator) -> physical.Operator:
        """Return rows that come and go where `body` gives rows that overwrite each other."""
        if physical.change_of(body) != "upsert":
            return body
        return physical.Normalize(body, self.arrangement(), physical.key_of(body))

    def connection(self, name: str) -> physical.Connection:
        item = self.catalog.item(name)
        assert isinstance(item, logical.Connection)
        options = dict(item.options)
        named = [each for value in options.values() for each in (value if isinstance(value, list) else [value])]
        through = [each["connection"] for each in named if isinstance(each, dict) and "connection" in each]
        return physical.Connection(item.name, item.kind, options, {each: self.connection(each) for each in through})

    def state(self, cluster: logical.Cluster) -> physical.StatePath | None:
        """Return where the sinks of a cluster keep their state."""
        if cluster.state is None:
            return None
        through = cluster.state.connection
        return physical.StatePath(cluster.state.path, self.connection(through) if through is not None else None)

    def state_of(self, cluster: str) -> physical.StatePath | None:
        """Return where the sinks of a cluster, by its full name, keep their state."""
        found = self.catalog.item(cluster)
        assert isinstance(found, logical.Cluster)
        return self.state(found)

    def origin(self, name: str, span: Span) -> physical.Origin | None:
        """Return where in a view's printed statement stands what a span of its plan points at."""
        if not span.end:
            return None
        entry = self.catalog.entry(name)
        if entry is None:
            return physical.Origin(name, span.start, span.end)  # a query that is in no catalog is its own text
        assert isinstance(entry.statement, ast.CreateView)
        query = entry.statement.query
        if name not in self.texts:
            self.texts[name] = to_sql(entry.statement)
        found = query.place(span).shifted(self.texts[name].index(query.text))
        return physical.Origin(name, found.start, found.end)

    def output(self, name: str, expression: logical.Expression, view: str) -> physical.Output:
        """Return a column that is computed, which says where in a view it was written."""
        return physical.Output(name, without_spans(expression), self.origin(view, expression.span))
