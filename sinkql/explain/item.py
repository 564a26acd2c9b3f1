"""The tree of a planned item, and of any dataclass.

The tree of a dataclass has its class, then its fields without spans, empty fields and secrets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from sinkql import ast, logical
from sinkql.errors import Span
from sinkql.explain.expression import duration, flat, frame_sql, name, scalar, sql
from sinkql.explain.tree import Tree, tree


def view_tree(view: logical.View) -> Tree:
    """Return the tree of a view: its shape, then its query."""
    return tree(f"View {view.name}", shape(view.shape), _relation(view.relation))


def sink_tree(sink: logical.Sink) -> Tree:
    """Return the tree of a sink."""
    changelog = ", with changelog columns" if sink.mode == "append" and sink.changelog else ""
    return tree(
        f"Sink {sink.name}",
        f"from: {sink.relation}",
        f"into: {sink.kind} {sink.connection}",
        f"cluster: {sink.cluster}",
        f"mode: {sink.mode}{changelog}",
        f"key: {', '.join(sink.key)}{'' if sink.enforced else ' not enforced'}" if sink.key else None,
        f"commit interval: {duration(sink.commit_interval)}",
        f"most rows a commit: {sink.max_rows_per_commit}",
        f"buckets: {sink.buckets}" if sink.buckets is not None else None,
        None if sink.snapshot else "starts at: the source's end",
        shape(sink.shape),
    )


def shape(rows_shape: logical.Shape) -> Iterator[str]:
    """Yield the known properties of a relation's rows."""
    columns = (
        f"{name(column.name)} {column.type}{'' if column.nullable else ' not null'}" for column in rows_shape.columns
    )
    yield f"columns: {', '.join(columns)}"
    yield from _unique(rows_shape)
    yield f"changes: {rows_shape.change}"


def _unique(rows_shape: logical.Shape) -> Iterator[str]:
    for key in rows_shape.keys:
        yield f"unique: {', '.join(map(name, sorted(key))) or 'one row'}"


def _relation(relation: logical.Relation) -> Tree:
    match relation:
        case logical.Get():
            return tree("One row" if relation == logical.ONE else f"Get {relation.item}")
        case logical.Project():
            return tree("Project", map(_output, relation.outputs), _relation(relation.input))
        case logical.Filter():
            return tree(f"Filter {sql(relation.predicate)}", _relation(relation.input))
        case logical.Aggregate():
            group = ", ".join(f"{name(output.name)}: {sql(output.expression)}" for output in relation.group)
            calls = map(_call, relation.calls)
            return tree(f"Aggregate by {group or 'one group'}", calls, _relation(relation.input))
        case logical.Union():
            return tree("Union", map(_relation, relation.inputs))
        case logical.Join():
            return _join(relation)
        case logical.Rank():
            last = "" if relation.last is None else f" to {relation.last}"
            return tree(
                f"Rank {relation.function} {relation.first}{last}",
                f"partition: {', '.join(map(sql, relation.partition))}" if relation.partition else None,
                f"order: {_order(relation.order)}" if relation.order else None,
                f"number: {name(relation.number)}" if relation.number is not None else None,
                _relation(relation.input),
            )
        case logical.Window():
            over = ", ".join(map(sql, relation.partition)) or "all rows"
            return tree(f"Window over {over}", map(_window_call, relation.calls), _relation(relation.input))
        case logical.Collect():
            group = ", ".join(f"{name(output.name)}: {sql(output.expression)}" for output in relation.group)
            return tree(
                f"Collect by {group or 'one group'}", map(_window_call, relation.calls), _relation(relation.input)
            )
        case logical.Bound():
            begin, end = (sql(limit) if limit is not None else None for limit in (relation.begin, relation.end))
            return tree(
                "Bound",
                f"begin: {begin}" if begin is not None else None,
                f"end: {end}" if end is not None else None,
                _relation(relation.input),
            )
        case logical.Flatten():
            number = " WITH ORDINALITY" if relation.ordinality else ""
            outer = ", with NULL for none" if relation.outer else ""
            return tree(f"Flatten {sql(relation.array)}{number}{outer}", _relation(relation.input))
        case logical.Repeat():
            return tree(f"Repeat {sql(relation.times)}", _relation(relation.input))


def _join(join: logical.Join) -> Tree:
    keys = (f"{sql(key.left)} {'IS NOT DISTINCT FROM' if key.safe else '='} {sql(key.right)}" for key in join.keys)
    return tree(
        f"Join {join.kind}",
        keys,
        f"residual: {sql(join.residual)}{_more(join)}" if join.residual is not None else None,
        f"in every task: the {join.replicated} side" if join.replicated is not None else None,
        _unique(join.shape),
        _relation(join.left),
        _relation(join.right),
    )


def _more(join: logical.Join) -> str:
    """Return a note on the cost of a join without an equality: extra exchanges, or a moving bound."""
    if logical.threshold_of(join) is not None:
        return " (a bound: reads only the rows between the old value and the new one)"
    if logical.paired_once(join):
        return ""
    match join.kind:
        case logical.JoinKind.INNER:
            return ""
        case logical.JoinKind.FULL:
            return " (two exchanges more)"
        case _:
            return " (one exchange more)"


def _order(order: tuple[logical.Sort, ...]) -> str:
    return ", ".join(
        f"{sql(term.expression)}{' DESC' if term.descending else ''} NULLS {'FIRST' if term.nulls_first else 'LAST'}"
        for term in order
    )


def _window_call(call: logical.WindowCall) -> str:
    arguments = ", ".join([*map(sql, call.arguments), *call.constants])
    order = f" ORDER BY {_order(call.order)}" if call.order else ""
    called = f"{call.function}({'distinct ' if call.distinct else ''}{arguments})"
    return f"{name(call.name)} {call.type}: {called}{order}{frame_sql(call.frame)}"


def _output(output: logical.Output) -> str:
    return f"{name(output.name)} {output.expression.type}: {sql(output.expression)}"


def _call(call: logical.AggregateCall) -> str:
    argument = sql(call.argument) if call.argument is not None else "*"
    return f"{name(call.name)} {call.type}: {call.function}({'distinct ' if call.distinct else ''}{argument})"


def node_tree(value: Any) -> Tree:
    """Return the tree of a statement, or of any value of dataclasses."""
    return tree(type(value).__name__, _fields(value))


def _fields(value: Any) -> Iterator[str | Tree]:
    for field in dataclasses.fields(value):
        inner = getattr(value, field.name)
        if field.repr and not (inner is None or inner == () or inner == {} or isinstance(inner, Span)):
            yield from _field(field.name.replace("_", " "), inner)


def _field(name: str, value: Any) -> Iterator[str | Tree]:
    match value:
        case ast.Ident() | ast.Name():
            yield f"{name}: {value.value if isinstance(value, ast.Ident) else value.text}"
        case ast.Query() | ast.Expression():
            yield tree(f"{name}:", (line.strip() for line in value.text.splitlines()))
        case logical.Shape():
            yield from shape(value)
        case tuple():
            yield tree(
                f"{name}:",
                (node_tree(element) if dataclasses.is_dataclass(element) else str(element) for element in value),
            )
        case Mapping():
            yield from flat(value)
        case Enum():
            yield f"{name}: {value.value}"
        case _ if dataclasses.is_dataclass(value):
            yield tree(f"{name}:", node_tree(value))
        case _:
            yield f"{name}: {scalar(value)}"
