"""Plan GROUP BY with GROUPING SETS, ROLLUP and CUBE as a union of one aggregate for each grouping set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain, combinations
from typing import Any

from sqlglot import exp

from sinkql import logical
from sinkql.errors import SinkqlError, Span
from sinkql.planner import types
from sinkql.planner.expression.typed_expression import Typed, column, constant, null_of
from sinkql.planner.query import relation as query_relation
from sinkql.planner.syntax.sqlglot_tree import Syntax

_MOST_SETS = 64
_MOST_ARGUMENTS = 31
_Nodes = tuple[Any, ...]
Set = tuple[int, ...]
"""The indices of the group columns in one grouping set, in order."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The nodes of a GROUP BY by grouping set; without duplicate sets if `distinct`."""

    sets: tuple[_Nodes, ...]
    distinct: bool = False


def groups(syntax: Syntax, clause: Any) -> Groups:
    """Return the grouping sets of a GROUP BY.

    Raises SQ2215 for syntax of other systems, SQ2214 for too many sets.
    """
    if clause is None:
        return Groups(((),))
    for name, part in clause.args.items():
        if name not in ("expressions", "all") and part:
            raise SinkqlError(
                "SQ2215",
                "WITH ROLLUP, CUBE and TOTALS are not supported",
                syntax.from_word(clause, "WITH"),
                hint="Write GROUP BY ROLLUP (…) or GROUP BY CUBE (…).",
            )
    if clause.args.get("all") and not clause.expressions:
        raise SinkqlError("SQ2215", "GROUP BY ALL is not supported", syntax.span(clause), hint="Write the columns.")
    sets: list[_Nodes] = [()]
    for node in clause.expressions:
        sets = [(*prefix, *set_) for prefix in sets for set_ in _sets(node)][: _MOST_SETS + 1]
    if len(sets) > _MOST_SETS:
        message = f"GROUP BY has more than {_MOST_SETS} grouping sets"
        hint = "List the sets that you need in GROUPING SETS (…)."
        raise SinkqlError("SQ2214", message, syntax.span(clause), hint=hint)
    return Groups(tuple(sets), distinct=clause.args.get("all") is False)


def _sets(node: Any) -> Iterable[_Nodes]:
    match node:
        case exp.Rollup():
            units = list(map(_unit, node.expressions))
            return [tuple(chain(*units[:length])) for length in range(len(units), -1, -1)]
        case exp.Cube():
            units = list(map(_unit, node.expressions))
            sizes = range(len(units), -1, -1)
            return (tuple(chain(*combination)) for size in sizes for combination in combinations(units, size))
        case exp.GroupingSets():
            return [set_ for part in node.expressions for set_ in _sets(part)]
        case _:
            return [_unit(node)]


def _unit(node: Any) -> _Nodes:
    return tuple(node.expressions) if isinstance(node, exp.Tuple) else (node.unnest(),)


@dataclass(slots=True)
class Groupings:
    """The GROUPING calls of one SELECT: the columns that each call asks about."""

    sets: tuple[Set, ...]
    calls: list[Set] = field(default_factory=list)

    def add(self, places: Set, span: Span) -> Typed:
        """Return the column with a call's result; raise SQ2211 if it has more bits than an integer."""
        if not 1 <= len(places) <= _MOST_ARGUMENTS:
            message = f"grouping() takes 1 to {_MOST_ARGUMENTS} arguments, found {len(places)}"
            raise SinkqlError("SQ2211", message, span)
        if len(self.sets) == 1:
            return constant(self.value(places, self.sets[0]), types.INTEGER, span)
        if places not in self.calls:
            self.calls.append(places)
        return column(f"$grouping{self.calls.index(places)}", types.INTEGER, nullable=False, span=span)

    @staticmethod
    def value(places: Set, by: Set) -> int:
        """Return the value of GROUPING for a row of a set: one bit for each column, 1 if the set lacks the column."""
        return sum((place not in by) << bit for bit, place in enumerate(reversed(places)))


def grouped(
    relation: logical.Relation,
    named: Sequence[query_relation.Item],
    calls: Sequence[logical.AggregateCall],
    groupings: Groupings,
    span: Span,
    collected: Sequence[logical.WindowCall] = (),
) -> logical.Relation:
    """Return the groups of all sets: the columns (NULL if a set lacks them), the calls, and the GROUPING values."""
    if len(groupings.sets) == 1:
        return _group(relation, named, calls, collected, span)
    parts = []
    for set_ in groupings.sets:
        chosen = [named[place] for place in set_]
        aggregate = _group(relation, chosen, calls, collected, span)
        columns_ = {column_.name: query_relation.reference(column_, span) for column_ in aggregate.shape.columns}
        items = [(name, columns_.get(name, null_of(value.type, span))) for name, value in named]
        items += [
            (name, columns_[name]) for name in (*(call.name for call in calls), *(call.name for call in collected))
        ]
        for number, places in enumerate(groupings.calls):
            items.append((f"$grouping{number}", constant(groupings.value(places, set_), types.INTEGER, span)))
        parts.append(query_relation.project(aggregate, items))
    union = reduce(lambda above, part: query_relation.union(above, part, span), parts)
    return query_relation.keyed(union, _keys([name for name, _ in named], groupings))


def _group(
    relation: logical.Relation,
    named: Sequence[query_relation.Item],
    calls: Sequence[logical.AggregateCall],
    collected: Sequence[logical.WindowCall],
    span: Span,
) -> logical.Relation:
    """Return the groups of one set; if one call needs all rows of a group, all calls are computed over all rows."""
    over_all = collected or any(call.distinct and call.function == "sum" for call in calls)
    group_calls = calls or ([] if collected else _row_count(named, span))
    aggregate = query_relation.group(relation, named, group_calls, span)
    if not over_all:
        return aggregate
    nullable = {column_.name: column_.nullable for column_ in aggregate.shape.columns}
    window_calls = [
        logical.WindowCall(
            call.name,
            call.function,
            () if call.argument is None else (call.argument,),
            call.type,
            distinct=call.distinct,
            nullable=nullable[call.name],
        )
        for call in group_calls
    ]
    columns = (*aggregate.shape.columns, *(logical.Column(call.name, call.type) for call in collected))
    shape = replace(aggregate.shape, columns=columns)
    return logical.Collect(relation, aggregate.group, (*window_calls, *collected), shape)


def _row_count(groups_: Sequence[query_relation.Item], span: Span) -> list[logical.AggregateCall]:
    """Return a count if the GROUP BY is empty, so that the group's row has a column."""
    return [] if groups_ else [logical.AggregateCall("$count", "count", None, False, types.BIGINT)]


def _keys(names: Sequence[str], groupings: Groupings) -> list[frozenset[str]]:
    """Return the keys; rows of two sets may be equal unless GROUPING calls distinguish the sets."""
    values = [tuple(groupings.value(places, by) for by in groupings.sets) for places in groupings.calls]
    numbers = range(len(values))
    distinguishing: list[Set] = [(number,) for number in numbers if len(set(values[number])) == len(groupings.sets)]
    if not distinguishing and len(set(zip(*values, strict=True))) == len(groupings.sets):
        distinguishing = [tuple(numbers)]
    return [frozenset((*names, *(f"$grouping{number}" for number in call_numbers))) for call_numbers in distinguishing]
