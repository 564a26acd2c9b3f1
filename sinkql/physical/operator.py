"""Define operators: from the sources that a job reads to the sink that it writes.

Expressions refer to columns of an operator's input. Two internal columns follow the user's columns. `$seq` (bigint) is
the order of the writes of an append-only or upsert relation. `$diff` (bigint) is ±n in a relation with retractions. In
an upsert relation it is 1 for the present row of a key, and -1 for a removed key, whose other columns have no meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from sinkql.logical.expression import Expression, Reference
from sinkql.logical.expression import walk as walk_expression
from sinkql.logical.relation import Comparison
from sinkql.logical.type import BIGINT, BYTEA, Type
from sinkql.physical.window import Order, WindowCall

Change = Literal["append", "upsert", "retract"]
DIFF, SEQ = "$diff", "$seq"
VIEW = "view"
"""The connector that reads and writes the log of a materialized view job."""
CONSTANT = "constant"
"""The connector that reads constant rows of a query."""


class Column(msgspec.Struct, frozen=True):
    """A column; JSON has the canonical text of its type, such as numeric(38,10)."""

    name: str
    type: Type
    nullable: bool = True


class Origin(msgspec.Struct, frozen=True):
    """The place of an expression: an item's full name, and a character range of its CREATE text."""

    item: str
    start: int
    end: int


class Output(msgspec.Struct, frozen=True):
    """One column of a Map, with the type of its expression; the expression has no span."""

    name: str
    expression: Expression
    origin: Origin | None = None

    @property
    def type(self) -> Type:
        return self.expression.type

    @property
    def column(self) -> str:
        """Return the name of the input column that it passes on; raise TypeError if it is computed."""
        if not isinstance(self.expression, Reference):
            raise TypeError(self.name)
        return self.expression.name

    @property
    def nullable(self) -> bool:
        return self.expression.nullable


class Read(msgspec.Struct, frozen=True, tag="read"):
    """Splits of a source as typed rows; `options` belong to the connector.

    `source` is the source's name in offsets: its first full name. `name` is its present name. `key` has the columns by
    which rows of an upsert source overwrite each other. If `holes`, rows come with information on their unchanged
    values, see `Reader`. `log` is the object store of a captured source's log, None if the log is in a folder.
    """

    source: str
    connector: str
    options: dict[str, Any]
    columns: tuple[Column, ...]
    change: Change = "append"
    connection: Connection | None = None
    renamed: str | None = None
    key: tuple[str, ...] = ()
    holes: bool = False
    log: Connection | None = None

    @property
    def name(self) -> str:
        return self.renamed or self.source


class Map(msgspec.Struct, frozen=True, tag="map"):
    """Filter, then project; with `where` only (`outputs` empty), the columns remain.

    Over an upsert relation, a filtered-out row removes its key; expressions are not computed for it.
    """

    input: Operator
    outputs: tuple[Output, ...] = ()
    where: Output | None = None


class Union(msgspec.Struct, frozen=True, tag="union"):
    """All rows of all inputs, which have equal columns; if `change` is retract, rows without `$diff` count as +1."""

    inputs: tuple[Operator, ...]
    change: Change = "append"


class AggregateCall(msgspec.Struct, frozen=True):
    """One aggregate over a column of the input (None: count(*)); `type` is the type of its result.

    `version` is the meaning version of the function.
    """

    name: str
    function: Literal["count", "sum", "min", "max"]
    column: str | None
    distinct: bool
    type: Type
    version: int = 1


class Stateful(msgspec.Struct, frozen=True):
    """An operator that keeps state between batches; the names of its arrangements begin with `arrangement`."""

    @property
    def arrangement(self) -> str:
        """Return the name of its state, unique in the job."""
        raise NotImplementedError

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """Return the operator's inputs."""
        raise NotImplementedError

    @property
    def entering(self) -> tuple[Operator, ...]:
        """Return the operators whose rows enter its tasks."""
        return self.inputs

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the output columns, without `$diff`."""
        raise NotImplementedError

    @property
    def change(self) -> Change:
        """Return the change kind of its output."""
        return "retract"


class OneInput(Stateful, frozen=True):
    """A stateful operator over one input; `arrangement` names its state."""

    input: Operator
    arrangement: str

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """Return the operator's inputs."""
        return (self.input,)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the output columns, without `$diff`."""
        return columns_of(self.input)


class Aggregate(OneInput, frozen=True, tag="aggregate"):
    """Group by columns of the input; the output is the group columns, then the calls, then `$diff`.

    Without group columns there is always one row. If `input_change` is append, MIN and MAX keep no multiset;
    COUNT(DISTINCT) always keeps one.
    """

    group: tuple[Column, ...]
    calls: tuple[AggregateCall, ...]
    input_change: Change

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the group columns, then the calls."""
        return (*self.group, *(Column(call.name, call.type, call.function != "count") for call in self.calls))


