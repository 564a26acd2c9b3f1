"""What a job does: operators over operators, down to the sources that are read, and up to the sink that is written.

Expressions are over the columns of an operator's input. Two columns are added to the user's: `$seq` (bigint, the order
of the writes of an append-only or upsert relation), `$diff` (bigint): ±n of a relation with retractions; of an upsert
relation 1 for a row that its key has now, -1 for a key that is gone, of which other columns say nothing.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from sinkql.logical.expression import Expression, Reference
from sinkql.logical.expression import walk as walk_expression
from sinkql.logical.relation import Comparison
from sinkql.physical.window import Order, WindowCall

Change = Literal["append", "upsert", "retract"]
DIFF, SEQ = "$diff", "$seq"
VIEW = "view"
"""The connector of what reads and writes the log of a materialized view that is a job of its own."""
CONSTANT = "constant"
"""The connector of what reads the rows that stand in a query."""


class Column(msgspec.Struct, frozen=True):
    """A column; `type` is an SQL type's canonical text, such as numeric(38,10)."""

    name: str
    type: str
    nullable: bool = True


class Origin(msgspec.Struct, frozen=True):
    """Where an expression was written: an item's full name and characters start to end of its CREATE text."""

    item: str
    start: int
    end: int


class Output(msgspec.Struct, frozen=True):
    """One column of a Map, of the expression's type; the expression says nothing of where it was written."""

    name: str
    expression: Expression
    origin: Origin | None = None

    @property
    def type(self) -> str:
        return str(self.expression.type)

    @property
    def nullable(self) -> bool:
        return self.expression.nullable


class Read(msgspec.Struct, frozen=True, tag="read"):
    """Splits of a source as typed rows; `options` are the connector's own.

    `source` is what offsets are kept under: the first full name that the source had. `name` is its name now. `key`:
    the columns by which rows overwrite each other, of an upsert source; `holes`: rows come with what its server may
    leave out of them, as `Reader` says. `log` reaches the store of the log of a source that is captured, None where it
    is in a folder.
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
    """Filter, then project; `where` alone keeps the columns (`outputs` empty).

    Over an upsert relation, a row that is filtered out means that its key is gone; nothing is computed of such a key.
    """

    input: Operator
    outputs: tuple[Output, ...] = ()
    where: Output | None = None


class Union(msgspec.Struct, frozen=True, tag="union"):
    """All rows of all inputs, which have the same columns; if `change` is retract, rows without `$diff` count as +1."""

    inputs: tuple[Operator, ...]
    change: Change = "append"


class AggregateCall(msgspec.Struct, frozen=True):
    """One aggregate over a column of the input (None: count(*)); `type` is that of its result.

    `version` is that of the function's meaning.
    """

    name: str
    function: Literal["count", "sum", "min", "max"]
    column: str | None
    distinct: bool
    type: str
    version: int = 1


class Stateful(msgspec.Struct, frozen=True):
    """An operator that keeps state between batches. The names of its arrangements begin with `arrangement`."""

    @property
    def arrangement(self) -> str:
        """Return the name of its state, unique in the job."""
        raise NotImplementedError

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """Return what it reads."""
        raise NotImplementedError

    @property
    def entering(self) -> tuple[Operator, ...]:
        """Return the operators whose rows come to its tasks."""
        return self.inputs

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return what it gives, without `$diff`."""
        raise NotImplementedError

    @property
    def change(self) -> Change:
        """Return how the rows that it gives change."""
        return "retract"


class OneInput(Stateful, frozen=True):
    """An operator with state over one input; `arrangement` names the state."""

    input: Operator
    arrangement: str

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """Return what it reads."""
        return (self.input,)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return what it gives, without `$diff`."""
        return columns_of(self.input)


class Aggregate(OneInput, frozen=True, tag="aggregate"):
    """Group by columns of the input; the output is the group columns, then the calls, then `$diff`.

    No group columns: one row always. `input_change` append: MIN and MAX keep no multiset. COUNT(DISTINCT) always keeps
    one.
    """

    group: tuple[Column, ...]
    calls: tuple[AggregateCall, ...]
    input_change: Change

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the group columns, then the calls."""
        return (*self.group, *(Column(each.name, each.type, each.function != "count") for each in self.calls))


class Pick(OneInput, frozen=True, tag="pick"):
    """One row a key: of the rows that are there the one with the greatest hash."""

    key: tuple[str, ...]


class Normalize(OneInput, frozen=True, tag="normalize", omit_defaults=True):
    """Rows that overwrite each other by `key` → rows that come and go; of `kept` columns alone, if it says which.

    A row whose other columns change is the same row then.
    """

    key: tuple[str, ...]
    kept: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns that it keeps, in the order of its input."""
        return tuple(each for each in columns_of(self.input) if not self.kept or each.name in self.kept)


class Arrange(OneInput, frozen=True, tag="arrange", omit_defaults=True):
    """Keep rows by a key, of them the `kept` columns, for others to look up; without any only how many a key has.

    It gives no rows.
    """

    key: tuple[str, ...]
    kept: tuple[str, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return none."""
        return ()


