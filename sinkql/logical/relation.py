"""Queries as relations over relations, with their columns, keys and the changes of their rows.

`threshold_of` recognizes a semi join that compares rows with one moving value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from sinkql.errors import Span
from sinkql.logical.expression import NOWHERE, Call, Expression, Reference, walk
from sinkql.logical.type import Type


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: Type
    nullable: bool = True


class Change(StrEnum):
    """How the rows of a relation change: only inserted, overwritten by key, or inserted and deleted."""

    APPEND = "append"
    UPSERT = "upsert"
    RETRACT = "retract"


@dataclass(frozen=True, slots=True)
class Shape:
    """The known properties of a relation's rows: columns, unique keys (names) and changes.

    The first key of an UPSERT relation is the key by which rows are overwritten.
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
    """All rows of all inputs (UNION ALL); columns match by position, names are the first input's."""

    inputs: tuple[Relation, ...]
    shape: Shape


class JoinKind(StrEnum):
    """The rows of a join's result: pairs, with or without unmatched rows; or rows of the left side alone."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"


@dataclass(frozen=True, slots=True)
class JoinKey:
    """An equality between the sides of a join: expressions over the left and the right input, with one type.

    `safe`: NULL equals NULL (IS NOT DISTINCT FROM).
    """

    left: Expression
    right: Expression
    safe: bool = False


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs of rows that agree in all `keys` and for which `residual` is true, and unmatched rows, depending on the
    kind.

    The inputs have no column name in common. The residual is over the columns of both. Semi and anti joins return the
    columns of the left input. The rows of a `replicated` side are kept in every task.
    """

    kind: JoinKind
    left: Relation
    right: Relation
    keys: tuple[JoinKey, ...]
    residual: Expression | None
    shape: Shape
    replicated: Literal["left", "right"] | None = None


@dataclass(frozen=True, slots=True)
class Sort:
    """One term of an order."""

    expression: Expression
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Rank:
    """The rows of each partition with a number from `first` to `last` in the order, in column `number` if shown."""

    input: Relation
    partition: tuple[Expression, ...]
    order: tuple[Sort, ...]
    function: str
    first: int
    last: int | None
    number: str | None
    shape: Shape


