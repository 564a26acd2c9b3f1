"""COUNT, SUM, MIN and MAX by group: merges pre-aggregated rows with the groups' stored rows.

If rows of the input can be deleted, or an argument is DISTINCT, the values of an argument are stored, for distinct
counts, their sums, and extremes that may disappear.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sinkql import physical
from sinkql.connector_api.types import arrow_type
from sinkql.errors import SinkqlError
from sinkql.logical.numeric_type import FLOATS
from sinkql.logical.type import BIGINT, Type
from sinkql.lowering.task_input import (
    COUNT,
    Measure,
    TaskInput,
    Value,
    appends,
    identity,
    row_hash,
    sum_arrow_type,
    value_columns,
)
from sinkql.runtime.state import arithmetic
from sinkql.runtime.state.arithmetic import RowGroups, SumOverflowError
from sinkql.runtime.state.arrangement import LookUp, MultisetRuns
from sinkql.runtime.state.multiset import MultiplicityChange, apply_changes, negative_multiplicity
from sinkql.runtime.state.operator.protocol import Arrangement, Bucket, keeps_state
from sinkql.runtime.state.run import ints, one_chunk, unsigned


@dataclass(frozen=True, slots=True)
class Argument:
    """The requirements of an aggregate's calls on one input column, the `index`-th of them.

    `sum` is the type of SUM's result, None without one. The least and greatest value are merged from each batch;
    `multiset` means that the values are stored, because they may be deleted or count only once.
    """

    index: int
    column: str
    type: Type
    counted: bool
    sum: Type | None
    multiset: bool
    distinct: bool
    distinct_sum: Type | None
    low: bool
    high: bool

    @property
    def held(self) -> bool:
        """Return whether the multiset needs the values, not only their hashes."""
        return self.low or self.high or self.distinct_sum is not None


def arguments_of(aggregate: physical.Aggregate) -> tuple[Argument, ...]:
    """Return the requirements of the calls; raises ValueError for an input that no aggregate supports."""
    append = appends(aggregate)
    types = {column.name: column.type for column in physical.columns_of(aggregate.input)}
    wanted: dict[str, list[physical.AggregateCall]] = {}
    for call in aggregate.calls:
        if call.column is not None:
            wanted.setdefault(call.column, []).append(call)
    arguments = enumerate(wanted.items())
    return tuple(_argument(index, column, types[column], calls, append=append) for index, (column, calls) in arguments)


def _argument(
    index: int, column: str, type_: Type, calls: Sequence[physical.AggregateCall], *, append: bool
) -> Argument:
    uses = {(call.function, call.distinct and call.function in ("count", "sum")) for call in calls}
    sums = {call.distinct: call.type for call in calls if call.function == "sum"}
    inexact = next((sum_ for sum_ in sums.values() if sum_.name in FLOATS), None)
    if inexact is not None and not append:
        raise ValueError(f'sum of column "{column}", a {inexact}, over an input with retractions')
    distinct = ("count", True) in uses or ("sum", True) in uses
    low, high = ("min", False) in uses, ("max", False) in uses
    return Argument(
        index=index,
        column=column,
        type=type_,
        counted=("count", False) in uses or ("sum", False) in uses,
        sum=sums.get(False),
        multiset=distinct or ((low or high) and not append),
        distinct=distinct,
        distinct_sum=sums.get(True),
        low=low,
        high=high,
    )


def prepare(aggregate: physical.Aggregate) -> TaskInput:
    """Return the input of an aggregate's tasks.

    Its columns are `$h1`, `$h2` (hashes of the group), `$k<i>` (group columns), `$count`; for the i-th argument `$n<i>`
    (non-null count), `$s<i>` (sum), `$l<i>`, `$u<i>` (least and greatest of an append-only input), or `$v<i>`, `$r<i>`
    (a value and its hash, with a row for each value of the group).
    """
    arguments = arguments_of(aggregate)
    keys = value_columns("k", aggregate.group)
    values = {argument.index: Value(f"$v{argument.index}", argument.column, argument.type) for argument in arguments}
    multisets = [argument for argument in arguments if argument.multiset]
    hashes = (*identity(keys), *(row_hash(f"$r{argument.index}", (values[argument.index],)) for argument in multisets))
    group = ["$h1", "$h2", *(key.name for key in keys)]
    for argument in multisets:
        group += [f"$v{argument.index}", f"$r{argument.index}"]
    return TaskInput(
        hashes=hashes,
        values=(*keys, *values.values()),
        group=tuple(group),
        measures=(Measure(COUNT, "rows", "", BIGINT), *(measure for one in arguments for measure in _measures(one))),
        append=aggregate.input_change == "append",
        columns=aggregate.columns,
        one_bucket=not keys,
    )


def _measures(argument: Argument) -> Iterator[Measure]:
    index, value = argument.index, f"$v{argument.index}"
    if argument.counted:
        yield Measure(f"$n{index}", "present", value, BIGINT)
    if argument.sum is not None:
        yield Measure(f"$s{index}", "sum", value, argument.sum)
    if argument.multiset:
        return
    if argument.low:
        yield Measure(f"$l{index}", "least", value, argument.type)
    if argument.high:
        yield Measure(f"$u{index}", "greatest", value, argument.type)


Mask = NDArray[np.bool_]


@keeps_state(physical.Aggregate)
@dataclass(frozen=True, slots=True)
class AggregateState:
    """An aggregate; stores a row per group, and the values of some arguments.

    Its tasks raise SQ3211 for a sum that does not fit its type.
    """

    name: str
    preparation: TaskInput
    arguments: tuple[Argument, ...]
    calls: tuple[physical.AggregateCall, ...]

    @classmethod
    def of(cls, aggregate: physical.Aggregate) -> AggregateState:
        """Return the operator; raises ValueError for an unsupported input."""
        return cls(aggregate.arrangement, prepare(aggregate), arguments_of(aggregate), aggregate.calls)

    @property
    def one_group(self) -> bool:
        """Return whether the aggregate has no GROUP BY, and so always exactly one row."""
        return self.preparation.one_bucket

    @property
    def arrangements(self) -> tuple[Arrangement, ...]:
        """Return the arrangement of groups, and one for each argument with stored values."""
        groups = Arrangement(self.name, "values", keeps_empty=self.one_group)
        return (
            groups,
            *(Arrangement(self.values(argument), "multiset") for argument in self.arguments if argument.multiset),
        )

    def values(self, argument: Argument) -> str:
        """Return the name of the arrangement of an argument's values."""
        return f"{self.name}-v{argument.index}"

    def apply(self, rows: pa.Table, bucket: Bucket) -> pa.Table:
        """Apply a batch to the groups."""
        if not rows.num_rows and self.one_group:
            # an aggregate without GROUP BY has a row even for no rows
            rows = pa.table([_nothing(schema_field) for schema_field in rows.schema], schema=rows.schema)
        if not rows.num_rows:
            return self.preparation.output().empty_table()
        return _Grouping(self, rows, bucket).changes()


