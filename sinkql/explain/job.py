"""The tree of a job, and with its state: a line for each arrangement below its operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from sinkql import physical
from sinkql.explain.expression import duration, flat, frame_sql, name, scalar, sql
from sinkql.explain.tree import Tree, tree
from sinkql.logical.expression import Reference


def job_tree(job: physical.Job) -> Tree:
    """Return the tree of a job."""
    return tree(
        f"Job {job.sink}{' (materialized view)' if job.view else ''}",
        f"cluster: {job.cluster} ({job.master})",
        None if job.state is None else f"state: {job.state.path}",
        f"commit interval: {duration(job.commit_interval)}",
        f"most rows a commit: {job.max_rows_per_commit}",
        f"buckets: {job.buckets}" if job.buckets is not None else None,
        None if job.snapshot else "starts at: the source's end",
        _timeline(job),
        _write(job),
        _shared(job.graph),
        map(_index, job.indexes),
    )


def _index(index: physical.Arrange) -> Tree:
    columns = ", ".join(map(name, index.kept))
    return tree(title(index), f"keeps: rows of {columns}, for the joins of others")


def _timeline(job: physical.Job) -> str | None:
    """Return the line about sources that jobs read up to the same ticks."""
    followed = [read for read in job.reads() if read.source in job.timeline]
    names = [*(read.name for read in followed), *["mz_now()"] * (len(job.timeline) > len(followed))]
    if not names:
        return None
    jointly = any(read.connector == physical.VIEW for read in followed) and len(names) > 1
    return f"reads {'at one tick' if jointly else 'up to common ticks'}: {', '.join(names)}"


def graph_tree(graph: physical.Graph) -> Tree:
    """Return the tree of a relation's operators; operators with several readers follow below it."""
    root = operator_tree(graph.root)
    return Tree(root.title, (*root.parts, *_shared(graph)))


def _shared(graph: physical.Graph) -> Iterator[Tree]:
    uses = Counter(use.name for use in graph.operators() if isinstance(use, physical.Use))
    for label, operator in graph.shared.items():
        times = "twice" if uses[label] == 2 else f"{uses[label]} times"
        yield tree(f"{name(label)}, used {times}:", operator_tree(operator))


def _write(job: physical.Job) -> Tree:
    write, copartitioned = job.write, job.copartitioned
    changelog = ", with changelog columns" if write.changelog and write.mode == "append" else ""
    options = (
        f"{option.replace('_', ' ')}: {_option(value)}"
        for option, value in sorted(write.options.items())
        if value is not None and not isinstance(value, dict)
    )
    return tree(
        f"Write {write.connector}: {write.connection.name}",
        f"columns: {_columns(write.columns)}",
        f"mode: {write.mode}{changelog}",
        f"changes: {write.change}",
        f"key: {', '.join(write.key)}{'' if write.proven else ' (not proven unique)'}" if write.key else None,
        f"store: {write.store.name}" if write.store is not None else None,
        f"done in the tasks of: {title(copartitioned.operator)}" if copartitioned is not None else None,
        options,
        operator_tree(write.input),
    )


def _option(value: Any) -> str:
    """Return an option's value; for a list of clauses, the SQL of each clause."""
    return ", ".join(clause["sql"] for clause in value) if isinstance(value, list | tuple) else scalar(value)


