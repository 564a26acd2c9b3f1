"""A stateful operator → the Spark SQL texts of the steps before its task, and the columns that the task takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sinkql import physical
from sinkql.connector.types import arrow_type, parse_type, spark_type

if TYPE_CHECKING:
    import pyarrow as pa

_FLOATS = {"real": "FLOAT", "double precision": "DOUBLE"}
_SEED_1, _SEED_2, _SEED_ROW = 1, 7, 13


@dataclass(frozen=True, slots=True)
class Argument:
    """Hold what the calls of an aggregate want of one input column, the `index`-th of them.

    `sum` is the type text of SUM's result, None without one. `extremes` are merged from the batch's own MIN and MAX;
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


@dataclass(frozen=True, slots=True)
class Preparation:
    """Hold the steps before the task of an aggregate or a pick, and what the task takes and gives.

    An engine runs, with B = `buckets(n)`::

        delta.selectExpr(*select).repartition(B, "$h1").groupBy(*group).agg(*aggregates).selectExpr("*", bucket(B))
             .mapInArrow(task)

    Without group columns it may group before the repartition. Every one of the B tasks must run, also without rows.
    The task takes these columns, by name, in any order: `$h1`, `$h2` (bigint, hashes of the group), `$k<i>` (group
    columns; real and double with one zero and one NaN), `$count` (bigint, the sum of `$diff`); of the i-th argument
    `$n<i>` (bigint, non-null count), `$s<i>` (sum, 0 for none), `$l<i>`, `$u<i>` (least and greatest of an append-only
    input), `$v<i>`, `$r<i>` (a value and its hash: then there is a row for each value of the group); `$b` (the
    bucket by the engine's own reckoning, may be missing). Rows of one group may come several times: they add up.
    A pick's `$k<i>` are all its columns, of which `$h1` and `$h2` hash the key and `$r` (with `hashed`) the whole row.
    """

    select: tuple[str, ...]
    group: tuple[str, ...]
    aggregates: tuple[str, ...]
    arguments: tuple[Argument, ...]
    keys: tuple[str, ...]
    calls: tuple[physical.AggregateCall, ...]
    columns: tuple[physical.Column, ...]
    global_: bool
    hashed: bool = False

    def buckets(self, wanted: int) -> int:
        """Return the number of buckets of this operator where the state has `wanted`."""
        return 1 if self.global_ else wanted

    def bucket(self, buckets: int) -> str:
        """Return the column that says in which bucket Spark's hash partitioning by `$h1` puts a row."""
        return f"pmod(hash(`$h1`), {buckets}) AS `$b`"

    def delivered(self) -> pa.Schema:
        """Return the Arrow columns that the task takes, `$b` left out."""
        import pyarrow as pa

        fields = [("$h1", pa.int64()), ("$h2", pa.int64())]
        fields += [(f"$k{index}", arrow_type(text)) for index, text in enumerate(self.keys)]
        fields.append(("$count", pa.int64()))
        if self.hashed:
            fields.append(("$r", pa.int64()))
        for each in self.arguments:
            if each.counted:
                fields.append((f"$n{each.index}", pa.int64()))
            if each.sum:
                fields.append((f"$s{each.index}", sum_arrow_type(each.sum)))
            if each.multiset:
                fields += [(f"$v{each.index}", arrow_type(each.type)), (f"$r{each.index}", pa.int64())]
                continue
            if each.low:
                fields.append((f"$l{each.index}", arrow_type(each.type)))
            if each.high:
                fields.append((f"$u{each.index}", arrow_type(each.type)))
        return pa.schema(fields)

    def output(self) -> pa.Schema:
        """Return the Arrow columns that the task gives: those of its operator, then `$diff`."""
        import pyarrow as pa

        fields = [(column.name, arrow_type(column.type)) for column in self.columns]
        return pa.schema([*fields, ("$diff", pa.int64())])

    def output_spark(self) -> str:
        """Return the same columns as a Spark DDL schema."""
        fields = [f"{quoted(column.name)} {spark_type(parse_type(column.type))}" for column in self.columns]
        return ", ".join([*fields, "`$diff` BIGINT"])


