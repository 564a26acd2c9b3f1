"""COUNT, SUM, MIN and MAX by group: pre-aggregated rows and the groups' stored rows → new ones, and their changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sinkql import physical
from sinkql.connector_api.types import arrow_type
from sinkql.errors import SinkqlError
from sinkql.lowering.task_input import TaskInput
from sinkql.runtime.state import arithmetic
from sinkql.runtime.state.arithmetic import RowGroups, SumOverflowError
from sinkql.runtime.state.arrangement import LookUp
from sinkql.runtime.state.multiset import negative_multiplicity
from sinkql.runtime.state.operator.argument import Argument, arguments_of, prepare
from sinkql.runtime.state.operator.extreme import track
from sinkql.runtime.state.operator.protocol import Arrangement, Bucket, keeps_state
from sinkql.runtime.state.run import ints, one_chunk, unsigned

Mask = NDArray[np.bool_]


@keeps_state(physical.Aggregate)
@dataclass(frozen=True, slots=True)
class AggregateState:
    """An aggregate; keeps a row a group, and the values of some arguments. SQ3211: a sum does not fit its type."""

    name: str
    preparation: TaskInput
    arguments: tuple[Argument, ...]
    calls: tuple[physical.AggregateCall, ...]

    @classmethod
    def of(cls, aggregate: physical.Aggregate) -> AggregateState:
        """Return the operator; raises ValueError for an input that no aggregate can stand on."""
        return cls(aggregate.arrangement, prepare(aggregate), arguments_of(aggregate), aggregate.calls)

    @property
    def one_group(self) -> bool:
        """Tell whether there is no GROUP BY: then there is one row always."""
        return self.preparation.one_bucket

    @property
    def arrangements(self) -> tuple[Arrangement, ...]:
        """Return the arrangement of groups, and one for each argument whose values are kept."""
        groups = Arrangement(self.name, "values", keeps_empty=self.one_group)
        return (groups, *(Arrangement(self.values(each), "multiset") for each in self.arguments if each.multiset))

    def values(self, argument: Argument) -> str:
        """Return the name of the arrangement of an argument's values."""
        return f"{self.name}-v{argument.index}"

    def apply(self, rows: pa.Table, bucket: Bucket) -> pa.Table:
        """Bring the groups up to date."""
        if not rows.num_rows and self.one_group:
            # an aggregate without GROUP BY has its row even of no rows
            rows = pa.table([_nothing(each) for each in rows.schema], schema=rows.schema)
        if not rows.num_rows:
            return self.preparation.output().empty_table()
        return _Grouping(self, rows, bucket).run()


def _nothing(column: pa.Field) -> pa.Array:
    zero = column.name[1] in "hcnsr"
    return arithmetic.zeros(column.type, 1) if zero else pa.nulls(1, column.type)


