"""logical.Sink → physical.Job: put views in line, choose the operators, fuse what needs no step of its own."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from sinkql import ast, logical, physical
from sinkql.errors import Span
from sinkql.extension.capture import log_connection
from sinkql.logical.expression import without_spans
from sinkql.logical.function import AGGREGATES
from sinkql.logical.type import INTEGER
from sinkql.printer import to_sql

_SINKS = uuid.UUID("6b1f0f6e-6b0e-5d3b-9a55-2f6f2d1f5c11")


def lower(sink_name: str, catalog: logical.CatalogReader) -> physical.Job:
    """Return the job of a sink in the catalog, by its full name. Pure: the same catalog gives the same job."""
    sink = catalog.item(sink_name)
    entry = catalog.entry(sink_name)
    assert isinstance(sink, logical.Sink)
    assert entry is not None
    job = lower_sink(sink, catalog, sink_id=entry.facts.get("sink_id"))
    return msgspec.structs.replace(job, follows=_earlier(entry.facts))


def _earlier(facts: logical.Facts) -> tuple[physical.Earlier, ...]:
    return tuple(msgspec.convert(each, physical.Earlier) for each in facts.get("plans", ()))


def lower_sink(sink: logical.Sink, catalog: logical.CatalogReader, *, sink_id: str | None = None) -> physical.Job:
    """Return the job of a planned sink that need not be in the catalog; without an id it has one made of its name."""
    cluster = catalog.item(sink.cluster)
    assert isinstance(cluster, logical.Cluster)
    lowering = _Lowering(catalog)
    body = lowering.item(sink.relation)
    proven = any(known <= set(sink.key) for known in sink.shape.keys)
    if sink.final or set(sink.key) != set(physical.key_of(body)):  # it must know which rows others take the place of
        body = lowering.retracting(body)
    change = physical.change_of(body)
    if sink.key and change == "retract" and not proven:
        # where a key's row goes, another of its rows may be there still
        body, proven = physical.Pick(body, lowering.arrangement(), sink.key), True
    columns = _columns(sink.shape.columns)
    body = physical.narrowed(body, [column.name for column in columns])
    write = physical.Write(
        input=body,
        connector=sink.kind,
        connection=lowering.connection(sink.connection),
        columns=columns,
        mode=sink.mode.value,
        change=change,
        changelog=sink.changelog,
        key=sink.key,
        proven=proven,
        options=dict(sink.options),
        store=lowering.connection(sink.store) if sink.store else None,
        final=sink.final,
    )
    return physical.Job(
        sink=sink.name,
        sink_id=sink_id or str(uuid.uuid5(_SINKS, sink.name)),
        cluster=cluster.name,
        master=cluster.master,
        conf=dict(cluster.conf),
        commit_interval=sink.commit_interval,
        max_rows_per_commit=sink.max_rows_per_commit,
        write=write,
        texts=lowering.texts,
        snapshot=sink.snapshot,
    )


def lower_relation(item: logical.Source | logical.View, catalog: logical.CatalogReader) -> physical.Operator:
    """Return the operators that give the rows of a source or a view, which need not be in the catalog."""
    return _Lowering(catalog).operator(item)


def lower_view(view: logical.View, catalog: logical.CatalogReader) -> tuple[physical.Operator, dict[str, str]]:
    """Return the operators that give the rows of a view, and the statements that their origins point into."""
    lowering = _Lowering(catalog)
    return lowering.operator(view), lowering.texts


def lower_connection(name: str, catalog: logical.CatalogReader) -> physical.Connection:
    """Return a connection, with those that it goes through."""
    return _Lowering(catalog).connection(name)


def _key(shape: logical.Shape) -> tuple[str, ...]:
    """Return the key by which rows are overwritten, in the order of the columns."""
    if shape.change is not logical.Change.UPSERT:
        return ()
    return tuple(column.name for column in shape.columns if column.name in shape.keys[0])


def _columns(columns: tuple[logical.Column, ...]) -> tuple[physical.Column, ...]:
    return tuple(physical.Column(column.name, str(column.type), column.nullable) for column in columns)


@dataclass(slots=True)
class _Lowering:
    """Lower one sink's relations; `texts` collects the statements of the views that went in."""

    catalog: logical.CatalogReader
    texts: dict[str, str] = field(default_factory=dict)
    arrangements: int = 0

    def arrangement(self) -> str:
        """Return a name for an operator's state; ask once its input is lowered, so that no other gets the same."""
        self.arrangements += 1
        return f"a{self.arrangements}"

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

    def item(self, name: str) -> physical.Operator:
        item = self.catalog.item(name)
        assert isinstance(item, logical.Source | logical.View)
        body = self.operator(item)
        # what the server left out of a row is known before anything is computed of it
        return self.retracting(body) if isinstance(body, physical.Read) and body.holes else body

    def operator(self, item: logical.Source | logical.View) -> physical.Operator:
        if isinstance(item, logical.Source):
            entry = self.catalog.entry(item.name)
            known_as = entry.facts.get("identity", item.name) if entry is not None else item.name
            log = log_connection(item.options)
            return physical.Read(
                source=known_as,
                connector=item.kind,
                options=dict(item.options),
                columns=_columns(item.shape.columns),
                change=item.shape.change.value,
                key=_key(item.shape),
                holes=bool(item.options.get("holes")),
                connection=self.connection(item.connection) if item.connection else None,
                renamed=item.name if item.name != known_as else None,
                log=self.connection(log) if log is not None else None,
            )
        body = _View(self, item.name).relation(item.relation)
        return _renamed(body, item.relation.shape.columns, item.shape.columns)

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


