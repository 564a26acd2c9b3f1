"""What an item means → its tree."""

from __future__ import annotations

from collections.abc import Iterator

from sinkql import logical
from sinkql.explain.expression import name, sql
from sinkql.explain.tree import Tree, tree
from sinkql.explain.word import duration


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
        None if sink.snapshot else "starts at: the source's end",
        shape(sink.shape),
    )


def shape(found: logical.Shape) -> Iterator[str]:
    """Yield what is known of a relation's rows."""
    columns = (f"{name(each.name)} {each.type}{'' if each.nullable else ' not null'}" for each in found.columns)
    yield f"columns: {', '.join(columns)}"
    for key in found.keys:
        yield f"unique: {', '.join(sorted(key)) or 'one row'}"
    yield f"changes: {found.change}"


def _relation(relation: logical.Relation) -> Tree:
    match relation:
        case logical.Get():
            return tree(f"Get {relation.item}")
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


def _output(output: logical.Output) -> str:
    return f"{name(output.name)} {output.expression.type}: {sql(output.expression)}"


def _call(call: logical.AggregateCall) -> str:
    argument = sql(call.argument) if call.argument is not None else "*"
    return f"{name(call.name)} {call.type}: {call.function}({'distinct ' if call.distinct else ''}{argument})"
