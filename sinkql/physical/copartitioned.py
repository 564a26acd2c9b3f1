"""A sink above an operator with state whose rows have a key of the sink in one task → co-partitioned: its tasks write.

They have the rows of a key by the same columns as the sink, or by more. Rows go to the buckets that they have in the
sink, so there is no second exchange between the operator and the sink.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sinkql.logical.expression import Reference
from sinkql.physical.operator import (
    Aggregate,
    Map,
    Normalize,
    Operator,
    Pick,
    Rank,
    Recompute,
    columns_of,
)


@dataclass(frozen=True, slots=True)
class Copartitioned:
    """The operator, and which of its columns are the sink's key and the sink's columns, in the sink's order."""

    operator: Aggregate | Pick | Normalize | Rank | Recompute
    key: tuple[str, ...]
    columns: tuple[str, ...]


def copartitioned(body: Operator, columns: Sequence[str], key: Sequence[str]) -> Copartitioned | None:
    """Return the operator whose tasks write the columns of a sink by its key; None where rows must meet once more.

    Between it and the sink all of its columns are handed on, and no others: one that is left out may be all that
    differs between a row that goes and a row that comes.
    """
    names = {name: name for name in columns}
    while isinstance(body, Map):
        below = _handed_on(body)
        if below is None:
            return None
        names = {name: below[at] for name, at in names.items()}
        body = body.input
    own = tuple(names[name] for name in key)
    if not own or sorted(names.values()) != sorted(each.name for each in columns_of(body)):
        return None
    if not isinstance(body, Aggregate | Pick | Normalize | Rank | Recompute) or not set(own) <= set(_by(body)):
        return None
    return Copartitioned(body, own, tuple(names.values()))


def _by(operator: Aggregate | Pick | Normalize | Rank | Recompute) -> Sequence[str]:
    """Return the columns of which equal values are in one bucket."""
    match operator:
        case Aggregate():
            return [each.name for each in operator.group]
        case Pick() | Normalize() | Recompute():
            return operator.key
        case Rank():
            return operator.partition


def _handed_on(map_: Map) -> dict[str, str] | None:
    """Return the column below of each column; None where one is computed, or rows are filtered."""
    if map_.where is not None:
        return None
    types = {each.name: each.type for each in columns_of(map_.input)}
    if not map_.outputs:
        return {name: name for name in types}
    found = {}
    for each in map_.outputs:
        if not isinstance(each.expression, Reference) or types[each.expression.name] != each.type:
            return None
        found[each.name] = each.expression.name
    return found