class Pick(OneInput, frozen=True, tag="pick"):
    """One row for each key: the existing row with the greatest hash."""

    key: tuple[str, ...]


class Normalize(OneInput, frozen=True, tag="normalize", omit_defaults=True):
    """Turn upserts by `key` into changes, limited to the columns `kept` if it is not empty.

    A row in which only other columns change then counts as unchanged.
    """

    key: tuple[str, ...]
    kept: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the kept columns, in the order of the input."""
        return tuple(column for column in columns_of(self.input) if not self.kept or column.name in self.kept)


class Arrange(OneInput, frozen=True, tag="arrange", omit_defaults=True):
    """Keep rows by a key for lookups, with the columns `kept`; without columns, only the row count of each key.

    It has no output.
    """

    key: tuple[str, ...]
    kept: tuple[str, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return no columns."""
        return ()


class Index(msgspec.Struct, frozen=True):
    """An index of a materialized view that replaces a side's arrangement; the view's job maintains it.

    `source` is the view's name in offsets, `key` the indexed key: the columns of the side's key. `columns` are the
    columns of the side's input that hold the view's columns, in their order; empty if the side only counts. `places`
    gives, for an output column of the side, its position in `columns`.
    """

    source: str
    arrangement: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    places: dict[str, int]


class Side(msgspec.Struct, frozen=True, omit_defaults=True):
    """One input of a join: the columns of its key, and its output columns.

    It keeps `rows` with their multiplicities, the `latest` row of each key of an upsert input, or the row count of each
    key (`counts`: no output columns). The changes of a `replicated` side go to every bucket, and rows of the opposite
    side are distributed without regard to their key.

    A side that is `within` is a nested join on the same key, below projections that only name or coalesce columns; it
    keeps nothing and runs in the same tasks. A side that `reads` shares the arrangement of another side, and gets the
    same changes of a batch. A side with an `index` keeps nothing and looks up the view's rows.
    """

    input: Operator
    arrangement: str
    key: tuple[str, ...]
    kept: tuple[str, ...]
    keeps: Literal["rows", "latest", "counts"] = "rows"
    replicated: bool = False
    within: bool = False
    reads: bool = False
    index: Index | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the output columns, in the order of `kept`."""
        named = {column.name: column for column in columns_of(self.input)}
        return tuple(named[name] for name in self.kept)


JoinKind = Literal["inner", "left", "right", "full", "semi", "anti"]


class Compared(msgspec.Struct, frozen=True):
    """A comparison of a column of the left side with a column of the right side, of the same type."""

    left: str
    comparison: Comparison
    right: str


class Join(Stateful, frozen=True, tag="join", omit_defaults=True):
    """Rows of both sides with equal keys and, by `kind`, rows without a match.

    The output is the columns of the left side, then of the right side; for semi and anti joins only the left
    columns. `safe` says for each key column whether NULL equals NULL; a row with any other NULL in its key has no
    match. A semi join without a key may be `compared`. Its right side is then replicated and has at most one row, and
    left rows remain if the comparison with it is true.
    """

    kind: JoinKind
    left: Side
    right: Side
    arrangement: str
    safe: tuple[bool, ...]
    compared: Compared | None = None

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """Return the operator's inputs."""
        return (self.left.input, self.right.input)

    @property
    def entering(self) -> tuple[Operator, ...]:
        """Return the operators whose rows enter its tasks: the inputs of its leaves."""
        return tuple(leave.input for leave in self.leaves)

    @property
    def leaves(self) -> tuple[Side, ...]:
        """Return its sides; a nested join is replaced by its own sides."""
        sides = (self.left, self.right)
        return tuple(leaf for side in sides for leaf in (joined_in(side).leaves if side.within else (side,)))

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of both sides, nullable where the kind adds NULLs."""
        left, right = self.left.columns, self.right.columns
        if self.kind in ("semi", "anti"):
            return left
        if self.kind in ("right", "full"):
            left = tuple(Column(left_column.name, left_column.type) for left_column in left)
        if self.kind in ("left", "full"):
            right = tuple(Column(right_column.name, right_column.type) for right_column in right)
        return (*left, *right)

    @property
    def change(self) -> Change:
        """Return append if its rows are never removed: an inner or semi join of append-only inputs."""
        keeps_rows = self.kind in ("inner", "semi") and all(change_of(input_) == "append" for input_ in self.inputs)
        return "append" if keeps_rows else "retract"


class Rank(OneInput, frozen=True, tag="rank", omit_defaults=True):
    """The rows of each partition whose number in the order is between `first` and `last`; no columns: one partition.

    `row_number` orders ties by the hashes of the rows. `number` is the name of the last column, a bigint with the
    number, None if there is no number column. If `parts`, the only partition is split by hash into parts that are
    ranked separately: the top rows of all are top rows of a part.
    """

    partition: tuple[str, ...]
    order: tuple[Order, ...]
    function: Literal["row_number", "rank", "dense_rank"] = "row_number"
    first: int = 1
    last: int | None = None
    number: str | None = None
    parts: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of the input, then the number."""
        shown = () if self.number is None else (Column(self.number, BIGINT, nullable=False),)
        return (*columns_of(self.input), *shown)


