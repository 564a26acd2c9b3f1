"""Lower items and their relations to operators; views are inlined, and stateless steps are fused.

Also lowers temporal filters, constant relations, Flatten and Repeat.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from sinkql import logical, physical
from sinkql.connector_api.cdc import log_connection
from sinkql.errors import SinkqlError
from sinkql.evaluate import NotEvaluableError
from sinkql.evaluate.relation import rows_of
from sinkql.logical.expression import text_of
from sinkql.logical.function import AGGREGATES
from sinkql.logical.type import INTEGER, INTERVAL, TEXT
from sinkql.lowering.context import Context
from sinkql.lowering.join import JoinLowering
from sinkql.lowering.materialized_view import get_view_id
from sinkql.lowering.window import lower_collect, lower_rank, lower_window
from sinkql.planner.name import split_name


@dataclass(frozen=True, slots=True)
class ItemLowering:
    """The lowering of the sources and views of one job, each once."""

    context: Context
    _cache: dict[str, physical.Operator] = field(default_factory=dict)

    def item(self, name: str) -> physical.Operator:
        if name in self._cache:
            return self.context.again(self._cache[name], split_name(name)[-1])
        item = logical.get_relation(self.context.catalog, name)
        if name in self.context.logs:
            return self.log(logical.get_item(self.context.catalog, name, logical.View))
        body = self.operator(item)
        # unchanged values are filled before anything is computed from a row
        if isinstance(body, physical.Read) and body.holes:
            body = self.context.retracting(body)
        self._cache[name] = body
        return body

    def operator(self, item: logical.Source | logical.View) -> physical.Operator:
        if isinstance(item, logical.Source):
            return self.source(item)
        body = _View(self, item.name).relation(item.relation)
        return _rename(body, item.relation.shape.columns, item.shape.columns)

    def log(self, view: logical.View) -> physical.Read:
        """Return the read of a view's log."""
        state = self.context.state_of(view.cluster)
        id_ = get_view_id(view.name, self.context.catalog)
        return physical.Read(
            source=id_,
            connector=physical.VIEW,
            options={"view_id": id_, **({"tuning": {"state": state.path}} if state is not None else {})},
            columns=physical_columns(view.shape.columns),
            change="append" if view.shape.change is logical.Change.APPEND else "retract",
            renamed=view.name,
            log=state.connection if state is not None else None,
        )

    def source(self, item: logical.Source) -> physical.Read:
        entry = self.context.catalog.entry(item.name)
        known_as = entry.facts.get("identity", item.name) if entry is not None else item.name
        log = log_connection(item.options)
        return physical.Read(
            source=known_as,
            connector=item.kind,
            options=dict(item.options),
            columns=physical_columns(item.shape.columns),
            change=item.shape.change.value,
            key=_key(item.shape),
            holes=bool(item.options.get("holes")),
            connection=self.context.connection(item.connection) if item.connection else None,
            renamed=item.name if item.name != known_as else None,
            log=self.context.connection(log) if log is not None else None,
        )


@dataclass(frozen=True, slots=True)
class OneShotLowering(ItemLowering):
    """The lowering of a query that runs once over the present rows of sources, tables and sinks.

    Each of them is an append-only source under its full name; views are inlined.
    """

    def item(self, name: str) -> physical.Operator:
        from sinkql.planner.query.plan import sink_shape  # loads sqlglot, which only queries need

        item = self.context.catalog.item(name)
        if isinstance(item, logical.View):
            return ItemLowering.item(self, name)
        if name not in self._cache:
            assert isinstance(item, logical.Source | logical.Sink), name
            shape = sink_shape(item) if isinstance(item, logical.Sink) else item.shape
            self._cache[name] = physical.Read(name, "", {}, physical_columns(shape.columns))
        return self._cache[name]

    def relation(self, relation: logical.Relation) -> physical.Operator:
        """Return the operator of a query's relation."""
        return _View(self, "").relation(relation)