@dataclass(frozen=True, slots=True)
class FrameBound:
    """The start or end of a frame: before (< 0) or after the row, by rows, groups or units of the order.

    None is the partition's end; 0 is the row itself or, for ranges and groups, its peers.
    """

    offset: int | str | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows of its partition that a window function sees for a row; `unit` is rows, range or groups."""

    unit: str = "range"
    start: FrameBound = FrameBound(None)
    end: FrameBound = FrameBound(0)
    exclude: str = "no others"


@dataclass(frozen=True, slots=True)
class WindowCall:
    """One window function, or an aggregate over ordered rows; `constants` are arguments that are equal for all rows.

    Its place in the text (`span`) does not count for equality.
    """

    name: str
    function: str
    arguments: tuple[Expression, ...]
    type: Type
    order: tuple[Sort, ...] = ()
    frame: Frame | None = None
    distinct: bool = False
    constants: tuple[str, ...] = ()
    nullable: bool = True
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Window:
    """Each row of the input, with the results of the calls over its partition as further columns."""

    input: Relation
    partition: tuple[Expression, ...]
    calls: tuple[WindowCall, ...]
    shape: Shape


@dataclass(frozen=True, slots=True)
class Collect:
    """One row per group, like Aggregate: the calls are over all rows of the group in an order."""

    input: Relation
    group: tuple[Output, ...]
    calls: tuple[WindowCall, ...]
    shape: Shape


@dataclass(frozen=True, slots=True)
class Bound:
    """Rows that are visible while begin ≤ commit time < end: bigint, milliseconds since 1970; NULL is no bound."""

    input: Relation
    begin: Expression | None
    end: Expression | None
    shape: Shape


@dataclass(frozen=True, slots=True)
class Flatten:
    """Each row once for each element of `array`, with the element as a further column; at least once if `outer`.

    The last columns of the shape are the element and, with `ordinality`, its number from 1.
    """

    input: Relation
    array: Expression
    ordinality: bool
    outer: bool
    shape: Shape


@dataclass(frozen=True, slots=True)
class Repeat:
    """Each row `times` times: a bigint of at least 0, over rows that are inserted and deleted."""

    input: Relation
    times: Expression
    shape: Shape


Relation = Get | Project | Filter | Aggregate | Union | Join | Rank | Window | Collect | Bound | Flatten | Repeat

ONE = Get("$one", Shape((), (frozenset(),)))
"""One row without columns: the input of a SELECT without FROM."""


def inputs_of(relation: Relation) -> tuple[Relation, ...]:
    """Return the relations directly below one, in the order of the text."""
    match relation:
        case Get():
            return ()
        case Union():
            return relation.inputs
        case Join():
            return (relation.left, relation.right)
        case Project() | Filter() | Aggregate() | Rank() | Window() | Collect() | Bound() | Flatten() | Repeat():
            return (relation.input,)


def with_inputs(relation: Relation, inputs: Sequence[Relation]) -> Relation:
    """Return a relation over other inputs, which have the same columns as its own."""
    match relation:
        case Get():
            return relation
        case Union():
            return replace(relation, inputs=tuple(inputs))
        case Join():
            left, right = inputs
            return replace(relation, left=left, right=right)
        case Project() | Filter() | Aggregate() | Rank() | Window() | Collect() | Bound() | Flatten() | Repeat():
            return replace(relation, input=inputs[0])


def one_row(relation: Relation) -> bool:
    """Return whether a relation has at most one row, so that no two rows must be distinguished."""
    return frozenset() in relation.shape.keys


def row_by_row(relation: Relation) -> bool:
    """Return whether each row of a relation depends on one input row only."""
    match relation:
        case Get() | Project() | Filter() | Flatten() | Union():
            return True
        case Aggregate() | Join() | Rank() | Window() | Collect() | Bound() | Repeat():
            return False


def expressions_of(relation: Relation) -> tuple[Expression, ...]:
    """Return the expressions of a relation over its inputs."""
    match relation:
        case Get() | Union():
            return ()
        case Project():
            return tuple(output.expression for output in relation.outputs)
        case Filter():
            return (relation.predicate,)
        case Aggregate():
            arguments = (call.argument for call in relation.calls if call.argument is not None)
            return (*(output.expression for output in relation.group), *arguments)
        case Join():
            sides = (side for key in relation.keys for side in (key.left, key.right))
            return (*sides, *(() if relation.residual is None else (relation.residual,)))
        case Rank():
            return (*relation.partition, *(term.expression for term in relation.order))
        case Window():
            return (*relation.partition, *_called(relation.calls))
        case Collect():
            return (*(output.expression for output in relation.group), *_called(relation.calls))
        case Bound():
            return tuple(limit for limit in (relation.begin, relation.end) if limit is not None)
        case Flatten():
            return (relation.array,)
        case Repeat():
            return (relation.times,)


def _called(calls: tuple[WindowCall, ...]) -> tuple[Expression, ...]:
    return tuple(operand for call in calls for operand in (*call.arguments, *(term.expression for term in call.order)))


Comparison = Literal["<", "<=", ">", ">="]
_CALLED: dict[str, Comparison] = {f"{comparison}(any,any)": comparison for comparison in ("<", "<=", ">", ">=")}
_TURNED: dict[Comparison, Comparison] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ORDERED = frozenset({
    "boolean", "smallint", "integer", "bigint", "uint2", "uint4", "uint8", "numeric", "real", "double precision",
    "date", "time", "timestamp", "timestamptz", "text",
})  # fmt: skip
"""The types whose values are stored in their order, or nearly so."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """The rows of the left side are visible if their `value` compares so with the `limit` in the right side's row."""

    value: Expression
    comparison: Comparison
    limit: Expression


def threshold_of(join: Join) -> Threshold | None:
    """Return the comparison of a semi join whose right side has at most one row; None for any other join."""
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
    """Return whether a semi join without keys has at most one right row: each left row is in at most one pair."""
    return join.kind is JoinKind.SEMI and not join.keys and join.residual is not None and one_row(join.right)


def _over(expression: Expression, relation: Relation) -> bool:
    """Return whether an expression uses columns of one relation only."""
    names = {column.name for column in relation.shape.columns}
    used = {node.name for node in walk(expression) if isinstance(node, Reference)}
    return bool(used) and used <= names
