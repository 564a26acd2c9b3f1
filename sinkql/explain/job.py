"""A job, or a part of one → its tree; its Spark SQL."""

from __future__ import annotations

from collections.abc import Iterator

from sinkql import physical
from sinkql.explain.tree import Tree, tree
from sinkql.explain.word import duration, flat, name, scalar


def job_tree(job: physical.Job) -> Tree:
    """Return the tree of a job."""
    return tree(
        f"Job {job.sink}",
        f"cluster: {job.cluster} ({job.master})",
        f"commit interval: {duration(job.commit_interval_ms)}",
        f"most rows a commit: {job.max_rows}",
        None if job.snapshot else "starts at: the source's end",
        _write(job.write),
    )


def _write(write: physical.Write) -> Tree:
    changelog = ", with changelog columns" if write.changelog and write.mode == "append" else ""
    options = (
        f"{option.replace('_', ' ')}: {scalar(value)}"
        for option, value in sorted(write.options.items())
        if value is not None and not isinstance(value, dict | list | tuple)
    )
    return tree(
        f"Write {write.connector}: {write.connection.name}",
        f"columns: {_columns(write.columns)}",
        f"mode: {write.mode}{changelog}",
        f"changes: {write.change}",
        f"key: {', '.join(write.key)}{'' if write.proven else ' (not proven unique)'}" if write.key else None,
        f"aws connection: {write.aws_connection.name}" if write.aws_connection is not None else None,
        options,
        operator_tree(write.input),
    )


def operator_tree(operator: physical.Operator) -> Tree:
    """Return the tree of an operator, its inputs below it."""
    title = _title(operator)
    match operator:
        case physical.Read():
            columns, changes = f"columns: {_columns(operator.columns)}", f"changes: {operator.change}"
            return tree(title, columns, changes, flat(operator.options))
        case physical.Map():
            where = f"where: {operator.where.sql}" if operator.where is not None else None
            outputs = (f"{name(each.name)} {each.type}: {each.sql}" for each in operator.outputs)
            return tree(title, where, outputs, operator_tree(operator.input))
        case physical.Union():
            return tree(title, map(operator_tree, operator.inputs))
        case physical.Aggregate():
            calls = map(_call, operator.calls)
            return tree(title, calls, f"input changes: {operator.input_change}", operator_tree(operator.input))
        case physical.Pick():
            return tree(title, operator_tree(operator.input))


def _call(call: physical.AggregateCall) -> str:
    argument = ("distinct " if call.distinct else "") + (call.column or "*")
    return f"{name(call.name)} {call.type}: {call.function}({argument})"


def _title(operator: physical.Operator) -> str:
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


def _columns(columns: tuple[physical.Column, ...]) -> str:
    return ", ".join(f"{name(each.name)} {each.type}{'' if each.nullable else ' not null'}" for each in columns)


def spark_sql(plan: physical.Job | physical.Operator) -> str:
    """Return the Spark SQL texts of a plan's operators, inputs first."""
    return "\n".join(_spark_sql(plan.write.input if isinstance(plan, physical.Job) else plan))


def _spark_sql(root: physical.Operator) -> Iterator[str]:
    for operator in physical.walk(root):
        match operator:
            case physical.Map():
                selected = [f"{output.sql} AS {name(output.name)}" for output in operator.outputs] or ["*"]
                yield "SELECT"
                yield ",\n".join(f"  {each}" for each in selected)
                if operator.where is not None:
                    yield f"WHERE {operator.where.sql}"
            case physical.Read() | physical.Union() | physical.Aggregate() | physical.Pick():
                yield f"-- {_title(operator)}"