@dataclass(frozen=True, slots=True)
class _View:
    """The lowering of the relations of one view, each once."""

    whole: ItemLowering
    name: str
    _cache: dict[int, tuple[logical.Relation, physical.Operator]] = field(default_factory=dict)

    def relation(self, relation: logical.Relation) -> physical.Operator:
        cached = self._cache.get(id(relation))
        if cached is not None:
            return self.context.again(cached[1])
        read = constant(relation, self.context.catalog)
        operator = self.context.constant(read) if read is not None else self._relation(relation)
        self._cache[id(relation)] = (relation, operator)  # the cache holds the relation, so no other object gets its id
        return operator

    def _relation(self, relation: logical.Relation) -> physical.Operator:
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
            case logical.Join():
                sides = [self.relation(side) for side in (relation.left, relation.right)]
                return JoinLowering(self.context, self.name).join(relation, sides[0], sides[1])
            case logical.Flatten():
                return flatten(relation, self.relation(relation.input), self.context, self.name)
            case logical.Repeat():
                return repeat(relation, self.relation(relation.input), self.context, self.name)
            case logical.Bound():
                return bound(relation, self.relation(relation.input), self.context, self.name)
            case logical.Rank():
                return lower_rank(relation, self.retracting(relation.input), self.context, self.output)
            case logical.Window():
                return lower_window(relation, self.retracting(relation.input), self.context, self.output)
            case logical.Collect():
                return lower_collect(relation, self.retracting(relation.input), self.context, self.output)

    def retracting(self, relation: logical.Relation) -> physical.Operator:
        return self.context.retracting(self.relation(relation))

    def project(self, relation: logical.Project) -> physical.Operator:
        below = self.relation(relation.input)
        if relation.shape.change is logical.Change.RETRACT:
            below = self.context.retracting(below)
        if _is_identity(relation):
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
            calls.append(physical.AggregateCall(call.name, _function(call), column, call.distinct, call.type, version))
        group = tuple(self.output(output.name, output.expression) for output in relation.group)
        outputs = (*group, *arguments.values()) or (physical.Output("$one", logical.literal(1, INTEGER)),)
        below = _map(self.context.retracting(self.relation(relation.input)), outputs)
        return physical.Aggregate(
            input=below,
            arrangement=self.context.arrangement(),
            group=tuple(physical.Column(output.name, output.type, output.nullable) for output in group),
            calls=tuple(calls),
            input_change=physical.change_of(below),
        )

    def union(self, relation: logical.Union) -> physical.Operator:
        columns = relation.shape.columns
        below = [(self.context.retracting(self.relation(input_)), input_.shape.columns) for input_ in relation.inputs]
        inputs = tuple(_rename(operator, have, columns) for operator, have in below)
        appended = self.context.placed and all(physical.change_of(input_) == "append" for input_ in inputs)
        return physical.Union(inputs, "append" if appended else relation.shape.change.value)

    @property
    def context(self) -> Context:
        return self.whole.context

    def output(self, name: str, expression: logical.Expression) -> physical.Output:
        return self.context.output(name, expression, self.name)


def _map(below: physical.Operator, outputs: tuple[physical.Output, ...]) -> physical.Map:
    """Return a projection of `below`, fused with a filter just below."""
    if isinstance(below, physical.Map) and not below.outputs:
        return physical.Map(below.input, outputs, below.where)
    return physical.Map(below, outputs)


def _function(call: logical.AggregateCall) -> Literal["count", "sum", "min", "max"]:
    match call.function:
        case "count" | "sum" | "min" | "max" as function:
            return function
        case other:
            raise AssertionError(other)


def _is_identity(relation: logical.Project) -> bool:
    """Return whether a projection only passes on all its input's columns in their order."""
    below = [column.name for column in relation.input.shape.columns]
    return [output.name for output in relation.outputs] == below and all(
        isinstance(output.expression, logical.Reference) and output.expression.name == output.name
        for output in relation.outputs
    )


def _rename(
    below: physical.Operator, have: tuple[logical.Column, ...], want: tuple[logical.Column, ...]
) -> physical.Operator:
    """Return `below` with its columns renamed by position."""
    if [column.name for column in have] == [column.name for column in want]:
        return below
    outputs = tuple(
        physical.Output(new.name, logical.Reference(old.name, old.type, old.nullable))
        for old, new in zip(have, want, strict=True)
    )
    return physical.Map(below, outputs)


def _key(shape: logical.Shape) -> tuple[str, ...]:
    """Return the key by which rows overwrite each other, in the order of the columns."""
    if shape.change is not logical.Change.UPSERT:
        return ()
    return tuple(column.name for column in shape.columns if column.name in shape.keys[0])


