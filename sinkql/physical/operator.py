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

Change = Literal["append", "upsert", "retract"]
DIFF, SEQ = "$diff", "$seq"


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
    """An operator that keeps state between batches; its rows come and go. `arrangement` names the state."""

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


class Aggregate(Stateful, frozen=True, tag="aggregate"):
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


class Pick(Stateful, frozen=True, tag="pick"):
    """One row a key: of the rows that are there the one with the greatest hash."""

    key: tuple[str, ...]


class Normalize(Stateful, frozen=True, tag="normalize", omit_defaults=True):
    """Rows that overwrite each other by `key` → rows that come and go; of `kept` columns alone, if it says which.

    A row whose other columns change is the same row then.
    """

    key: tuple[str, ...]
    kept: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns that it keeps, in the order of its input."""
        return tuple(each for each in columns_of(self.input) if not self.kept or each.name in self.kept)


Operator = Read | Map | Union | Aggregate | Pick | Normalize


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
    """Return the operator and all below it, inputs before the operators that use them."""
    match operator:
        case Read():
            return [operator]
        case Map():
            return [*walk(operator.input), operator]
        case Union() | Stateful():
            return [*(below for each in operator.inputs for below in walk(each)), operator]


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
        case Stateful():
            return operator.columns


def change_of(operator: Operator) -> Change:
    """Return the change kind of an operator's rows; a union of unlike ones needs `$diff` in all of them."""
    match operator:
        case Read():
            return operator.change
        case Map():
            return change_of(operator.input)
        case Union():
            kinds = {change_of(each) for each in operator.inputs}
            return kinds.pop() if len(kinds) == 1 else "retract"
        case Stateful():
            return "retract"


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
        case Union() | Stateful():
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
    """Return the names of the columns that an operator adds to the user's, in order: `$diff`, `$seq`."""
    match change_of(operator):
        case "append":
            return (SEQ,)
        case "upsert":
            return (DIFF, SEQ)
        case "retract":
            return (DIFF,)