def operator_tree(operator: physical.Operator) -> Tree:
    """Return the tree of an operator, its inputs below it."""
    match operator:
        case physical.Read():
            columns, changes = f"columns: {_columns(operator.columns)}", f"changes: {operator.change}{_by(operator)}"
            return tree(title(operator), columns, changes, flat(operator.options))
        case physical.Map():
            where = f"where: {sql(operator.where.expression)}" if operator.where is not None else None
            outputs = (f"{name(output.name)} {output.type}: {sql(output.expression)}" for output in operator.outputs)
            return tree(title(operator), where, outputs, operator_tree(operator.input))
        case physical.Union():
            return tree(title(operator), map(operator_tree, operator.inputs))
        case physical.Aggregate():
            calls = map(_call, operator.calls)
            return tree(
                title(operator), calls, f"input changes: {operator.input_change}", operator_tree(operator.input)
            )
        case physical.Pick():
            return tree(title(operator), operator_tree(operator.input))
        case physical.Normalize():
            stored = f"keeps: {', '.join(map(name, operator.kept))}" if operator.kept else None
            return tree(title(operator), stored, operator_tree(operator.input))
        case physical.Use():
            return tree(title(operator))
        case physical.Flatten() | physical.Repeat() | physical.Bound():
            return tree(title(operator), operator_tree(operator.input))
        case physical.Join():
            order = None if operator.compared is None else operator.compared.left
            sides = ((operator.left, order), (operator.right, None))
            parts = ((_stored_line(side, by), operator_tree(side.input)) for side, by in sides)
            return tree(title(operator), (part for pair in parts for part in pair))
        case physical.Arrange():
            stored = ", ".join(map(name, operator.kept)) or "no columns"
            return tree(title(operator), f"keeps: rows of {stored}", operator_tree(operator.input))
        case physical.Rank():
            return tree(title(operator), operator_tree(operator.input))
        case physical.Recompute():
            return tree(title(operator), map(_window_call, operator.calls), operator_tree(operator.input))


def _stored_line(side: physical.Side, order: str | None) -> str:
    if side.within:
        return "keeps: nothing, since its join is done in the same tasks"
    where = ", in every task" if side.replicated else ""
    columns = ", ".join(map(name, side.kept)) or "no columns"
    if side.index is not None:
        return f"looks up: {side.keeps} of {columns}, in index {side.arrangement} of the view"
    if side.reads:
        return f"reads: {side.keeps} of {columns}, which another side keeps"
    by = f", in the order of {name(order)}" if order is not None else ""
    return f"keeps: {side.keeps} of {columns}{where}{by}"


def _window_call(call: physical.WindowCall) -> str:
    arguments = ", ".join([*map(name, call.columns), *call.constants])
    order = f" order by {_ordered(call.order)}" if call.order else ""
    called = f"{call.function}({'distinct ' if call.distinct else ''}{arguments})"
    return f"{name(call.name)} {call.type}: {called}{order}{frame_sql(call.frame)}"


def _ordered(order: tuple[physical.Order, ...]) -> str:
    return ", ".join(f"{name(term.column)}{' desc' if term.descending else ''}" for term in order)


def _key_of(side: physical.Side) -> Iterator[str]:
    """Yield the columns of a side's key; a computed column is shown by its expression."""
    for column in side.key:
        yield name(column) if column in side.kept else _named(side, column)


def _key_of_index(arrange: physical.Arrange) -> Iterator[str]:
    """Yield the columns of an index's key; a computed column is shown by its expression."""
    below = arrange.input
    computed = {output.name: output.expression for output in below.outputs} if isinstance(below, physical.Map) else {}
    for column in arrange.key:
        expression = computed.get(column)
        yield name(column) if expression is None or isinstance(expression, Reference) else sql(expression)


def _named(side: physical.Side, column: str) -> str:
    """Return a column of a side's input, or the expression of a column computed for the join."""
    below = side.input
    computed = {output.name: output.expression for output in below.outputs} if isinstance(below, physical.Map) else {}
    expression = computed.get(column)
    return name(column) if expression is None or isinstance(expression, Reference) else sql(expression)


def _by(read: physical.Read) -> str:
    return f" by {', '.join(map(name, read.key))}" if read.key else ""


def _call(call: physical.AggregateCall) -> str:
    argument = ("distinct " if call.distinct else "") + (call.column or "*")
    return f"{name(call.name)} {call.type}: {call.function}({argument})"


