"""Define the input of a stateful operator's tasks, as data that every engine reads.

With B = `buckets(n)`, an engine prepares the changes of a batch as follows. It computes `values`, and a hash for `$h1`.
It distributes rows to B buckets by that hash, or by the sink's key if the tasks write (`physical.copartitioned`). It
groups by `group` and computes the `measures`. Each of the B tasks gets the rows of its bucket, and runs even without
rows. Rows of one group may come several times; their measures add up. Rows that overwrite each other are not grouped.

An engine's hash only distributes rows. The hashes that identify rows are computed in the tasks, from the values
(`runtime.state.row_identity`). So they are equal in all engines, and users cannot construct rows with equal hashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sinkql import physical
from sinkql.connector_api.types import arrow_type
from sinkql.logical.numeric_type import FLOATS
from sinkql.logical.type import BIGINT, Type

if TYPE_CHECKING:
    import pyarrow as pa

COUNT = "$count"
"""The measure of every operator: the change of a group's row count."""


@dataclass(frozen=True, slots=True)
class Value:
    """A column of the input under its name in tasks; real and double have no -0 and a single NaN."""

    name: str
    column: str
    type: Type


@dataclass(frozen=True, slots=True)
class Hash:
    """One half of the hash of values, as a bigint; NULL is a value, and arrays are delimited.

    So (NULL, 'a') differs from ('a', NULL), {a} from {a,NULL}, and {{1},{2}} from {{1,2}}. Hashes of different
    `domain`s are unrelated. Tasks compute the hash; an engine gives 0 instead, unless it distributes rows by it.
    """

    name: str
    domain: int
    values: tuple[Value, ...]
    half: int = 0


@dataclass(frozen=True, slots=True)
class Measure:
    """What the rows of a group come to.

    * `rows`: the sum of their `$diff`, bigint.
    * `present`: the same of those where the value is not NULL.
    * `sum`: of value times `$diff`, 0 for none; bigint, 38 digits of the scale of `type`, or double.
    * `least`, `greatest`: of the value, which only comes.
    """

    name: str
    kind: Literal["rows", "present", "sum", "least", "greatest"]
    value: str
    type: Type


@dataclass(frozen=True, slots=True)
class TaskInput:
    """The steps before a stateful operator's tasks, their input, and their output.

    The input has `$diff` unless it is `append`. Tasks take the columns of `group` and the measures, by name and in any
    order, and may get `$b`, the engine's bucket. Their output is `columns`, then `$diff`. If `ordered`, rows are not
    grouped: tasks take the columns of `group`, `$diff` and `$seq` of each row.
    """

    hashes: tuple[Hash, ...]
    values: tuple[Value, ...]
    group: tuple[str, ...]
    measures: tuple[Measure, ...]
    append: bool
    columns: tuple[physical.Column, ...]
    one_bucket: bool = False
    ordered: bool = False

    @property
    def place(self) -> str:
        """Return the column that decides the bucket: `$h1`, or one that tasks do not take."""
        return "$h1"

    def spreads(self, hash_: Hash) -> bool:
        """Return whether a hash decides the buckets of rows."""
        return hash_.name == self.place

    @property
    def is_broadcast(self) -> bool:
        """Return whether this is a broadcast join without a key, of all pairs of rows."""
        return False

    @property
    def repeated(self) -> int | None:
        """Return the side whose rows go to every bucket, None if each row goes to one bucket."""
        return None

    def named(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the names in tasks of columns of the input."""
        names = {value.column: value.name for value in reversed(self.values)}
        return tuple(names[column] for column in columns)

    def buckets(self, wanted: int) -> int:
        """Return the number of buckets of this operator, if the state has `wanted`."""
        return 1 if self.one_bucket else wanted

    def delivered(self) -> pa.Schema:
        """Return the Arrow schema of the tasks' input, without `$b`."""
        import pyarrow as pa

        types = {hash_.name: pa.int64() for hash_ in self.hashes}
        types |= {value.name: arrow_type(value.type) for value in self.values}
        fields = [(name, types[name]) for name in self.group]
        if self.ordered:
            fields += [(physical.DIFF, pa.int64()), (physical.SEQ, pa.int64())]
        return pa.schema([*fields, *((measure.name, _measured(measure)) for measure in self.measures)])

    def types(self) -> tuple[Type | None, ...]:
        """Return the SQL types of the columns of `delivered`, None for hashes, counts and sums."""
        types = {value.name: value.type for value in self.values}
        measured = (measure.type if measure.kind in ("least", "greatest") else None for measure in self.measures)
        internal = (None, None) if self.ordered else ()
        return (*(types.get(name) for name in self.group), *internal, *measured)

    def output(self) -> pa.Schema:
        """Return the Arrow schema of the tasks' output."""
        import pyarrow as pa

        fields = [(column.name, arrow_type(column.type)) for column in self.columns]
        return pa.schema([*fields, ("$diff", pa.int64())])


def _measured(measure: Measure) -> pa.DataType:
    import pyarrow as pa

    match measure.kind:
        case "rows" | "present":
            return pa.int64()
        case "sum":
            return sum_arrow_type(measure.type)
        case "least" | "greatest":
            return arrow_type(measure.type)


def sum_arrow_type(type_: Type) -> pa.DataType:
    """Return the type of a stored sum: bigint, 38 digits with the result's scale, or double."""
    import pyarrow as pa

    if type_.name == "numeric":
        return pa.decimal128(38, type_.scale)
    return pa.float64() if type_.name in FLOATS else pa.int64()


def value_columns(prefix: str, columns: Sequence[physical.Column]) -> tuple[Value, ...]:
    """Return the columns as values `$<prefix>0`, `$<prefix>1`, and so on."""
    return tuple(Value(f"${prefix}{index}", column.name, column.type) for index, column in enumerate(columns))


def identity(values: tuple[Value, ...]) -> tuple[Hash, Hash]:
    """Return `$h1` and `$h2`, the two halves of the hash that identifies a key."""
    return Hash("$h1", _KEY, values), Hash("$h2", _KEY, values, half=1)


def row_hash(name: str, values: tuple[Value, ...]) -> Hash:
    """Return the hash that distinguishes rows of one key, or values of one group."""
    return Hash(name, _ROW, values)


def appends(operator: physical.OneInput) -> bool:
    """Return whether the input is append-only; raise ValueError for an upsert relation."""
    change = physical.change_of(operator.input)
    if change == "upsert":
        kind = type(operator).__name__.lower()
        raise ValueError(f'{kind} "{operator.arrangement}" stands on an upsert relation')
    return change == "append"


def whole_rows(operator: physical.OneInput, key: Sequence[str]) -> TaskInput:
    """Return the input of tasks that keep whole rows by a key; raise ValueError for an upsert relation.

    Tasks take `$k<i>` (all columns), `$h1`, `$h2` (hashes of the key), `$r` (hash of the whole row), and `$count`.
    """
    append = appends(operator)
    values = value_columns("k", physical.columns_of(operator.input))
    by_column = {value.column: value for value in values}
    return TaskInput(
        hashes=(*identity(tuple(by_column[name] for name in key)), row_hash("$r", values)),
        values=values,
        group=("$h1", "$h2", *(value.name for value in values), "$r"),
        measures=(Measure(COUNT, "rows", "", BIGINT),),
        append=append,
        columns=operator.columns,
        one_bucket=not key,
    )


_KEY, _ROW = 1, 13
