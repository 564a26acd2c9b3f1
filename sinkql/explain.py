"""Any plan → an indented tree: a statement's syntax, an item's meaning, or a job.

A line is `Name: what it is`, its inputs stand below it, two spaces further in. Nothing in it depends on when or where
it was made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from sinkql import ast, logical, physical
from sinkql.errors import Span


def to_text(value: ast.Statement | logical.Item | physical.Job) -> str:
    """Return the tree of a statement, an item or a job, without a newline at its end."""
    match value:
        case physical.Job():
            return "\n".join(_job(value))
        case logical.View():
            return "\n".join([f"View {value.name}", *_shape(value.shape), *_indented(_relation(value.relation))])
        case logical.Sink():
            return "\n".join(_sink(value))
        case _:
            return "\n".join(_node(value))


def spark_sql(job: physical.Job) -> str:
    """Return the Spark SQL texts of a job's operators, inputs first."""
    lines: list[str] = []
    for operator in physical.walk(job.write.input):
        match operator:
            case physical.Map():
                selected = [f"{output.sql} AS {_name(output.name)}" for output in operator.outputs] or ["*"]
                lines += ["SELECT", *_commas(f"  {each}" for each in selected)]
                if operator.where is not None:
                    lines.append(f"WHERE {operator.where.sql}")
            case physical.Read() | physical.Union() | physical.Aggregate() | physical.Pick():
                lines.append(f"-- {_operator_line(operator)}")
    return "\n".join(lines)


# --- jobs ---------------------------------------------------------------------------------------------------------


def _job(job: physical.Job) -> Iterator[str]:
    yield f"Job {job.sink}"
    yield f"  cluster: {job.cluster} ({job.master})"
    yield f"  commit interval: {_duration(job.commit_interval_ms)}"
    yield f"  most rows a commit: {job.max_rows}"
    if not job.snapshot:
        yield "  starts at: the source's end"
    yield from _indented(_write(job.write))


def _write(write: physical.Write) -> Iterator[str]:
    yield f"Write {write.connector}: {write.connection.name}"
    columns = ", ".join(_column(column) for column in write.columns)
    yield f"  columns: {columns}"
    changelog = ", with changelog columns" if write.changelog and write.mode == "append" else ""
    yield f"  mode: {write.mode}{changelog}"
    yield f"  changes: {write.change}"
    if write.key:
        yield f"  key: {', '.join(write.key)}{'' if write.proven else ' (not proven unique)'}"
    if write.aws_connection is not None:
        yield f"  aws connection: {write.aws_connection.name}"
    for name, value in sorted(write.options.items()):
        if value is not None and not isinstance(value, dict | list | tuple):
            yield f"  {name.replace('_', ' ')}: {_scalar(value)}"
    yield from _indented(_operator(write.input))


def _operator(operator: physical.Operator) -> Iterator[str]:
    yield _operator_line(operator)
    match operator:
        case physical.Read():
            yield f"  columns: {', '.join(_column(column) for column in operator.columns)}"
            yield f"  changes: {operator.change}"
            for name, value in _flat(operator.options):
                yield f"  {name}: {value}"
        case physical.Map():
            if operator.where is not None:
                yield f"  where: {operator.where.sql}"
            for output in operator.outputs:
                yield f"  {_name(output.name)} {output.type}: {output.sql}"
            yield from _indented(_operator(operator.input))
        case physical.Union():
            for each in operator.inputs:
                yield from _indented(_operator(each))
        case physical.Aggregate():
            for call in operator.calls:
                argument = ("distinct " if call.distinct else "") + (call.column or "*")
                yield f"  {_name(call.name)} {call.type}: {call.function}({argument})"
            yield f"  input changes: {operator.input_change}"
            yield from _indented(_operator(operator.input))
        case physical.Pick():
            yield from _indented(_operator(operator.input))


def _operator_line(operator: physical.Operator) -> str:
    match operator:
        case physical.Read():
            return f"Read {operator.connector}: {operator.source}"
        case physical.Map():
            return "Map"
        case physical.Union():
            return f"Union: {operator.change}"
        case physical.Aggregate():
            group = ", ".join(_name(column.name) for column in operator.group) or "one group"
            return f"Aggregate {operator.arrangement} by {group}"
        case physical.Pick():
            return f"Pick {operator.arrangement}: one row by {', '.join(map(_name, operator.key))}"