class Index(msgspec.Struct, frozen=True):
    """An index of a materialized view in the place of a side's own arrangement; the view's job keeps it.

    `source` is the view as offsets have it, `key` what the index is by: the columns of the side's key. `columns` are
    those of the side's input that have what the view's rows have, in their order; none where the side only counts.
    `places` says for a column that the side gives which one of them it is.
    """

    source: str
    arrangement: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    places: dict[str, int]


class Side(msgspec.Struct, frozen=True, omit_defaults=True):
    """One input of a join: the columns of its key, and those that it gives.

    It keeps `rows` with their multiplicities, the `latest` row of each key of an upsert input, or how many rows a key
    has (`counts`: such a side gives no columns). The changes of a `replicated` side go to every bucket, and rows of the
    other one are spread whatever their key. A side that is `within` keeps nothing: its input is a join on the same key,
    below projections that name columns or coalesce them, and is done in the same tasks. A side that `reads` has rows
    that another side keeps in the same arrangement, and gets the changes of the batch like that one. One with an
    `index` keeps nothing either: it looks up the view's rows there.
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
        """Return the columns that it gives, in the order of `kept`."""
        named = {column.name: column for column in columns_of(self.input)}
        return tuple(named[name] for name in self.kept)


JoinKind = Literal["inner", "left", "right", "full", "semi", "anti"]


class Compared(msgspec.Struct, frozen=True):
    """A comparison of a column that the left side keeps with one of the right side, of the same type."""

    left: str
    comparison: Comparison
    right: str


class Join(Stateful, frozen=True, tag="join", omit_defaults=True):
    """Rows of both sides whose keys are equal, and those without any, by the `kind`.

    The output is the columns of the left side, then those of the right one; of semi and anti joins the left ones
    alone. `safe` says by column of the key whether NULL equals NULL; a row with another NULL in its key has no match.
    A semi join without a key may be `compared`: its right side, replicated, has one row at most, and those of the left
    side show for which the comparison with it is true.
    """

    kind: JoinKind
    left: Side
    right: Side
    arrangement: str
    safe: tuple[bool, ...]
    compared: Compared | None = None

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """Return what it reads."""
        return (self.left.input, self.right.input)

    @property
    def entering(self) -> tuple[Operator, ...]:
        """Return the operators whose rows come to its tasks: the inputs of its leaves."""
        return tuple(each.input for each in self.leaves)

    @property
    def leaves(self) -> tuple[Side, ...]:
        """Return its sides, and in place of one that is within those of its join."""
        sides = (self.left, self.right)
        return tuple(leaf for side in sides for leaf in (joined_in(side).leaves if side.within else (side,)))

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of both sides, nullable where the kind adds NULLs."""
        left, right = self.left.columns, self.right.columns
        if self.kind in ("semi", "anti"):
            return left
        if self.kind in ("right", "full"):
            left = tuple(Column(each.name, each.type) for each in left)
        if self.kind in ("left", "full"):
            right = tuple(Column(each.name, each.type) for each in right)
        return (*left, *right)

    @property
    def change(self) -> Change:
        """Return append where a row, once there, stays: an inner or semi join of inputs whose rows only come."""
        stays = self.kind in ("inner", "semi") and all(change_of(each) == "append" for each in self.inputs)
        return "append" if stays else "retract"


class Rank(OneInput, frozen=True, tag="rank", omit_defaults=True):
    """The rows of each partition whose number in the order is from `first` to `last`; no columns: one partition.

    `row_number` tells rows apart that the order does not, by their hashes. `number` is the name of the column, bigint,
    that has the number, behind those of the input; None where it is not shown. `parts`: the only partition is cut into
    parts, by hash, that are ranked alone: what is first in all is first in one of them.
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
        shown = () if self.number is None else (Column(self.number, "bigint", nullable=False),)
        return (*columns_of(self.input), *shown)


class Recompute(OneInput, frozen=True, tag="recompute", omit_defaults=True):
    """Functions of all rows of a key, which are computed again where one of the rows changes.

    `grouped`: one row a key, the key's columns and then the calls; otherwise each row of the input with the calls
    behind its columns. No key: all rows.
    """

    key: tuple[str, ...]
    calls: tuple[WindowCall, ...]
    grouped: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of the input, of a grouped one those of the key, then the calls."""
        given = columns_of(self.input)
        if self.grouped:
            named = {column.name: column for column in given}
            given = tuple(named[name] for name in self.key)
        return (*given, *(Column(each.name, each.type, each.nullable) for each in self.calls))


