"""What goes into the tasks of an operator with state, as data that every engine reads.

An engine prepares the changes of a batch so, with B = `buckets(n)`: compute `values` and a hash of its own for `$h1`,
put rows into B buckets by that, or by the sink's key where the tasks write what they give (`physical.copartitioned`),
group by `group` and take the `measures`; each of the B tasks gets the rows of its bucket, and runs also without any.
Rows of one group may come several times: they add up. Rows that overwrite each other are not grouped.

An engine's hash only spreads rows. What tells them apart is computed in the tasks, of the values that come with them
(`runtime.state.identity`): so all engines have the same, and nobody who writes rows can write two that have one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sinkql import physical
from sinkql.connector_api.types import arrow_type, parse_type
from sinkql.logical.numeric_type import FLOATS

if TYPE_CHECKING:
    import pyarrow as pa

COUNT = "$count"
"""The measure that every operator takes: by how much a group's rows became more."""


@dataclass(frozen=True, slots=True)
class Value:
    """A column of the input under the name that tasks know; real and double have one zero and one NaN."""

    name: str
    column: str
    type: str


@dataclass(frozen=True, slots=True)
class Hash:
    """A half of the hash of values, as a bigint, in which NULL is a value and an array has its ends.

    So (NULL, 'a') and ('a', NULL) are two, and so are {a} and {a,NULL}, and {{1},{2}} and {{1,2}}. Those of a `domain`
    have nothing to do with those of another. Tasks compute it; what an engine gives in its place is 0, unless it
    spreads rows by it.
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
    type: str


@dataclass(frozen=True, slots=True)
class TaskInput:
    """The steps before a stateful operator's tasks, what these take, and what they give.

    The input has `$diff` unless it is `append`. Tasks take the columns of `group` and the measures, by name and in any
    order, and may get `$b`, the bucket by the engine's own reckoning. They give `columns`, and then `$diff`. With
    `ordered` there are no groups: tasks take the columns of `group` of each row, its `$diff` and its `$seq`.
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
        """Return the column by which rows go to buckets: `$h1`, or one that tasks do not take."""
        return "$h1"

    def spreads(self, hash_: Hash) -> bool:
        """Tell whether rows go to buckets by a hash."""
        return hash_.name == self.place

    @property
    def crossed(self) -> bool:
        """Tell whether the rows of a side that every bucket gets are for all rows of the other one."""
        return False

    @property
    def repeated(self) -> int | None:
        """Return the side whose rows every bucket gets, None where each row goes to one."""
        return None

    def named(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the names under which tasks know columns of the input."""
        names = {each.column: each.name for each in reversed(self.values)}
        return tuple(names[column] for column in columns)

    def buckets(self, wanted: int) -> int:
        """Return the number of buckets of this operator where the state has `wanted`."""
        return 1 if self.one_bucket else wanted

    def delivered(self) -> pa.Schema:
        """Return the Arrow columns that the tasks take, `$b` left out."""
        import pyarrow as pa

        types = {each.name: pa.int64() for each in self.hashes}
        types |= {each.name: arrow_type(each.type) for each in self.values}
        fields = [(name, types[name]) for name in self.group]
        if self.ordered:
            fields += [(physical.DIFF, pa.int64()), (physical.SEQ, pa.int64())]
        return pa.schema([*fields, *((each.name, _measured(each)) for each in self.measures)])

    def types(self) -> tuple[str | None, ...]:
        """Return the SQL types of what `delivered` has; None for hashes, counts and sums."""
        types = {each.name: each.type for each in self.values}
        measured = (each.type if each.kind in ("least", "greatest") else None for each in self.measures)
        own = (None, None) if self.ordered else ()
        return (*(types.get(name) for name in self.group), *own, *measured)

    def output(self) -> pa.Schema:
        """Return the Arrow columns that the tasks give."""
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


def sum_arrow_type(text: str) -> pa.DataType:
    """Return the type in which a sum is kept: bigint, 38 digits of the result's scale, or double."""
    import pyarrow as pa

    type_ = parse_type(text)
    if type_.name == "numeric":
        return pa.decimal128(38, type_.scale)
    return pa.float64() if text in FLOATS else pa.int64()


def value_columns(prefix: str, columns: Sequence[physical.Column]) -> tuple[Value, ...]:
    """Return the columns as values `$<prefix>0`, `$<prefix>1`, and so on."""
    return tuple(Value(f"${prefix}{index}", each.name, each.type) for index, each in enumerate(columns))


def identity(values: tuple[Value, ...]) -> tuple[Hash, Hash]:
    """Return `$h1` and `$h2`, the two halves of the hash that is a key's identity."""
    return Hash("$h1", _KEY, values), Hash("$h2", _KEY, values, half=1)


def row_hash(name: str, values: tuple[Value, ...]) -> Hash:
    """Return the hash that tells rows of one key, or values of one group, apart."""
    return Hash(name, _ROW, values)


def appends(operator: physical.OneInput) -> bool:
    """Tell whether rows of the input only come; raises ValueError for rows that overwrite each other."""
    change = physical.change_of(operator.input)
    if change == "upsert":
        kind = type(operator).__name__.lower()
        raise ValueError(f'{kind} "{operator.arrangement}" stands on an upsert relation')
    return change == "append"


def whole_rows(operator: physical.OneInput, key: Sequence[str]) -> TaskInput:
    """Return what goes into tasks that keep whole rows by a key; raises ValueError for rows that overwrite each other.

    Tasks take `$k<i>` (all columns), `$h1`, `$h2` (hashes of the key), `$r` (hash of the whole row), and `$count`.
    """
    append = appends(operator)
    values = value_columns("k", physical.columns_of(operator.input))
    by_column = {each.column: each for each in values}
    return TaskInput(
        hashes=(*identity(tuple(by_column[name] for name in key)), row_hash("$r", values)),
        values=values,
        group=("$h1", "$h2", *(each.name for each in values), "$r"),
        measures=(Measure(COUNT, "rows", "", "bigint"),),
        append=append,
        columns=operator.columns,
        one_bucket=not key,
    )


_KEY, _ROW = 1, 13