class Recompute(OneInput, frozen=True, tag="recompute", omit_defaults=True):
    """Functions of all rows of a key, which are recomputed if one of the rows changes.

    If `grouped`, there is one row for each key: the key's columns, then the calls. Otherwise each row of the input is
    followed by the calls. Without a key, all rows belong together.
    """

    key: tuple[str, ...]
    calls: tuple[WindowCall, ...]
    grouped: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of the input (or of the key, if grouped), then the calls."""
        input_columns = columns_of(self.input)
        if self.grouped:
            named = {column.name: column for column in input_columns}
            input_columns = tuple(named[name] for name in self.key)
        return (*input_columns, *(Column(call.name, call.type, call.nullable) for call in self.calls))


class Bound(OneInput, frozen=True, tag="bound", omit_defaults=True):
    """Rows that are valid from one time until another: columns of the input, bigint, milliseconds since 1970.

    None and NULL mean no bound. A row is valid at the time t of a commit if begin ≤ t < end. The output is the `kept`
    columns.
    """

    begin: str | None
    end: str | None
    kept: tuple[str, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the kept columns."""
        named = {column.name: column for column in columns_of(self.input)}
        return tuple(named[name] for name in self.kept)


class Flatten(msgspec.Struct, frozen=True, tag="flatten", omit_defaults=True):
    """One row for each element of a row's array, with the element as last column `name`, of type `element`.

    `ordinality` is the name of a bigint column that numbers the elements from 1. If `outer`, a row with a NULL or empty
    array appears once, with NULL. It keeps no state.
    """

    input: Operator
    array: Output
    name: str
    element: Type
    ordinality: str | None = None
    outer: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of the input, the element, its number."""
        number = () if self.ordinality is None else (Column(self.ordinality, BIGINT, nullable=self.outer),)
        return (*columns_of(self.input), Column(self.name, self.element), *number)


class Repeat(msgspec.Struct, frozen=True, tag="repeat"):
    """Each row repeated `times` times, a bigint of at least 0; it keeps no state."""

    input: Operator
    times: Output


class Use(msgspec.Struct, frozen=True, tag="use"):
    """The rows of an operator in `Job.shared` with this name, which is used several times."""

    name: str
    columns: tuple[Column, ...]
    change: Change


Operator = (
    Read
    | Map
    | Union
    | Flatten
    | Repeat
    | Use
    | Aggregate
    | Pick
    | Normalize
    | Join
    | Rank
    | Recompute
    | Bound
    | Arrange
)


class Connection(msgspec.Struct, frozen=True, omit_defaults=True):
    """A connection as its connector planned it; secrets appear by name only (`{"secret": name}`).

    Connections that it uses appear in its options by name (`{"connection": name}`), and in `through`.
    """

    name: str
    kind: str
    options: dict[str, Any]
    through: dict[str, Connection] = {}


class Write(msgspec.Struct, frozen=True, tag="write"):
    """The sink: `columns` are the table's, without the changelog columns, `options` belong to the connector.

    If `final`, written rows cannot be changed.
    """

    input: Operator
    connector: str
    connection: Connection
    columns: tuple[Column, ...]
    mode: Literal["append", "upsert", "debezium"]
    change: Change
    changelog: bool
    key: tuple[str, ...]
    proven: bool
    options: dict[str, Any]
    store: Connection | None = None
    final: bool = False

    def of_dead_letters(self, columns: Sequence[Column], options: dict[str, Any]) -> Write:
        """Return the append-only write of this sink's dead letters, with other columns and options."""
        return msgspec.structs.replace(
            self,
            input=Read("letters", "", {}, tuple(columns)),
            columns=tuple(columns),
            mode="append",
            change="append",
            changelog=False,
            key=(),
            proven=False,
            options=options,
        )


