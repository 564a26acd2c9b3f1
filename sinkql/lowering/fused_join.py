"""Fuse joins on one key, so that they use one exchange of all their sides, and one task for each bucket.

All rows with a value of the key are in one bucket after each join, so the joins below need no separate exchange. They
keep only the state of their sides; their output is joined again when it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from sinkql import physical
from sinkql.logical import Call, Reference

_COALESCE = "coalesce(any…)"


def fuse_joins(graph: physical.Graph) -> physical.Graph:
    """Return the graph with each join on the key of a join above it nested into the tasks of that join."""
    return physical.Graph(_fuse(graph.root), {name: _fuse(operator) for name, operator in graph.shared.items()})


def columns_within(side: physical.Side) -> tuple[tuple[int, ...], ...]:
    """Return, for each column of a nested side, the positions of its join's columns to coalesce.

    Raises ValueError for any other expression.
    """
    places = {column.name: place for place, column in enumerate(physical.joined_in(side).columns)}
    positions = []
    for name in side.kept:
        names = _coalesced_columns(side.input, name)
        if names is None:
            raise ValueError(f'column "{name}" is computed above a join that is done in the same tasks')
        positions.append(tuple(places[name] for name in names))
    return tuple(positions)


def same_key(side: physical.Side, safe: Sequence[bool]) -> tuple[int, ...] | None:
    """Return, for each key column of a side, the key column of its join below, None if the keys differ.

    Equal values of a key are in one bucket; NULL is such a value if the join below treats NULLs as equal.
    """
    below = side.input
    while isinstance(below, physical.Map):
        if below.where is not None:
            return None
        below = below.input
    if not isinstance(below, physical.Join) or below.left.replicated or below.right.replicated or not below.safe:
        return None
    types = {column.name: column.type for column in physical.columns_of(below.left.input)}
    side_types = {column.name: column.type for column in physical.columns_of(side.input)}
    order = []
    for name, equal in zip(side.key, safe, strict=True):
        names = _coalesced_columns(side.input, name)
        index = None if names is None else _place(below, names)
        if index is None or below.safe[index] != equal or types[below.left.key[index]] != side_types[name]:
            return None
        order.append(index)
    return tuple(order) if sorted(order) == list(range(len(below.safe))) else None


def _fuse(operator: physical.Operator) -> physical.Operator:
    rebuilt = physical.with_inputs(operator, [_fuse(input_) for input_ in physical.inputs_of(operator)])
    if not isinstance(rebuilt, physical.Join) or rebuilt.left.replicated or rebuilt.right.replicated:
        return rebuilt
    return replace(rebuilt, left=_side(rebuilt.left, rebuilt.safe), right=_side(rebuilt.right, rebuilt.safe))


def _side(side: physical.Side, safe: Sequence[bool]) -> physical.Side:
    """Return a side nested in the tasks of its join, if that is possible."""
    order = same_key(side, safe)
    if order is None or any(_coalesced_columns(side.input, name) is None for name in side.kept):
        return side
    return replace(side, within=True, arrangement="", input=_with_key_order(side.input, order))


def _with_key_order(operator: physical.Operator, order: Sequence[int]) -> physical.Operator:
    """Return a join below projections with its key columns reordered."""
    if isinstance(operator, physical.Map):
        return replace(operator, input=_with_key_order(operator.input, order))
    assert isinstance(operator, physical.Join)
    left, right = (
        replace(
            side,
            key=tuple(side.key[place] for place in order),
            input=_with_key_order(side.input, order) if side.within else side.input,
        )
        for side in (operator.left, operator.right)
    )
    return replace(operator, left=left, right=right, safe=tuple(operator.safe[place] for place in order))


def _coalesced_columns(operator: physical.Operator, name: str) -> tuple[str, ...] | None:
    """Return the columns of a join that a column of its projections coalesces, None for other expressions."""
    if not isinstance(operator, physical.Map):
        return (name,)
    if not operator.outputs:
        return _coalesced_columns(operator.input, name)
    (output,) = (output for output in operator.outputs if output.name == name)
    match output.expression:
        case Reference() as reference:
            parts = [reference]
        case Call(function=function, arguments=arguments) if function == _COALESCE:
            parts = [argument for argument in arguments if isinstance(argument, Reference)]
            if len(parts) < len(arguments):
                return None
        case _:
            return None
    types = {column.name: column.type for column in physical.columns_of(operator.input)}
    if any(types[part.name] != output.type for part in parts):
        return None
    columns_ = [_coalesced_columns(operator.input, part.name) for part in parts]
    return (
        tuple(column for names in columns_ if names is not None for column in names) if None not in columns_ else None
    )


def _place(join: physical.Join, names: Sequence[str]) -> int | None:
    """Return the key column of a join that these coalesced columns equal in every row, None if they equal none."""
    for place in range(len(join.safe)):
        if all(_holds(join, place, name) for name in names) and _covers(join, place, set(names)):
            return place
    return None


def _holds(join: physical.Join, place: int, name: str) -> bool:
    """Return whether a column has the value of a join's key column, or NULL, in each row."""
    for side in (join.left, join.right):
        if name in side.kept:
            if side.key[place] == name:
                return True
            below = _coalesced_columns(side.input, name) if side.within else None
            return below is not None and all(_holds(physical.joined_in(side), place, column) for column in below)
    return False


def _covers(join: physical.Join, place: int, names: set[str]) -> bool:
    """Return whether at least one of these columns has the key's value in each row in which the key is not NULL."""
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
    below = {column for name in names for column in _coalesced_columns(side.input, name) or ()}
    return _covers(physical.joined_in(side), place, below)
