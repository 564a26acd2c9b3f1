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
    """The operator, and which of its columns are the sink's key and the sink's columns, in the sink's order.

    There are no `columns` where something is computed, filtered or left out between: then a row that goes and one that
    comes may have become the same.
    """

    operator: Aggregate | Pick | Normalize | Rank | Recompute
    key: tuple[str, ...]
    columns: tuple[str, ...]


def copartitioned(body: Operator, columns: Sequence[str], key: Sequence[str]) -> Copartitioned | None:
    """Return the operator whose tasks write the columns of a sink by its key; None where rows must meet once more."""
    names: dict[str, str | None] = {name: name for name in columns}
    whole = True
    while isinstance(body, Map):
        below = _handed_on(body)
        names = {name: None if at is None else below.get(at) for name, at in names.items()}
        whole = whole and body.where is None
        body = body.input
    if not isinstance(body, Aggregate | Pick | Normalize | Rank | Recompute):
        return None
    own = tuple(at for name in key if (at := names[name]) is not None)
    if not own or len(own) < len(key) or not set(own) <= set(_by(body)):
        return None
    handed = tuple(at for at in names.values() if at is not None)
    whole = whole and len(handed) == len(names) and sorted(handed) == sorted(each.name for each in columns_of(body))
    return Copartitioned(body, own, handed if whole else ())


def _by(operator: Aggregate | Pick | Normalize | Rank | Recompute) -> Sequence[str]:
    """Return the columns of which equal values are in one bucket."""
    match operator:
        case Aggregate():
            return [each.name for each in operator.group]
        case Pick() | Normalize() | Recompute():
            return operator.key
        case Rank():
            return operator.partition


def _handed_on(map_: Map) -> dict[str, str]:
    """Return the columns that are ones below as they are, with these."""
    types = {each.name: each.type for each in columns_of(map_.input)}
    if not map_.outputs:
        return {name: name for name in types}
    named = [(each, each.expression.name) for each in map_.outputs if isinstance(each.expression, Reference)]
    return {each.name: name for each, name in named if types[name] == each.type}
