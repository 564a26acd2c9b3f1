"""What a query means: relations over relations, with their columns, keys and how their rows change."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sinkql.logical.expression import Expression
from sinkql.logical.type import Type


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: Type
    nullable: bool = True


class Change(StrEnum):
    """Say how the rows of a relation change: only come, are overwritten by key, or come and go."""

    APPEND = "append"
    UPSERT = "upsert"
    RETRACT = "retract"


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known of a relation's rows: columns, unique keys (names) and how they change.

    The first key of an UPSERT relation is the one by which rows are overwritten.
    """

    columns: tuple[Column, ...]
    keys: tuple[frozenset[str], ...] = ()
    change: Change = Change.APPEND


@dataclass(frozen=True, slots=True)
class Output:
    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Get:
    """Read a source or another view by its full name."""

    item: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class Project:
    input: Relation
    outputs: tuple[Output, ...]
    shape: Shape


@dataclass(frozen=True, slots=True)
class Filter:
    input: Relation
    predicate: Expression
    shape: Shape


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate: `function` is count, sum, min or max; no argument means count(*).

    AVG is planned as a sum and a count below a projection."""

    name: str
    function: str
    argument: Expression | None
    distinct: bool
    type: Type


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Group by `group`; no aggregates is DISTINCT, no group is one row always."""

    input: Relation
    group: tuple[Output, ...]
    calls: tuple[AggregateCall, ...]
    shape: Shape


@dataclass(frozen=True, slots=True)
class Union:
    """Put the rows of all inputs together (UNION ALL); columns go by place, names are the first input's."""

    inputs: tuple[Relation, ...]
    shape: Shape


Relation = Get | Project | Filter | Aggregate | Union

ONE = Get("$one", Shape(()))
"""One row without columns: what a SELECT without FROM reads."""
