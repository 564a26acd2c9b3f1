"""An aggregate → what its calls want of each column of the input, and what goes into its tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sinkql import physical
from sinkql.lowering.task_input import (
    COUNT,
    FLOATS,
    Measure,
    TaskInput,
    Value,
    appends,
    identity,
    row_hash,
    value_columns,
)


@dataclass(frozen=True, slots=True)
class Argument:
    """What the calls of an aggregate want of one input column, the `index`-th of them.

    `sum` is the type text of SUM's result, None without one. Least and greatest are merged from those of each batch;
    `multiset` says that the values themselves are kept, because they may go again or count once only.
    """

    index: int
    column: str
    type: str
    counted: bool
    sum: str | None
    multiset: bool
    distinct: bool
    distinct_sum: str | None
    low: bool
    high: bool

    @property
    def held(self) -> bool:
        """Tell whether the multiset needs the values, not only their hashes."""
        return self.low or self.high or self.distinct_sum is not None


def arguments_of(aggregate: physical.Aggregate) -> tuple[Argument, ...]:
    """Return what the calls want; raises ValueError for an input that no aggregate can stand on."""
    append = appends(aggregate)
    types = {column.name: column.type for column in physical.columns_of(aggregate.input)}
    wanted: dict[str, list[physical.AggregateCall]] = {}
    for call in aggregate.calls:
        if call.column is not None:
            wanted.setdefault(call.column, []).append(call)
    found = enumerate(wanted.items())
    return tuple(_argument(index, column, types[column], calls, append=append) for index, (column, calls) in found)


def _argument(
    index: int, column: str, type_: str, calls: Sequence[physical.AggregateCall], *, append: bool
) -> Argument:
    uses = {(call.function, call.distinct and call.function in ("count", "sum")) for call in calls}
    sums = {call.distinct: call.type for call in calls if call.function == "sum"}
    inexact = next((text for text in sums.values() if text in FLOATS), None)
    if inexact and not append:
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
    """Return what goes into an aggregate's tasks.

    Tasks take `$h1`, `$h2` (hashes of the group), `$k<i>` (group columns), `$count`; of the i-th argument `$n<i>`
    (non-null count), `$s<i>` (sum), `$l<i>`, `$u<i>` (least and greatest of an append-only input), or `$v<i>`, `$r<i>`
    (a value and its hash: then there is a row for each value of the group).
    """
    arguments = arguments_of(aggregate)
    keys = value_columns("k", aggregate.group)
    values = {each.index: Value(f"$v{each.index}", each.column, each.type) for each in arguments}
    kept = [each for each in arguments if each.multiset]
    hashes = (*identity(keys), *(row_hash(f"$r{each.index}", (values[each.index],)) for each in kept))
    group = ["$h1", "$h2", *(key.name for key in keys)]
    for each in kept:
        group += [f"$v{each.index}", f"$r{each.index}"]
    return TaskInput(
        hashes=hashes,
        values=(*keys, *values.values()),
        group=tuple(group),
        measures=(Measure(COUNT, "rows", "", "bigint"), *(each for one in arguments for each in _measures(one))),
        append=aggregate.input_change == "append",
        columns=aggregate.columns,
        one_bucket=not keys,
    )


def _measures(argument: Argument) -> Iterator[Measure]:
    index, value = argument.index, f"$v{argument.index}"
    if argument.counted:
        yield Measure(f"$n{index}", "present", value, "bigint")
    if argument.sum:
        yield Measure(f"$s{index}", "sum", value, argument.sum)
    if argument.multiset:
        return
    if argument.low:
        yield Measure(f"$l{index}", "least", value, argument.type)
    if argument.high:
        yield Measure(f"$u{index}", "greatest", value, argument.type)
