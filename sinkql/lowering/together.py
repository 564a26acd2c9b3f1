"""Joins on one key, one above the other → one exchange of all their sides, and one task a bucket.

Rows that have a value of the key are in one bucket after each of the joins, so the joins below need no exchange of
their own, and keep nothing but what their sides do: what they give is joined again where it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from sinkql import physical
from sinkql.logical import Call, Reference

_COALESCE = "coalesce(any…)"


def fuse_joins(graph: physical.Graph) -> physical.Graph:
    """Return the graph in which a join on the key of another one above it is done in that one's tasks."""
    return physical.Graph(_of(graph.root), {name: _of(each) for name, each in graph.shared.items()})


def columns_within(side: physical.Side) -> tuple[tuple[int, ...], ...]:
    """Return, for each column that a side within gives, the places of columns of its join: the first that is not NULL.

    Raises ValueError where it is another expression.
    """
    places = {column.name: place for place, column in enumerate(physical.joined_in(side).columns)}
    found = []
    for name in side.kept:
        names = _named(side.input, name)
        if names is None:
            raise ValueError(f'column "{name}" is computed above a join that is done in the same tasks')
        found.append(tuple(places[each] for each in names))
    return tuple(found)


def same_key(side: physical.Side, safe: Sequence[bool]) -> tuple[int, ...] | None:
    """Return which column of the key of the join that a side stands on each of its own key is; None for another key.

    Equal values of a key are in one bucket, and NULL is one wherever the join below has it for a value of its key.
    """
    below = side.input
    while isinstance(below, physical.Map):
        if below.where is not None:
            return None
        below = below.input
    if not isinstance(below, physical.Join) or below.left.replicated or below.right.replicated or not below.safe:
        return None
    types = {column.name: column.type for column in physical.columns_of(below.left.input)}
    own = {column.name: column.type for column in physical.columns_of(side.input)}
    found = []
    for name, equal in zip(side.key, safe, strict=True):
        names = _named(side.input, name)
        at = None if names is None else _place(below, names)
        if at is None or below.safe[at] != equal or types[below.left.key[at]] != own[name]:
            return None
        found.append(at)
    return tuple(found) if sorted(found) == list(range(len(below.safe))) else None


def _of(operator: physical.Operator) -> physical.Operator:
    found = physical.with_inputs(operator, [_of(each) for each in physical.inputs_of(operator)])
    if not isinstance(found, physical.Join) or found.left.replicated or found.right.replicated:
        return found
    return replace(found, left=_side(found.left, found.safe), right=_side(found.right, found.safe))


def _side(side: physical.Side, safe: Sequence[bool]) -> physical.Side:
    """Return a side within the tasks of its join, if it can be."""
    order = same_key(side, safe)
    if order is None or any(_named(side.input, name) is None for name in side.kept):
        return side
    return replace(side, within=True, arrangement="", input=_ordered(side.input, order))


def _ordered(operator: physical.Operator, order: Sequence[int]) -> physical.Operator:
    """Return a join below projections with the columns of its key in another order."""
    if isinstance(operator, physical.Map):
        return replace(operator, input=_ordered(operator.input, order))
    assert isinstance(operator, physical.Join)
    left, right = (
        replace(
            side,
            key=tuple(side.key[place] for place in order),
            input=_ordered(side.input, order) if side.within else side.input,
        )
        for side in (operator.left, operator.right)
    )
    return replace(operator, left=left, right=right, safe=tuple(operator.safe[place] for place in order))


def _named(operator: physical.Operator, name: str) -> tuple[str, ...] | None:
    """Return the columns of a join below projections of which the first that is not NULL is a column of theirs.

    None where it is another expression.
    """
    if not isinstance(operator, physical.Map):
        return (name,)
    if not operator.outputs:
        return _named(operator.input, name)
    (output,) = (each for each in operator.outputs if each.name == name)
    match output.expression:
        case Reference() as one:
            parts = [one]
        case Call(function=function, arguments=arguments) if function == _COALESCE:
            parts = [each for each in arguments if isinstance(each, Reference)]
            if len(parts) < len(arguments):
                return None
        case _:
            return None
    types = {column.name: column.type for column in physical.columns_of(operator.input)}
    if any(types[each.name] != output.type for each in parts):
        return None
    found = [_named(operator.input, each.name) for each in parts]
    return tuple(column for names in found if names is not None for column in names) if None not in found else None


def _place(join: physical.Join, names: Sequence[str]) -> int | None:
    """Return which column of a join's key these columns coalesced are, in every row that the join gives."""
    for place in range(len(join.safe)):
        if all(_holds(join, place, each) for each in names) and _covers(join, place, set(names)):
            return place
    return None


def _holds(join: physical.Join, place: int, name: str) -> bool:
    """Tell whether a column has the value of a join's key in each row, or NULL."""
    for side in (join.left, join.right):
        if name in side.kept:
            if side.key[place] == name:
                return True
            below = _named(side.input, name) if side.within else None
            return below is not None and all(_holds(physical.joined_in(side), place, each) for each in below)
    return False


def _covers(join: physical.Join, place: int, names: set[str]) -> bool:
    """Tell whether one of these columns, each of which has the key or NULL, has the key where that is not NULL."""
    left, right = (_covered(side, place, names & set(side.kept)) for side in (join.left, join.right))
    match join.kind:
        case "inner":
            return left or right
        case "left" | "semi" | "anti":
            return left
        case "right":
            return right
        case "full":
            return left and right


def _covered(side: physical.Side, place: int, names: set[str]) -> bool:
    if not side.within or side.key[place] in names:
        return side.key[place] in names
    below = {each for name in names for each in _named(side.input, name) or ()}
    return _covers(physical.joined_in(side), place, below)