def physical_columns(columns: tuple[logical.Column, ...]) -> tuple[physical.Column, ...]:
    return tuple(physical.Column(column.name, column.type, column.nullable) for column in columns)


_BEGIN, _END = "$begin", "$end"


def bound(relation: logical.Bound, below: physical.Operator, context: Context, view: str) -> physical.Bound:
    """Lower a temporal filter over the rows of its lowered input."""
    columns = relation.shape.columns
    times = [(_BEGIN, relation.begin), (_END, relation.end)]
    computed = [context.output(name, time, view) for name, time in times if time is not None]
    columns_ = (
        physical.Output(column.name, logical.Reference(column.name, column.type, column.nullable)) for column in columns
    )
    begin, end = (None if time is None else name for name, time in times)
    rows = physical.Map(context.retracting(below), (*columns_, *computed))
    return physical.Bound(rows, context.arrangement(), begin, end, tuple(column.name for column in columns))


_MOST_ROWS = 10_000
_NESTED = ("map", "record")


def constant(relation: logical.Relation, catalog: logical.CatalogReader) -> physical.Read | None:
    """Return the read of a relation's constant rows, None if a job has to compute them.

    Rows that fail are not reported here, since the view may not be read at all.
    """
    if relation == logical.ONE:
        return _read((physical.Column("$one", INTEGER, nullable=False),), [["1"]])
    if not reads_nothing(relation) or any(_has_type(column.type, _NESTED) for column in relation.shape.columns):
        return None
    run = rows_of(relation, catalog)
    try:
        rows = list(islice(run(lambda name: []), _MOST_ROWS + 1)) if run is not None else None
    except (NotEvaluableError, SinkqlError):
        return None
    if rows is None or len(rows) > _MOST_ROWS:
        return None
    types = [TEXT if column.type == INTERVAL else column.type for column in relation.shape.columns]
    texts = [
        [None if value is None else text_of(value, of) for value, of in zip(row, types, strict=True)] for row in rows
    ]
    columns = tuple(physical.Column(column.name, column.type, column.nullable) for column in relation.shape.columns)
    return _read(columns, texts)


def _read(columns: tuple[physical.Column, ...], rows: list[list[Any]]) -> physical.Read:
    """Return the read of rows; its source is named by their hash, so that different rows are different sources."""
    what = json.dumps([[str(column.type) for column in columns], rows], ensure_ascii=False)
    name = f"constant {hashlib.sha256(what.encode()).hexdigest()[:8]}"
    return physical.Read(name, physical.CONSTANT, {"rows": rows}, columns)


def reads_nothing(relation: logical.Relation) -> bool:
    below = logical.inputs_of(relation)
    return all(map(reads_nothing, below)) if below else relation == logical.ONE


def _has_type(type_: logical.Type, names: tuple[str, ...]) -> bool:
    return type_.name in names or (type_.element is not None and _has_type(type_.element, names))


_ARRAY = "$array"


def flatten(relation: logical.Flatten, below: physical.Operator, context: Context, view: str) -> physical.Operator:
    """Lower a Flatten over its lowered input; the array is computed in a separate step, where errors are found."""
    input_columns = relation.input.shape.columns
    element, *number = relation.shape.columns[len(input_columns) :]
    array = context.output(_ARRAY, relation.array, view)
    with_array = physical.Map(context.retracting(below), (*map(_pass_column, input_columns), array))
    flat = physical.Flatten(
        with_array,
        physical.Output(_ARRAY, logical.Reference(_ARRAY, relation.array.type, relation.array.nullable)),
        element.name,
        element.type,
        number[0].name if number else None,
        relation.outer,
    )
    return physical.Map(flat, tuple(map(_pass_column, relation.shape.columns)))


def repeat(relation: logical.Repeat, below: physical.Operator, context: Context, view: str) -> physical.Operator:
    """Lower a Repeat over its lowered input."""
    return physical.Repeat(context.retracting(below), context.output("$times", relation.times, view))


def _pass_column(column: logical.Column) -> physical.Output:
    return physical.Output(column.name, logical.Reference(column.name, column.type, column.nullable))