def _nothing(column: pa.Field) -> pa.Array:
    zero = column.name[1] in "hcnsr"
    return arithmetic.zeros(column.type, 1) if zero else pa.nulls(1, column.type)


@dataclass(slots=True)
class _Grouping:
    """Applies a batch to a bucket's groups.

    `old` and `new` are state columns with a row per group: `$count`, and for the i-th argument `$n<i>` (non-null
    count), `$s<i>` (sum), `$l<i>`, `$u<i>` (least, greatest), `$d<i>`, `$t<i>` (count and sum of the distinct values).
    """

    operator: AggregateState
    rows: pa.Table
    bucket: Bucket
    old: dict[str, pa.Array] = field(default_factory=dict)
    new: dict[str, pa.Array] = field(default_factory=dict)

    def changes(self) -> pa.Table:
        """Write the new runs and return the changes of the aggregate's rows."""
        groups = self._groups()
        stored = self.bucket.values[self.operator.name].find(groups.keys, groups.hashes)
        first = pa.array(groups.first)
        keys = [self._delivered(f"$k{index}").take(first) for index in range(self._key_count())]
        try:
            self._merge(groups, stored)
        except SumOverflowError as error:
            raise SinkqlError(
                "SQ3211",
                f'sum out of range in aggregate "{self.operator.name}"',
                hint="Cast the argument to numeric, or to a numeric with fewer fraction digits.",
            ) from error
        self._verify(keys)
        self._keep(groups, keys, stored.mask)
        return self._changes(keys, stored.mask)

    def _groups(self) -> RowGroups:
        keys, hashes = unsigned(self.rows.column("$h1")), ints(self.rows.column("$h2"))
        if self.operator.one_group:
            # one key, whatever the engine's hash of no columns is
            keys, hashes = np.zeros_like(keys), np.zeros_like(hashes)
        return arithmetic.group(keys, hashes)

    def _key_count(self) -> int:
        return len(self.operator.preparation.columns) - len(self.operator.calls)

    def _delivered(self, name: str) -> pa.Array:
        return one_chunk(self.rows.column(name))

    def _merge(self, groups: RowGroups, stored: LookUp) -> None:
        self._add("$count", groups, stored)
        for argument in self.operator.arguments:
            if argument.counted:
                self._add(f"$n{argument.index}", groups, stored)
            if argument.sum:
                self._add(f"$s{argument.index}", groups, stored)
            if argument.multiset:
                multiset = self.bucket.multisets[self.operator.values(argument)]
                followed = track(argument, self.rows, groups, stored, multiset, where=self._where())
                self.old |= followed.old
                self.new |= followed.new
                continue
            if argument.low:
                self._best(f"$l{argument.index}", groups, stored, low=True)
            if argument.high:
                self._best(f"$u{argument.index}", groups, stored, low=False)

    def _add(self, name: str, groups: RowGroups, stored: LookUp) -> None:
        values = self._delivered(name)
        self.old[name] = pc.coalesce(stored.column(name, values.type), arithmetic.zeros(values.type, groups.count))
        self.new[name] = arithmetic.add(self.old[name], arithmetic.total(values, groups.index, groups.count))

    def _best(self, name: str, groups: RowGroups, stored: LookUp, *, low: bool) -> None:
        values = arithmetic.ordered(self._delivered(name))
        self.old[name] = stored.column(name, values.type)
        best = arithmetic.extreme(values, groups.index, groups.count, low=low)
        self.new[name] = arithmetic.better(self.old[name], best, low=low)

    def _where(self) -> str:
        return f'aggregate "{self.operator.name}", bucket {self.bucket.number}'

    def _verify(self, keys: list[pa.Array]) -> None:
        """Refuse states that no input can lead to; a wrong row must not reach the table."""
        count = ints(self.new["$count"])
        wrong = count < 0
        for argument in self.operator.arguments:
            if argument.counted:
                present = ints(self.new[f"$n{argument.index}"])
                wrong |= (present < 0) | (present > count)
                if argument.sum and not pa.types.is_floating(self.new[f"$s{argument.index}"].type):
                    total = self.new[f"$s{argument.index}"]
                    nonzero = np.asarray(pc.not_equal(total, arithmetic.zeros(total.type, len(total))))
                    wrong |= (present == 0) & nonzero
            if argument.distinct:
                wrong |= ints(self.new[f"$d{argument.index}"]) > count
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            sample = ", ".join(repr(key[row].as_py()) for key in keys)
            raise negative_multiplicity(self._where(), f"group ({sample}), row count {count[row]}")

    def _keep(self, groups: RowGroups, keys: list[pa.Array], exists: Mask) -> None:
        """Write the new or changed groups as a run."""
        changed = self._unlike(self.old.values(), self.new.values())
        if self.operator.one_group:
            changed |= ~exists
        columns = {"$h1": pa.array(groups.keys), "$h2": pa.array(groups.hashes)}
        columns |= {f"$k{index}": key for index, key in enumerate(keys)}
        self.bucket.values[self.operator.name].put(
            pa.table(columns | self.new).filter(pa.array(changed)).combine_chunks()
        )

    def _changes(self, keys: list[pa.Array], existed: Mask) -> pa.Table:
        schema = self.operator.preparation.output()
        old, new = self._outputs(self.old), self._outputs(self.new)
        was, is_ = ints(self.old["$count"]) > 0, ints(self.new["$count"]) > 0
        if self.operator.one_group:
            was, is_ = existed, np.ones_like(existed)
        changed = self._unlike(old, new) | (was != is_)
        parts = []
        for columns, mask, diff in ((old, was & changed, -1), (new, is_ & changed, 1)):
            diffs = pa.array(np.full(len(mask), diff, np.int64))
            parts.append(pa.table([*keys, *columns, diffs], schema=schema).filter(pa.array(mask)))
        return pa.concat_tables(parts)

    def _unlike(self, left: Iterable[pa.Array], right: Iterable[pa.Array]) -> Mask:
        mask = np.zeros(len(self.new["$count"]), np.bool_)
        for before, after in zip(left, right, strict=True):
            mask |= arithmetic.unlike(before, after)
        return mask

    def _outputs(self, state: Mapping[str, pa.Array]) -> list[pa.Array]:
        """Return the calls' columns, in their declared types."""
        arguments = {argument.column: argument for argument in self.operator.arguments}
        columns = []
        for call in self.operator.calls:
            argument = arguments[call.column] if call.column is not None else None
            values = _output(call.function, argument, state, distinct=call.distinct)
            columns.append(_declared(values, arrow_type(call.type)))
        return columns


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


