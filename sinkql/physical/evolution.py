"""Two jobs of one sink → how the table that the first one wrote becomes the table of the second, or why it cannot.

What is in the table stays as it is, and nothing is read again. So the columns that are there must mean the same, and
new ones are NULL in all rows that are there. Where rows only come, that is how it is from now on; where they are
overwritten, or come and go, no row that was read may have anything but NULL there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sinkql.logical.expression import Cast, Expression, Literal, Reference
from sinkql.physical.identity import meaning_of
from sinkql.physical.job import Job
from sinkql.physical.operator import Aggregate, Column, Map, Operator, Pick, Read, Union, Write, columns_of

Unread = tuple[tuple[str, str], ...]
"""Columns of sources, these by the names that offsets have."""


@dataclass(frozen=True, slots=True)
class Evolution:
    """What becomes of a table's columns; `unread` are the columns of sources that must be NULL in all that was read."""

    added: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    unread: Unread = ()


class InPlaceError(Exception):
    """The table cannot become the other job's; the text says why."""


def evolution(old: Job, new: Job, *, same: bool = False) -> Evolution:
    """Return how the table of a job becomes that of another one of the same sink; raises InPlaceError.

    With `same`, the columns that are there must mean the same also where it would do that they do from now on.
    """
    before, after = old.write, new.write
    exact = after.mode == "upsert" or old.stateful() or new.stateful()
    if _kind(before) != _kind(after):
        raise InPlaceError("its rows change in another way")
    had, has = _by_name(before), _by_name(after)
    renamed = _renamed(before, after)
    for name, column in had.items():
        _check_type(column, has[renamed.get(name, name)])
    names = [renamed.get(name, name) for name in had]
    if (exact or same) and meaning_of(before.input, list(had)) != meaning_of(after.input, names):
        raise InPlaceError("rows that it has written come about in another way")
    added = tuple(name for name in has if name not in names)
    told = exact or after.change == "retract"
    unread = tuple(each for name in added for each in _origins(after.input, name)) if told else ()
    return Evolution(added, renamed, tuple(dict.fromkeys(unread)))


def _kind(write: Write) -> tuple[object, ...]:
    return write.connector, write.mode, write.changelog, write.key, write.proven


def _by_name(write: Write) -> dict[str, Column]:
    return {column.name: column for column in write.columns}


def _renamed(before: Write, after: Write) -> dict[str, str]:
    """Return the new names of columns that have others; raises InPlaceError for a column that goes."""
    had, has = _by_name(before), _by_name(after)
    gone = next((name for name in had if name not in has), None)
    if gone is not None:
        raise InPlaceError(f'column "{gone}" goes')
    return {}


def _check_type(old: Column, new: Column) -> None:
    if old.type != new.type:
        raise InPlaceError(f'column "{new.name}" changes from {old.type} to {new.type}')


def _origins(operator: Operator, name: str) -> Unread:
    """Return the columns of sources that are NULL where a column is; raises InPlaceError where others decide it."""
    match operator:
        case Read():
            return ((operator.source, name),)
        case Map(outputs=()):
            return _origins(operator.input, name)
        case Map():
            (output,) = (each for each in operator.outputs if each.name == name)
            origin = _origin(output.expression)
            if isinstance(origin, Reference):
                return _origins(operator.input, origin.name)
            if isinstance(origin, Literal):
                return ()
        case Union():
            place = [column.name for column in columns_of(operator)].index(name)
            inputs = ((each, columns_of(each)[place].name) for each in operator.inputs)
            return tuple(found for each, its in inputs for found in _origins(each, its))
        case Aggregate() | Pick():
            pass
    raise InPlaceError(f'rows that are there have a value in column "{name}"')


def _origin(expression: Expression) -> Reference | Literal | None:
    """Return the column or the NULL of which an expression only changes the type."""
    match expression:
        case Reference() | Literal(text=None):
            return expression
        case Cast():
            return _origin(expression.operand)
        case _:
            return None
