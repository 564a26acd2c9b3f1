"""A job as data: what to read, which operators to run, what to write, and when. JSON in, JSON out, no Spark.

Spark SQL text is over the columns of an operator's input. Three columns are added to the user's: `$seq` (bigint, the
order of the writes of an append-only or upsert relation), `$diff` (bigint, ±n, of a relation with retractions).
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import msgspec

Change = Literal["append", "upsert", "retract"]


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
    """One column of a Map: Spark SQL text that has exactly the given type."""

    name: str
    sql: str
    type: str
    nullable: bool
    origin: Origin | None = None


class Read(msgspec.Struct, frozen=True, tag="read"):
    """Splits of a source as typed rows; `options` are the connector's own.

    `source` is what offsets are kept under: the first full name that the source had. `name` is its name now.
    """

    source: str
    connector: str
    options: dict[str, Any]
    columns: tuple[Column, ...]
    change: Change = "append"
    connection: Connection | None = None
    renamed: str | None = None

    @property
    def name(self) -> str:
        return self.renamed or self.source


class Map(msgspec.Struct, frozen=True, tag="map"):
    """Filter, then project; `where` alone keeps the columns (`outputs` empty)."""

    input: Operator
    outputs: tuple[Output, ...] = ()
    where: Output | None = None


class Union(msgspec.Struct, frozen=True, tag="union"):
    """All rows of all inputs, which have the same columns; if `change` is retract, rows without `$diff` count as +1."""

    inputs: tuple[Operator, ...]
    change: Change = "append"


class AggregateCall(msgspec.Struct, frozen=True):
    """One aggregate over a column of the input (None: count(*)); `type` is that of its result."""

    name: str
    function: Literal["count", "sum", "min", "max"]
    column: str | None
    distinct: bool
    type: str


class Aggregate(msgspec.Struct, frozen=True, tag="aggregate"):
    """Group by columns of the input; the output is the group columns, then the calls, then `$diff`.

    `arrangement` names its state. No group columns: one row always. `input_change` append: MIN and MAX keep no
    multiset. COUNT(DISTINCT) always keeps one.
    """

    input: Operator
    arrangement: str
    group: tuple[Column, ...]
    calls: tuple[AggregateCall, ...]
    input_change: Change


class Pick(msgspec.Struct, frozen=True, tag="pick"):
    """One row a key: of the rows that are there the one with the greatest hash. `arrangement` names its state."""

    input: Operator
    arrangement: str
    key: tuple[str, ...]


Operator = Read | Map | Union | Aggregate | Pick


class Connection(msgspec.Struct, frozen=True):
    """A connection as its connector planned it; secrets by name only (`{"secret": name}`)."""

    name: str
    kind: str
    options: dict[str, Any]


class Write(msgspec.Struct, frozen=True, tag="write"):
    """The sink: `columns` are the table's without the changelog's, `options` the connector's own."""

    input: Operator
    connector: str
    connection: Connection
    columns: tuple[Column, ...]
    mode: Literal["append", "upsert"]
    change: Change
    changelog: bool
    key: tuple[str, ...]
    proven: bool
    options: dict[str, Any]
    aws_connection: Connection | None = None


class Job(msgspec.Struct, frozen=True):
    """One sink's work. `texts` are the CREATE statements that origins point into, by item; `follows` the plans that the
    sink had before, in whose table it goes on.

    A reader's options under the name `tuning` decide no rows.
    """

    sink: str
    sink_id: str
    cluster: str
    master: str
    conf: dict[str, str]
    commit_interval_ms: int
    max_rows: int
    write: Write
    texts: dict[str, str]
    snapshot: bool = True
    follows: tuple[str, ...] = ()

    @property
    def plan(self) -> str:
        """Return the hash of all that decides rows: not of intervals, limits, clusters, texts or tuning."""
        return _hash(_deciding(self.write, within=(dict, list, tuple)))

    @property
    def former_plan(self) -> str:
        """Return the hash that version 1 of the catalog had: it took in where the expressions of views stand."""
        data = _deciding(self.write, within=(dict, list))
        _drop(data, {"renamed"}, (dict, list, tuple))
        return _hash(data)

    def reads(self) -> tuple[Read, ...]:
        """Return the job's sources, each once, in the order they stand in the tree."""
        found: dict[str, Read] = {}
        for operator in walk(self.write.input):
            if isinstance(operator, Read):
                found.setdefault(operator.source, operator)
        return tuple(found.values())

    def secrets(self) -> frozenset[str]:
        """Return the full names of the secrets that its connections take."""
        write = self.write
        connections = (write.connection, write.aws_connection, *(read.connection for read in self.reads()))
        return frozenset(name for each in connections if each is not None for name in _secrets(each.options))

    def stateful(self) -> bool:
        """Tell whether an operator of the job keeps state."""
        return any(isinstance(operator, Aggregate | Pick) for operator in walk(self.write.input))


def walk(operator: Operator) -> list[Operator]:
    """Return the operator and all below it, inputs before the operators that use them."""
    match operator:
        case Read():
            return [operator]
        case Map() | Aggregate() | Pick():
            return [*walk(operator.input), operator]
        case Union():
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
        case Aggregate():
            calls = (Column(each.name, each.type, each.function != "count") for each in operator.calls)
            return (*operator.group, *calls)
        case Pick():
            return columns_of(operator.input)


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
        case Aggregate() | Pick():
            return "retract"


def _hash(data: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(data, order="sorted")).hexdigest()[:16]


def _deciding(write: Write, *, within: tuple[type, ...]) -> Any:
    data = msgspec.to_builtins(write)
    del data["options"]
    _drop(data, {"origin", "connection", "aws_connection", "tuning", "renamed"}, within)
    return data


def _drop(data: Any, names: set[str], within: tuple[type, ...]) -> None:
    if not isinstance(data, within):
        return
    if isinstance(data, dict):
        for name in names & data.keys():
            del data[name]
    values: Any = data.values() if isinstance(data, dict) else data
    for value in values:
        _drop(value, names, within)


def _secrets(data: Any) -> set[str]:
    """Return the names in `{"secret": name}` of a connection's options."""
    match data:
        case {"secret": str(name)}:
            return {name}
        case dict():
            return {name for value in data.values() for name in _secrets(value)}
        case list() | tuple():
            return {name for value in data for name in _secrets(value)}
        case _:
            return set()


def encode(job: Job) -> bytes:
    """Return the job as indented JSON; `decode` gives it back equal."""
    return msgspec.json.format(msgspec.json.encode(job), indent=2)


def decode(data: bytes) -> Job:
    """Read a job from JSON; raises `msgspec.ValidationError` where it is not one."""
    return msgspec.json.decode(data, type=Job)