@dataclass(slots=True)
class TrackedValues:
    """State columns of the groups before and after the batch."""

    old: dict[str, pa.Array] = field(default_factory=dict)
    new: dict[str, pa.Array] = field(default_factory=dict)


def track(
    argument: Argument, rows: pa.Table, groups: RowGroups, stored: LookUp, multiset: MultisetRuns, *, where: str
) -> TrackedValues:
    """Add the batch's values to the multiset and return the groups' new state; SQ3401 for a negative count."""
    values = arithmetic.ordered(one_chunk(rows.column(f"$v{argument.index}")))
    inputs = pa.table({"$r": rows.column(f"$r{argument.index}"), "$count": rows.column("$count"), "$v": values})
    change = apply_changes(inputs, np.flatnonzero(np.asarray(values.is_valid())), groups, multiset)
    if len(wrong := np.flatnonzero(change.after < 0)):
        sample = arithmetic.restored(change.values, arrow_type(argument.type))[int(wrong[0])]
        raise negative_multiplicity(where, f'column "{argument.column}", value {sample.as_py()!r}')
    run = change.as_run(held=argument.held)
    state = TrackedValues()
    if argument.distinct:
        _count(argument, change, groups, stored, state)
    for name, low in ((f"$l{argument.index}", True), (f"$u{argument.index}", False)):
        if argument.low if low else argument.high:
            state.old[name] = stored.column(name, change.values.type)
            state.new[name] = _extreme(state.old[name], change, groups, multiset, run, low=low)
    multiset.put(run)
    return state