def prepare(operator: physical.Aggregate | physical.Pick) -> Preparation:
    """Return the steps before the operator's task; its input has `$diff` unless its change kind is append."""
    match operator:
        case physical.Aggregate():
            return _aggregate(operator)
        case physical.Pick():
            return _pick(operator)


def _pick(pick: physical.Pick) -> Preparation:
    columns, change = physical.columns_of(pick), physical.change_of(pick.input)
    if change == "upsert":
        raise ValueError(f'pick "{pick.arrangement}" stands on an upsert relation')
    values = {column.name: _normal(column.name, column.type) for column in columns}
    key = [values[name] for name in pick.key]
    select = [f"{_hash(_SEED_1, key)} AS `$h1`", f"{_hash(_SEED_2, key)} AS `$h2`"]
    select += [f"{value} AS `$k{index}`" for index, value in enumerate(values.values())]
    select.append(f"{_hash(_SEED_ROW, list(values.values()))} AS `$r`")
    return Preparation(
        select=(*select, *(["`$diff`"] if change == "retract" else [])),
        group=(*_group(len(columns), ()), "`$r`"),
        aggregates=_aggregates(change, ()),
        arguments=(),
        keys=tuple(column.type for column in columns),
        calls=(),
        columns=columns,
        global_=False,
        hashed=True,
    )


def _aggregate(aggregate: physical.Aggregate) -> Preparation:
    arguments = _arguments(aggregate)
    keys = tuple(column.type for column in aggregate.group)
    return Preparation(
        select=_select(aggregate, arguments),
        group=_group(len(keys), arguments),
        aggregates=_aggregates(aggregate.input_change, arguments),
        arguments=arguments,
        keys=keys,
        calls=aggregate.calls,
        columns=physical.columns_of(aggregate),
        global_=not keys,
    )


def sum_arrow_type(text: str) -> pa.DataType:
    """Return the type in which a sum is kept: bigint, 38 digits of the result's scale, or double."""
    import pyarrow as pa

    type_ = parse_type(text)
    if type_.name == "numeric":
        return pa.decimal128(38, type_.scale)
    return pa.float64() if text in _FLOATS else pa.int64()