def walk(operator: Operator) -> list[Operator]:
    """Return the operator and all below it, inputs before operators that use them; a Use is not followed."""
    match operator:
        case Read() | Use():
            return [operator]
        case Map() | Flatten() | Repeat():
            return [*walk(operator.input), operator]
        case Union() | Stateful():
            return [*(below for input_ in operator.inputs for below in walk(input_)), operator]


def arrangements_of(operator: Operator) -> tuple[str, ...]:
    """Return the names of an operator's arrangements; its tasks are distributed by the first."""
    match operator:
        case Join():
            sides = (operator.left, operator.right)
            return (
                operator.arrangement,
                *(side.arrangement for side in sides if not side.within and side.index is None),
            )
        case Stateful():
            return (operator.arrangement,)
        case Read() | Map() | Union() | Flatten() | Repeat() | Use():
            return ()


def joined_in(side: Side) -> Join:
    """Return the join below the projections of a nested side."""
    below = side.input
    while isinstance(below, Map):
        below = below.input
    assert isinstance(below, Join)
    return below


def columns_of(operator: Operator) -> tuple[Column, ...]:
    """Return an operator's output columns, without `$seq` and `$diff`."""
    match operator:
        case Read():
            return operator.columns
        case Map():
            outputs = tuple(Column(output.name, output.type, output.nullable) for output in operator.outputs)
            return outputs or columns_of(operator.input)
        case Union():
            alike = zip(*map(columns_of, operator.inputs), strict=True)
            return tuple(
                Column(columns[0].name, columns[0].type, any(column.nullable for column in columns))
                for columns in alike
            )
        case Flatten() | Use() | Stateful():
            return operator.columns
        case Repeat():
            return columns_of(operator.input)


def change_of(operator: Operator) -> Change:
    """Return the change kind of an operator's rows; a union of different kinds needs `$diff` in all inputs."""
    match operator:
        case Read():
            return operator.change
        case Map() | Flatten() | Repeat():
            return change_of(operator.input)
        case Union():
            kinds = {change_of(input_) for input_ in operator.inputs}
            return kinds.pop() if len(kinds) == 1 and operator.change != "retract" else "retract"
        case Use() | Stateful():
            return operator.change


def key_of(operator: Operator) -> tuple[str, ...]:
    """Return the key columns of an upsert relation, empty for other relations."""
    match operator:
        case Read():
            return operator.key
        case Map():
            below = key_of(operator.input)
            if not operator.outputs:
                return below
            named: dict[str, str] = {}
            for output in operator.outputs:
                if isinstance(output.expression, Reference):
                    named.setdefault(output.expression.name, output.name)
            return tuple(named[name] for name in below)
        case Union() | Flatten() | Repeat() | Use() | Stateful():
            return ()


def unchanged_value_columns(read: Read) -> tuple[Column, ...]:
    """Return the columns of unchanged values, between `$diff` and `$seq`, empty for most sources.

    `$hole` has one bit for each column. `$from0`, `$from1` and so on are the key from before the change, in the order
    of `Read.key`.
    """
    if not read.holes:
        return ()
    types = {column.name: column.type for column in read.columns}
    before = (Column(f"$from{place}", types[name]) for place, name in enumerate(read.key))
    return (Column("$hole", BYTEA), *before)


def forgets(map_: Map) -> bool:
    """Return whether a Map over an upsert relation filters only by the key, so that a removed row never existed."""
    if map_.where is None or change_of(map_) != "upsert":
        return False
    key = key_of(map_.input)
    return all(node.name in key for node in walk_expression(map_.where.expression) if isinstance(node, Reference))


def internal_of(operator: Operator) -> tuple[str, ...]:
    """Return the internal columns after the user's columns, in order: `$diff`, `$seq`.

    Rows of an append relation that is not `sequenced` have neither.
    """
    match change_of(operator):
        case "append":
            return (SEQ,) if sequenced(operator) else ()
        case "upsert":
            return (DIFF, SEQ)
        case "retract":
            return (DIFF,)


def sequenced(operator: Operator) -> bool:
    """Return whether rows keep the order of their writes, which joins and one-to-many operators lose."""
    return all(isinstance(node, Read | Map | Union) for node in walk(operator))
