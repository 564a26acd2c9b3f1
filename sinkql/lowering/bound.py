"""Rows that show from a time until a time → the operator that keeps them, over what computes the times."""

from __future__ import annotations

from sinkql import logical, physical
from sinkql.lowering.context import Context

_BEGIN, _END = "$begin", "$end"


def bound(relation: logical.Bound, below: physical.Operator, context: Context, view: str) -> physical.Bound:
    """Return the operator over the rows of the relation's input."""
    columns = relation.shape.columns
    times = [(_BEGIN, relation.begin), (_END, relation.end)]
    computed = [context.output(name, time, view) for name, time in times if time is not None]
    given = (physical.Output(each.name, logical.Reference(each.name, each.type, each.nullable)) for each in columns)
    begin, end = (None if time is None else name for name, time in times)
    rows = physical.Map(context.retracting(below), (*given, *computed))
    return physical.Bound(rows, context.arrangement(), begin, end, tuple(each.name for each in columns))