def quoted(name: str) -> str:
    """Return a column name as Spark SQL text."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class Consolidation:
    """Hold the texts of `GROUP BY all columns, SUM($diff) HAVING <> 0`."""

    group: tuple[str, ...]
    diff: str
    having: str


def consolidate(columns: Sequence[str]) -> Consolidation:
    """Return how to add up the changes of equal rows: group by `group`, take `diff`, then keep `having`."""
    return Consolidation(tuple(map(quoted, columns)), "CAST(sum(`$diff`) AS BIGINT) AS `$diff`", "`$diff` <> 0")


def _arguments(aggregate: physical.Aggregate) -> tuple[Argument, ...]:
    if aggregate.input_change == "upsert":
        raise ValueError(f'aggregate "{aggregate.arrangement}" stands on an upsert relation')
    types = {column.name: column.type for column in physical.columns_of(aggregate.input)}
    wanted: dict[str, list[physical.AggregateCall]] = {}
    for call in aggregate.calls:
        if call.column is not None:
            wanted.setdefault(call.column, []).append(call)
    found = enumerate(wanted.items())
    append = aggregate.input_change == "append"
    return tuple(_argument(index, column, types[column], calls, append=append) for index, (column, calls) in found)


def _argument(index: int, column: str, type_: str, calls: list[physical.AggregateCall], *, append: bool) -> Argument:
    uses = {(call.function, call.distinct and call.function in ("count", "sum")) for call in calls}
    sums = {call.distinct: call.type for call in calls if call.function == "sum"}
    inexact = next((text for text in sums.values() if text in _FLOATS), None)
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


def _hash(seed: int, expressions: Sequence[str]) -> str:
    # xxhash64 passes over NULLs, so that (NULL, 'a') and ('a', NULL) would be one
    parts = [f"{each} IS NULL, {each}" for each in expressions]
    return f"xxhash64({', '.join([f'{seed}L', *parts])})"


def _normal(column: str, type_: str) -> str:
    """Return the column with one zero and one NaN: values that compare equal must hash and print alike."""
    if type_ not in _FLOATS:
        return quoted(column)
    name, spark = quoted(column), _FLOATS[type_]
    nan, zero = f"CAST('NaN' AS {spark})", f"CAST(0 AS {spark})"
    return f"CASE WHEN isnan({name}) THEN {nan} WHEN {name} = 0 THEN {zero} ELSE {name} END"


def _select(aggregate: physical.Aggregate, arguments: tuple[Argument, ...]) -> tuple[str, ...]:
    keys = [_normal(column.name, column.type) for column in aggregate.group]
    found = [f"{_hash(_SEED_1, keys)} AS `$h1`", f"{_hash(_SEED_2, keys)} AS `$h2`"]
    found += [f"{key} AS `$k{index}`" for index, key in enumerate(keys)]
    for each in arguments:
        value = _normal(each.column, each.type)
        found.append(f"{value} AS `$v{each.index}`")
        if each.multiset:
            found.append(f"{_hash(_SEED_ROW, [value])} AS `$r{each.index}`")
    if aggregate.input_change != "append":
        found.append("`$diff`")
    return tuple(found)


def _group(keys: int, arguments: tuple[Argument, ...]) -> tuple[str, ...]:
    names = ["`$h1`", "`$h2`", *(f"`$k{index}`" for index in range(keys))]
    for each in arguments:
        if each.multiset:
            names += [f"`$v{each.index}`", f"`$r{each.index}`"]
    return tuple(names)


def _aggregates(change: physical.Change, arguments: tuple[Argument, ...]) -> tuple[str, ...]:
    append = change == "append"
    found = ["count(*) AS `$count`" if append else "CAST(sum(`$diff`) AS BIGINT) AS `$count`"]
    for each in arguments:
        name, index = f"`$v{each.index}`", each.index
        if each.counted:
            count = f"count({name})" if append else f"sum(CASE WHEN {name} IS NULL THEN 0L ELSE `$diff` END)"
            found.append(f"CAST({count} AS BIGINT) AS `$n{index}`")
        if each.sum:
            found.append(f"{_sum(name, each, append=append)} AS `$s{index}`")
        if each.multiset:
            continue
        if each.low:
            found.append(f"min({name}) AS `$l{index}`")
        if each.high:
            found.append(f"max({name}) AS `$u{index}`")
    return tuple(found)


def _sum(name: str, argument: Argument, *, append: bool) -> str:
    assert argument.sum is not None
    result = parse_type(argument.sum)
    if argument.sum in _FLOATS:
        total = f"sum(CAST({name} AS DOUBLE))"
        infinite = "CAST('Infinity' AS DOUBLE)"
        fail = "CAST(raise_error('value out of range: overflow') AS DOUBLE)"
        overflowed = f"abs({total}) = {infinite} AND max(abs(CAST({name} AS DOUBLE))) < {infinite}"
        return f"CASE WHEN {overflowed} THEN {fail} ELSE coalesce({total}, CAST(0 AS DOUBLE)) END"
    spark = f"DECIMAL(38,{result.scale})" if result.name == "numeric" else "BIGINT"
    # a decimal's own sum has digits to spare in Spark, and narrow ones are several times faster
    narrow = append and argument.type.startswith("numeric") and result.name == "numeric"
    value = name if narrow else f"CAST({name} AS {spark})"
    total = f"sum({value})" if append else f"sum({value} * `$diff`)"
    return f"coalesce(CAST({total} AS {spark}), CAST(0 AS {spark}))"