@dataclass(slots=True)
class _Grouping:
    """Bring a bucket's groups up to date with a batch.

    `old` and `new` are state columns with a row a group: `$count`, and of the i-th argument `$n<i>` (non-null count),
    `$s<i>` (sum), `$l<i>`, `$u<i>` (least, greatest), `$d<i>`, `$t<i>` (count and sum of the distinct values).
    """

    operator: AggregateState
    rows: pa.Table
    bucket: Bucket
    old: dict[str, pa.Array] = field(default_factory=dict)
    new: dict[str, pa.Array] = field(default_factory=dict)

    def run(self) -> pa.Table:
        """Write the new runs and return the changes of the aggregate's rows."""
        groups = self._groups()
        found = self.bucket.values[self.operator.name].find(groups.keys, groups.hashes)
        first = pa.array(groups.first)
        keys = [self._delivered(f"$k{index}").take(first) for index in range(self._key_count())]
        try:
            self._merge(groups, found)
        except SumOverflowError as error:
            raise SinkqlError(
                "SQ3211",
                f'sum out of range in aggregate "{self.operator.name}"',
                hint="Cast the argument to numeric, or to a numeric with fewer fraction digits.",
            ) from error
        self._verify(keys)
        self._keep(groups, keys, found.mask)
        return self._changes(keys, found.mask)

    def _groups(self) -> RowGroups:
        keys, hashes = unsigned(self.rows.column("$h1")), ints(self.rows.column("$h2"))
        if self.operator.one_group:
            # one key, whatever the engine's hash of nothing may be
            keys, hashes = np.zeros_like(keys), np.zeros_like(hashes)
        return arithmetic.group(keys, hashes)

    def _key_count(self) -> int:
        return len(self.operator.preparation.columns) - len(self.operator.calls)

    def _delivered(self, name: str) -> pa.Array:
        return one_chunk(self.rows.column(name))

    def _merge(self, groups: RowGroups, found: LookUp) -> None:
        self._add("$count", groups, found)
        for each in self.operator.arguments:
            if each.counted:
                self._add(f"$n{each.index}", groups, found)
            if each.sum:
                self._add(f"$s{each.index}", groups, found)
            if each.multiset:
                multiset = self.bucket.multisets[self.operator.values(each)]
                followed = track(each, self.rows, groups, found, multiset, where=self._where())
                self.old |= followed.old
                self.new |= followed.new
                continue
            if each.low:
                self._best(f"$l{each.index}", groups, found, low=True)
            if each.high:
                self._best(f"$u{each.index}", groups, found, low=False)

    def _add(self, name: str, groups: RowGroups, found: LookUp) -> None:
        values = self._delivered(name)
        self.old[name] = pc.coalesce(found.column(name, values.type), arithmetic.zeros(values.type, groups.count))
        self.new[name] = arithmetic.add(self.old[name], arithmetic.total(values, groups.index, groups.count))

    def _best(self, name: str, groups: RowGroups, found: LookUp, *, low: bool) -> None:
        values = arithmetic.ordered(self._delivered(name))
        self.old[name] = found.column(name, values.type)
        best = arithmetic.extreme(values, groups.index, groups.count, low=low)
        self.new[name] = arithmetic.better(self.old[name], best, low=low)

    def _where(self) -> str:
        return f'aggregate "{self.operator.name}", bucket {self.bucket.number}'

    def _verify(self, keys: list[pa.Array]) -> None:
        """Refuse what no input can lead to; a false row must not reach the table."""
        count = ints(self.new["$count"])
        wrong = count < 0
        for each in self.operator.arguments:
            if each.counted:
                present = ints(self.new[f"$n{each.index}"])
                wrong |= (present < 0) | (present > count)
                if each.sum and not pa.types.is_floating(self.new[f"$s{each.index}"].type):
                    total = self.new[f"$s{each.index}"]
                    nonzero = np.asarray(pc.not_equal(total, arithmetic.zeros(total.type, len(total))))
                    wrong |= (present == 0) & nonzero
            if each.distinct:
                wrong |= ints(self.new[f"$d{each.index}"]) > count
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            sample = ", ".join(repr(key[row].as_py()) for key in keys)
            raise negative_multiplicity(self._where(), f"group ({sample}), row count {count[row]}")

    def _keep(self, groups: RowGroups, keys: list[pa.Array], known: Mask) -> None:
        """Write the groups that changed, or are new, as a run."""
        changed = self._unlike(self.old.values(), self.new.values())
        if self.operator.one_group:
            changed |= ~known
        columns = {"$h1": pa.array(groups.keys), "$h2": pa.array(groups.hashes)}
        columns |= {f"$k{index}": key for index, key in enumerate(keys)}
        self.bucket.values[self.operator.name].put(
            pa.table(columns | self.new).filter(pa.array(changed)).combine_chunks()
        )

    def _changes(self, keys: list[pa.Array], known: Mask) -> pa.Table:
        schema = self.operator.preparation.output()
        old, new = self._outputs(self.old), self._outputs(self.new)
        was, is_ = ints(self.old["$count"]) > 0, ints(self.new["$count"]) > 0
        if self.operator.one_group:
            was, is_ = known, np.ones_like(known)
        changed = self._unlike(old, new) | (was != is_)
        parts = []
        for columns, mask, diff in ((old, was & changed, -1), (new, is_ & changed, 1)):
            diffs = pa.array(np.full(len(mask), diff, np.int64))
            parts.append(pa.table([*keys, *columns, diffs], schema=schema).filter(pa.array(mask)))
        return pa.concat_tables(parts)

    def _unlike(self, left: Iterable[pa.Array], right: Iterable[pa.Array]) -> Mask:
        found = np.zeros(len(self.new["$count"]), np.bool_)
        for before, after in zip(left, right, strict=True):
            found |= arithmetic.unlike(before, after)
        return found

    def _outputs(self, state: Mapping[str, pa.Array]) -> list[pa.Array]:
        """Return the calls' columns, in their declared types."""
        arguments = {each.column: each for each in self.operator.arguments}
        found = []
        for call in self.operator.calls:
            argument = arguments[call.column] if call.column is not None else None
            values = _output(call.function, argument, state, distinct=call.distinct)
            found.append(_declared(values, arrow_type(call.type)))
        return found


def _output(function: str, argument: Argument | None, state: Mapping[str, pa.Array], *, distinct: bool) -> pa.Array:
    if argument is None:
        return state["$count"]
    index = argument.index
    match function, distinct:
        case "count", False:
            return state[f"$n{index}"]
        case "count", True:
            return state[f"$d{index}"]
        case "sum", False:
            return _unless_none(state[f"$n{index}"], state[f"$s{index}"])
        case "sum", True:
            return _unless_none(state[f"$d{index}"], state[f"$t{index}"])
        case "min", _:
            return arithmetic.restored(state[f"$l{index}"], arrow_type(argument.type))
        case _:
            return arithmetic.restored(state[f"$u{index}"], arrow_type(argument.type))


def _unless_none(count: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(pc.greater(count, 0), values, pa.scalar(None, values.type))


def _declared(values: pa.Array, type_: pa.DataType) -> pa.Array:
    if values.type == type_:
        return values
    try:
        return values.cast(type_)
    except pa.ArrowInvalid as error:
        raise SumOverflowError from error