def title(operator: physical.Operator) -> str:
    """Return an operator's name and its main properties in one line."""
    match operator:
        case physical.Read():
            return f"Read {operator.connector}: {operator.name}"
        case physical.Map():
            return "Map"
        case physical.Union():
            return f"Union: {operator.change}"
        case physical.Aggregate():
            group = ", ".join(name(column.name) for column in operator.group) or "one group"
            return f"Aggregate {operator.arrangement} by {group}"
        case physical.Pick():
            return f"Pick {operator.arrangement}: one row by {', '.join(map(name, operator.key))}"
        case physical.Normalize():
            return f"Normalize {operator.arrangement} by {', '.join(map(name, operator.key))}"
        case physical.Use():
            return f"Use {name(operator.name)}"
        case physical.Flatten():
            number = "" if operator.ordinality is None else f" WITH ORDINALITY {name(operator.ordinality)}"
            outer = ", with NULL for none" if operator.outer else ""
            return f"Flatten {sql(operator.array.expression)} as {name(operator.name)}{number}{outer}"
        case physical.Repeat():
            return f"Repeat {sql(operator.times.expression)}"
        case physical.Join(compared=physical.Compared() as compared):
            value, limit = _named(operator.left, compared.left), _named(operator.right, compared.right)
            return f"Bound {operator.arrangement}: {value} {compared.comparison} {limit}"
        case physical.Join():
            sides = (_key_of(side) for side in (operator.left, operator.right))
            equal = ("IS NOT DISTINCT FROM" if safe else "=" for safe in operator.safe)
            pairs = zip(*sides, equal, strict=True)
            keys = ", ".join(f"{left} {sign} {right}" for left, right, sign in pairs) or "every pair"
            return f"Join {operator.arrangement}: {operator.kind}, {keys}"
        case physical.Rank():
            by = ", ".join(map(name, operator.partition)) or ("parts" if operator.parts else "one partition")
            last = "" if operator.last is None else f" to {operator.last}"
            order = f", order by {_ordered(operator.order)}" if operator.order else ""
            return f"Rank {operator.arrangement} by {by}: {operator.function} {operator.first}{last}{order}"
        case physical.Recompute():
            by = ", ".join(map(name, operator.key)) or "all rows"
            return f"Recompute {operator.arrangement} by {by}"
        case physical.Arrange():
            return f"Index {operator.arrangement} by {', '.join(_key_of_index(operator))}"
        case physical.Bound():
            begin, end = (name(bound) if bound is not None else "ever" for bound in (operator.begin, operator.end))
            return f"Bound {operator.arrangement}: from {begin} until {end}"


def _columns(columns: tuple[physical.Column, ...]) -> str:
    return ", ".join(f"{name(column.name)} {column.type}{'' if column.nullable else ' not null'}" for column in columns)


Held = Mapping[str, Mapping[str, Any]]
"""The state of a job's arrangements by name, as `runtime.batch.metrics` reports it."""


def with_state(root: Tree, job: physical.Job, held: Held) -> Tree:
    """Return the tree of a job with the state of its operators, and the changes of the last batch."""
    notes: dict[str, list[str]] = {}
    for operator in job.graph.running():
        if isinstance(operator, physical.Stateful):
            notes[title(operator)] = list(_notes(operator, held))
    return _noted(root, notes)


def _noted(node: Tree, notes: Mapping[str, list[str]]) -> Tree:
    below = (_noted(part, notes) if isinstance(part, Tree) else part for part in node.parts)
    return Tree(node.title, (*notes.get(node.title, ()), *below))


def _notes(operator: physical.Stateful, held: Held) -> Iterator[str]:
    parts = {name: facts for name, facts in held.items() if facts["of"] == operator.arrangement}
    if not parts:
        yield "state: not known yet"
    for part, facts in parts.items():
        wide = f", widest key {_rows(facts['widest'])}" if facts["widest"] > 1 else ""
        yield f"state {part}: {_rows(facts['held_rows'])}, {facts['bytes']:,} bytes, {_runs(facts['runs'])}{wide}"
    last = next((facts for facts in parts.values() if "taken" in facts), None)
    if last is not None:
        yield f"last batch: {_rows(last['taken'])} taken, {last['gave']:,} given"


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _runs(count: int) -> str:
    return f"{count:,} run{'' if count == 1 else 's'}"