def _count(
    argument: Argument, changed: MultiplicityChange, groups: RowGroups, stored: LookUp, state: TrackedValues
) -> None:
    appeared, vanished = changed.appeared(), changed.vanished()
    name, count = f"$d{argument.index}", groups.count
    gained = np.bincount(changed.group[appeared], minlength=count)
    lost = np.bincount(changed.group[vanished], minlength=count)
    state.old[name] = pc.coalesce(stored.column(name, pa.int64()), arithmetic.zeros(pa.int64(), count))
    state.new[name] = arithmetic.add(state.old[name], pa.array((gained - lost).astype(np.int64)))
    if argument.distinct_sum is None:
        return
    name, type_ = f"$t{argument.index}", sum_arrow_type(argument.distinct_sum)
    values = arithmetic.restored(changed.values, arrow_type(argument.type)).cast(type_)
    state.old[name] = pc.coalesce(stored.column(name, type_), arithmetic.zeros(type_, count))
    gains = arithmetic.total(values.take(pa.array(appeared)), changed.group[appeared], count)
    losses = arithmetic.total(values.take(pa.array(vanished)), changed.group[vanished], count)
    state.new[name] = arithmetic.add(arithmetic.subtract(state.old[name], losses), gains)


def _extreme(
    old: pa.Array, changed: MultiplicityChange, groups: RowGroups, multiset: MultisetRuns, run: pa.Table, *, low: bool
) -> pa.Array:
    """Return the groups' new extremes; the values of a group are read only if its extreme was deleted."""
    appeared, vanished = changed.appeared(), changed.vanished()
    best = arithmetic.extreme(changed.values.take(pa.array(appeared)), changed.group[appeared], groups.count, low=low)
    new = arithmetic.better(old, best, low=low)
    deleted = changed.values.take(pa.array(vanished))
    was = new.take(pa.array(changed.group[vanished]))
    # the new extreme was deleted: no inserted value is as good
    lost = np.unique(changed.group[vanished][np.asarray(pc.fill_null(pc.equal(deleted, was), False))])
    if not len(lost):
        return new
    owner, rows = multiset.rows_of(groups.keys[lost], groups.hashes[lost], run)
    again = arithmetic.extreme(one_chunk(rows.column("$v")), owner, len(lost), low=low)
    mask = np.zeros(groups.count, np.bool_)
    mask[lost] = True
    return pc.replace_with_mask(new, pa.array(mask), again)
