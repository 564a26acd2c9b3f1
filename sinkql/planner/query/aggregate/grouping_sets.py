"""GROUP BY with GROUPING SETS, ROLLUP and CUBE → a union of what each set of columns is grouped by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
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
"""Places of the columns that rows are grouped by, in order."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The nodes of a GROUP BY in sets by which rows are grouped, each by itself; without duplicates if `distinct`."""

    sets: tuple[_Nodes, ...]
    distinct: bool = False


def groups(syntax: Syntax, clause: Any) -> Groups:
    """Return what a GROUP BY groups by; raises SQ2215 for the form of other systems, SQ2214 for too many sets."""
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
    found: list[_Nodes] = [()]
    for node in clause.expressions:
        found = [(*before, *each) for before in found for each in _sets(node)][: _MOST_SETS + 1]
    if len(found) > _MOST_SETS:
        message = f"GROUP BY has more than {_MOST_SETS} grouping sets"
        hint = "Write those that are wanted in GROUPING SETS (…)."
        raise SinkqlError("SQ2214", message, syntax.span(clause), hint=hint)
    return Groups(tuple(found), distinct=clause.args.get("all") is False)


def _sets(node: Any) -> Iterable[_Nodes]:
    match node:
        case exp.Rollup():
            units = list(map(_unit, node.expressions))
            return [tuple(chain(*units[:length])) for length in range(len(units), -1, -1)]
        case exp.Cube():
            units = list(map(_unit, node.expressions))
            sizes = range(len(units), -1, -1)
            return (tuple(chain(*each)) for size in sizes for each in combinations(units, size))
        case exp.GroupingSets():
            return [each for part in node.expressions for each in _sets(part)]
        case _:
            return [_unit(node)]


def _unit(node: Any) -> _Nodes:
    return tuple(node.expressions) if isinstance(node, exp.Tuple) else (node.unnest(),)


@dataclass(slots=True)
class Groupings:
    """The calls of GROUPING in one SELECT: places of the columns that each asks for."""

    sets: tuple[Set, ...]
    found: list[Set] = field(default_factory=list)

    def add(self, places: Set, span: Span) -> Typed:
        """Return the column that holds a call's result; raises SQ2211 where it has more bits than an integer."""
        if not 1 <= len(places) <= _MOST_ARGUMENTS:
            message = f"grouping() takes 1 to {_MOST_ARGUMENTS} arguments, found {len(places)}"
            raise SinkqlError("SQ2211", message, span)
        if len(self.sets) == 1:
            return constant(self.value(places, self.sets[0]), types.INTEGER, span)
        if places not in self.found:
            self.found.append(places)
        return column(f"$grouping{self.found.index(places)}", types.INTEGER, nullable=False, span=span)

    @staticmethod
    def value(places: Set, by: Set) -> int:
        """Return what GROUPING is for a row of a set: a bit for each column, 1 if the rows are not grouped by it."""
        return sum((place not in by) << bit for bit, place in enumerate(reversed(places)))


def grouped(
    relation: logical.Relation,
    named: Sequence[query_relation.Item],
    calls: Sequence[logical.AggregateCall],
    groupings: Groupings,
    span: Span,
    collected: Sequence[logical.WindowCall] = (),
) -> logical.Relation:
    """Return the groups of all sets: the columns, NULL where a set has it not, the calls, what GROUPING says."""
    if len(groupings.sets) == 1:
        return _group(relation, named, calls, collected, span)
    together: logical.Relation | None = None
    for by in groupings.sets:
        chosen = [named[place] for place in by]
        found = _group(relation, chosen, calls, collected, span)
        own = {each.name: query_relation.reference(each, span) for each in found.shape.columns}
        items = [(name, own.get(name, null_of(value.type, span))) for name, value in named]
        items += [(name, own[name]) for name in (*(each.name for each in calls), *(each.name for each in collected))]
        for number, places in enumerate(groupings.found):
            items.append((f"$grouping{number}", constant(groupings.value(places, by), types.INTEGER, span)))
        part = query_relation.project(found, items)
        together = part if together is None else query_relation.union(together, part, span)
    assert together is not None
    return query_relation.keyed(together, _keys([name for name, _ in named], groupings))


def _group(
    relation: logical.Relation,
    named: Sequence[query_relation.Item],
    calls: Sequence[logical.AggregateCall],
    collected: Sequence[logical.WindowCall],
    span: Span,
) -> logical.Relation:
    """Return the groups of one set; where a call needs all rows of a group, all calls are over these."""
    over_all = collected or any(each.distinct and each.function == "sum" for each in calls)
    counted = calls or ([] if collected else _one(named, span))
    found = query_relation.group(relation, named, counted, span)
    if not over_all:
        return found
    assert isinstance(found, logical.Aggregate)
    nullable = {each.name: each.nullable for each in found.shape.columns}
    own = [
        logical.WindowCall(
            each.name,
            each.function,
            () if each.argument is None else (each.argument,),
            each.type,
            distinct=each.distinct,
            nullable=nullable[each.name],
        )
        for each in counted
    ]
    columns = (*found.shape.columns, *(logical.Column(each.name, each.type) for each in collected))
    shape = replace(found.shape, columns=columns)
    return logical.Collect(relation, found.group, (*own, *collected), shape)


def _one(groups_: Sequence[query_relation.Item], span: Span) -> list[logical.AggregateCall]:
    """Return a call for what would be a row without a column."""
    return [] if groups_ else [logical.AggregateCall("$count", "count", None, False, types.BIGINT)]


def _keys(names: Sequence[str], groupings: Groupings) -> list[frozenset[str]]:
    """Return the keys: rows of two sets may be alike, unless a call of GROUPING tells the sets apart."""
    told = [tuple(groupings.value(each, by) for by in groupings.sets) for each in groupings.found]
    every = range(len(told))
    apart: list[Set] = [(number,) for number in every if len(set(told[number])) == len(groupings.sets)]
    if not apart and len(set(zip(*told, strict=True))) == len(groupings.sets):
        apart = [tuple(every)]
    return [frozenset((*names, *(f"$grouping{number}" for number in each))) for each in apart]
