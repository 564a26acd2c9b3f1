"""Rows that come several times or not at all → operators without state."""

from __future__ import annotations

from sinkql import logical, physical
from sinkql.lowering.context import Context

_ARRAY = "$array"


def flatten(relation: logical.Flatten, below: physical.Operator, context: Context, view: str) -> physical.Operator:
    """Lower a Flatten over its lowered input: a row of an array that fails is found where the array is computed."""
    given = relation.input.shape.columns
    element, *number = relation.shape.columns[len(given) :]
    array = context.output(_ARRAY, relation.array, view)
    held = physical.Map(context.retracting(below), (*map(_same, given), array))
    flat = physical.Flatten(
        held,
        physical.Output(_ARRAY, logical.Reference(_ARRAY, relation.array.type, relation.array.nullable)),
        element.name,
        str(element.type),
        number[0].name if number else None,
        relation.outer,
    )
    return physical.Map(flat, tuple(map(_same, relation.shape.columns)))


def repeat(relation: logical.Repeat, below: physical.Operator, context: Context, view: str) -> physical.Operator:
    """Lower a Repeat over its lowered input."""
    return physical.Repeat(context.retracting(below), context.output("$times", relation.times, view))


def _same(column: logical.Column) -> physical.Output:
    return physical.Output(column.name, logical.Reference(column.name, column.type, column.nullable))
