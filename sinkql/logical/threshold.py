"""A join of rows with one other row, by one comparison → what is compared: rows show beyond a value that moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sinkql.logical.expression import Call, Expression, Reference, walk
from sinkql.logical.relation import Join, JoinKind, Relation, one_row

Comparison = Literal["<", "<=", ">", ">="]
_CALLED: dict[str, Comparison] = {f"{each}(any,any)": each for each in ("<", "<=", ">", ">=")}
_TURNED: dict[Comparison, Comparison] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ORDERED = frozenset({
    "boolean", "smallint", "integer", "bigint", "uint2", "uint4", "uint8", "numeric", "real", "double precision",
    "date", "time", "timestamp", "timestamptz", "text",
})  # fmt: skip
"""The types whose values are kept in their order, or nearly so."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """The rows of the left side show whose `value` compares so with the `limit` of the right side's one row."""

    value: Expression
    comparison: Comparison
    limit: Expression


def threshold_of(join: Join) -> Threshold | None:
    """Return what a semi join compares whose right side is one row at most; None for any other one."""
    condition = join.residual
    if not paired_once(join) or not isinstance(condition, Call):
        return None
    comparison = _CALLED.get(condition.function)
    if comparison is None:
        return None
    value, limit = condition.arguments
    if not _over(value, join.left) or not _over(limit, join.right):
        value, limit, comparison = limit, value, _TURNED[comparison]
    if not _over(value, join.left) or not _over(limit, join.right):
        return None
    return Threshold(value, comparison, limit) if value.type == limit.type and value.type.name in _ORDERED else None


def paired_once(join: Join) -> bool:
    """Tell whether rows that must meet some other one are in one pair at most, on which any condition is tested."""
    return join.kind is JoinKind.SEMI and not join.keys and join.residual is not None and one_row(join.right)


def _over(expression: Expression, relation: Relation) -> bool:
    """Tell whether an expression is over columns of a relation, and no others."""
    names = {column.name for column in relation.shape.columns}
    used = {node.name for node in walk(expression) if isinstance(node, Reference)}
    return bool(used) and used <= names