def _column(column: physical.Column) -> str:
    return f"{_name(column.name)} {column.type}{'' if column.nullable else ' not null'}"


# --- meaning ------------------------------------------------------------------------------------------------------


def _sink(sink: logical.Sink) -> Iterator[str]:
    yield f"Sink {sink.name}"
    yield f"  from: {sink.relation}"
    yield f"  into: {sink.kind} {sink.connection}"
    yield f"  cluster: {sink.cluster}"
    yield f"  mode: {sink.mode}{', with changelog columns' if sink.mode == 'append' and sink.changelog else ''}"
    if sink.key:
        yield f"  key: {', '.join(sink.key)}{'' if sink.enforced else ' not enforced'}"
    yield f"  commit interval: {_duration(int(sink.commit_interval.total_seconds() * 1000))}"
    yield from _shape(sink.shape)


def _shape(shape: logical.Shape) -> Iterator[str]:
    columns = (
        f"{_name(column.name)} {column.type}{'' if column.nullable else ' not null'}" for column in shape.columns
    )
    yield f"  columns: {', '.join(columns)}"
    for key in shape.keys:
        yield f"  unique: {', '.join(sorted(key)) or 'one row'}"
    yield f"  changes: {shape.change}"


def _relation(relation: logical.Relation) -> Iterator[str]:
    match relation:
        case logical.Get():
            yield f"Get {relation.item}"
        case logical.Project():
            yield "Project"
            for output in relation.outputs:
                yield f"  {_name(output.name)} {output.expression.type}: {output.expression.sql}"
            yield from _indented(_relation(relation.input))
        case logical.Filter():
            yield f"Filter {relation.predicate.sql}"
            yield from _indented(_relation(relation.input))
        case logical.Aggregate():
            group = ", ".join(f"{_name(output.name)}: {output.expression.sql}" for output in relation.group)
            yield f"Aggregate by {group or 'one group'}"
            for call in relation.calls:
                argument = call.argument.sql if call.argument is not None else "*"
                distinct = "distinct " if call.distinct else ""
                yield f"  {_name(call.name)} {call.type}: {call.function}({distinct}{argument})"
            yield from _indented(_relation(relation.input))
        case logical.Union():
            yield "Union"
            for each in relation.inputs:
                yield from _indented(_relation(each))


# --- syntax, and what all share --------------------------------------------------------------------------------------


def _node(value: Any) -> Iterator[str]:
    """Yield any dataclass as a tree: its class, then its fields; spans, empty fields and secrets are left out."""
    yield type(value).__name__
    for field in dataclasses.fields(value):
        if not field.repr:
            continue
        inner = getattr(value, field.name)
        if inner is None or inner == () or inner == {} or isinstance(inner, Span):
            continue
        yield from _field(field.name.replace("_", " "), inner)


def _field(name: str, value: Any) -> Iterator[str]:
    match value:
        case ast.Ident() | ast.Name():
            yield f"  {name}: {value.value if isinstance(value, ast.Ident) else value.text}"
        case ast.Query():
            yield f"  {name}:"
            yield from (f"    {line.strip()}" for line in value.text.splitlines())
        case logical.Shape():
            yield from _shape(value)
        case tuple():
            yield f"  {name}:"
            for each in value:
                yield from _indented(_indented(_node(each) if dataclasses.is_dataclass(each) else iter([str(each)])))
        case Mapping():
            yield from (f"  {key}: {inner}" for key, inner in _flat(value))
        case Enum():
            yield f"  {name}: {value.value}"
        case _ if dataclasses.is_dataclass(value):
            yield f"  {name}:"
            yield from _indented(_indented(_node(value)))
        case _:
            yield f"  {name}: {_scalar(value)}"


def _flat(options: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in sorted(options.items()):
        label = prefix + name.replace("_", " ")
        if isinstance(value, Mapping):
            yield from _flat(value, f"{label}.")
        elif value is not None:
            yield label, _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ", ".join(_scalar(each) for each in value)
    return str(value)


def _name(name: str) -> str:
    return name if name.replace("_", "a").replace("$", "a").isalnum() else '"' + name.replace('"', '""') + '"'


def _duration(ms: int) -> str:
    if ms % 1000:
        return f"{ms} ms"
    return f"{ms // 1000} s"


def _commas(lines: Iterator[str]) -> list[str]:
    found = list(lines)
    return [line + "," for line in found[:-1]] + found[-1:]


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)