@dataclass(frozen=True, slots=True)
class _View:
    """Lower the relations of one view."""

    whole: _Lowering
    name: str

    def relation(self, relation: logical.Relation) -> physical.Operator:
        match relation:
            case logical.Get():
                return self.whole.item(relation.item)
            case logical.Project():
                return self.project(relation)
            case logical.Filter():
                where = self.output("", relation.predicate)
                return physical.Map(self.relation(relation.input), where=where)
            case logical.Aggregate():
                return self.aggregate(relation)
            case logical.Union():
                return self.union(relation)

    def project(self, relation: logical.Project) -> physical.Operator:
        below = self.relation(relation.input)
        if relation.shape.change is logical.Change.RETRACT:
            below = self.whole.retracting(below)
        if _names_alone(relation):
            return below
        outputs = tuple(self.output(output.name, output.expression) for output in relation.outputs)
        return _map(below, outputs)

    def aggregate(self, relation: logical.Aggregate) -> physical.Operator:
        arguments: dict[logical.Expression, physical.Output] = {}
        calls = []
        for call in relation.calls:
            column = None
            if call.argument is not None:
                named = self.output(f"$a{len(arguments)}", call.argument)
                column = arguments.setdefault(call.argument, named).name
            version = AGGREGATES[call.function]
            calls.append(
                physical.AggregateCall(call.name, _function(call), column, call.distinct, str(call.type), version)
            )
        group = tuple(self.output(output.name, output.expression) for output in relation.group)
        outputs = (*group, *arguments.values()) or (physical.Output("$one", logical.literal(1, INTEGER)),)
        below = _map(self.whole.retracting(self.relation(relation.input)), outputs)
        return physical.Aggregate(
            input=below,
            arrangement=self.whole.arrangement(),
            group=tuple(physical.Column(output.name, output.type, output.nullable) for output in group),
            calls=tuple(calls),
            input_change=physical.change_of(below),
        )

    def union(self, relation: logical.Union) -> physical.Operator:
        columns = relation.shape.columns
        below = [(self.whole.retracting(self.relation(each)), each.shape.columns) for each in relation.inputs]
        inputs = tuple(_renamed(each, have, columns) for each, have in below)
        return physical.Union(inputs, relation.shape.change.value)

    def output(self, name: str, expression: logical.Expression) -> physical.Output:
        origin = self.whole.origin(self.name, expression.span)
        return physical.Output(name, without_spans(expression), origin)


def _map(below: physical.Operator, outputs: tuple[physical.Output, ...]) -> physical.Map:
    """Return a projection of `below`, taken together with a filter that is just below."""
    if isinstance(below, physical.Map) and not below.outputs:
        return physical.Map(below.input, outputs, below.where)
    return physical.Map(below, outputs)


def _function(call: logical.AggregateCall) -> Literal["count", "sum", "min", "max"]:
    match call.function:
        case "count" | "sum" | "min" | "max" as function:
            return function
        case other:
            raise AssertionError(other)


def _names_alone(relation: logical.Project) -> bool:
    """Tell whether a projection gives just its input's columns, all of them in their order."""
    below = [column.name for column in relation.input.shape.columns]
    return [output.name for output in relation.outputs] == below and all(
        isinstance(output.expression, logical.Reference) and output.expression.name == output.name
        for output in relation.outputs
    )


def _renamed(
    below: physical.Operator, have: tuple[logical.Column, ...], want: tuple[logical.Column, ...]
) -> physical.Operator:
    """Return `below` with its columns' names changed by place."""
    if [column.name for column in have] == [column.name for column in want]:
        return below
    outputs = tuple(
        physical.Output(new.name, logical.Reference(old.name, old.type, old.nullable))
        for old, new in zip(have, want, strict=True)
    )
    return physical.Map(below, outputs)