class Bound(OneInput, frozen=True, tag="bound", omit_defaults=True):
    """Rows that show from a time on and until another one: columns of the input, bigint, milliseconds since 1970.

    None and NULL: from the beginning, without end. A row shows at the time t of a commit where begin ≤ t < end. The
    output is the `kept` columns.
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
    """Each row as often as its array has elements, with these, of type `element`, behind its columns as `name`.

    `ordinality` is the name of a column that counts them, bigint, from 1. With `outer`, a row whose array is NULL or
    empty comes once, with NULL. It keeps no state.
    """

    input: Operator
    array: Output
    name: str
    element: str
    ordinality: str | None = None
    outer: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of the input, the element, its number."""
        number = () if self.ordinality is None else (Column(self.ordinality, "bigint", nullable=self.outer),)
        return (*columns_of(self.input), Column(self.name, self.element), *number)


class Repeat(msgspec.Struct, frozen=True, tag="repeat"):
    """Each row of rows that come and go as often as `times` says, a bigint that is no less than 0; keeps no state."""

    input: Operator
    times: Output


class Use(msgspec.Struct, frozen=True, tag="use"):
    """The rows of an operator that stands once in `Job.shared`, under this name, and is used several times."""

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
    """A connection as its connector planned it; secrets by name only (`{"secret": name}`).

    Other connections that it goes through stand in its options by name (`{"connection": name}`), and are in `through`.
    """

    name: str
    kind: str
    options: dict[str, Any]
    through: dict[str, Connection] = {}


class Write(msgspec.Struct, frozen=True, tag="write"):
    """The sink: `columns` are the table's without the changelog's, `options` the connector's own.

    What a `final` one has written stays: its rows only come, or come and go.
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


def walk(operator: Operator) -> list[Operator]:
    """Return the operator and all below it, inputs before the operators that use them; of a Use itself alone."""
    match operator:
        case Read() | Use():
            return [operator]
        case Map() | Flatten() | Repeat():
            return [*walk(operator.input), operator]
        case Union() | Stateful():
            return [*(below for each in operator.inputs for below in walk(each)), operator]


def arrangements_of(operator: Operator) -> tuple[str, ...]:
    """Return the names of an operator's own state, first the one that its tasks go by."""
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
    """Return the join that a side within another's tasks stands on, below its projections."""
    below = side.input
    while isinstance(below, Map):
        below = below.input
    assert isinstance(below, Join)
    return below


def columns_of(operator: Operator) -> tuple[Column, ...]:
    """Return the columns that an operator gives, without `$seq` and `$diff`."""
    match operator:
        case Read():
            return operator.columns
        case Map():
            outputs = tuple(Column(each.name, each.type, each.nullable) for each in operator.outputs)
            return outputs or columns_of(operator.input)
        case Union():
            alike = zip(*map(columns_of, operator.inputs), strict=True)
            return tuple(Column(each[0].name, each[0].type, any(own.nullable for own in each)) for each in alike)
        case Flatten() | Use() | Stateful():
            return operator.columns
        case Repeat():
            return columns_of(operator.input)


def change_of(operator: Operator) -> Change:
    """Return the change kind of an operator's rows; a union of unlike ones needs `$diff` in all of them."""
    match operator:
        case Read():
            return operator.change
        case Map() | Flatten() | Repeat():
            return change_of(operator.input)
        case Union():
            kinds = {change_of(each) for each in operator.inputs}
            return kinds.pop() if len(kinds) == 1 and operator.change != "retract" else "retract"
        case Use() | Stateful():
            return operator.change


def key_of(operator: Operator) -> tuple[str, ...]:
    """Return the columns by which the rows of an upsert relation overwrite each other; none for other relations."""
    match operator:
        case Read():
            return operator.key
        case Map():
            below = key_of(operator.input)
            if not operator.outputs:
                return below
            named: dict[str, str] = {}
            for each in operator.outputs:
                if isinstance(each.expression, Reference):
                    named.setdefault(each.expression.name, each.name)
            return tuple(named[name] for name in below)
        case Union() | Flatten() | Repeat() | Use() | Stateful():
            return ()


def hole_columns(read: Read) -> tuple[Column, ...]:
    """Return the columns that say what a server left out of a row, between `$diff` and `$seq`; none for most sources.

    `$hole` is a bit a column, `$from0`, `$from1` and so on are the key that the row had, by the columns of `Read.key`.
    """
    if not read.holes:
        return ()
    types = {column.name: column.type for column in read.columns}
    before = (Column(f"$from{place}", types[name]) for place, name in enumerate(read.key))
    return (Column("$hole", "bytea"), *before)


def forgets(map_: Map) -> bool:
    """Tell whether a Map over an upsert relation filters by the key alone: what it leaves out had no row before."""
    if map_.where is None or change_of(map_) != "upsert":
        return False
    key = key_of(map_.input)
    return all(node.name in key for node in walk_expression(map_.where.expression) if isinstance(node, Reference))


def internal_of(operator: Operator) -> tuple[str, ...]:
    """Return the names of the columns that an operator adds to the user's, in order: `$diff`, `$seq`.

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
    """Tell whether rows have the order of their writes: not where one row becomes several, or is made of two."""
    return all(isinstance(each, Read | Map | Union) for each in walk(operator))
