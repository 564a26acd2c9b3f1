"""Define the input of a join's tasks: the changes of all its sides, in one exchange, under common names.

A nested join is replaced by its own sides. Tasks take `$side`, `$h1` and `$h2` (hashes of the key), `$r` (the hash of
the kept row), and the columns `$c<i>`, which sides share by type. `$side` is the side's number; for a row that cannot
match, the number of sides is added. `$diff` follows, and `$seq` for a side that keeps the latest rows. Rows that cannot
match are sent only if the join returns them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sinkql import physical
from sinkql.connector_api.types import arrow_type
from sinkql.logical.type import Type
from sinkql.lowering.fused_join import same_key
from sinkql.lowering.task_input import Hash, TaskInput, Value, identity, row_hash

if TYPE_CHECKING:
    import pyarrow as pa

SIDE = "$side"
"""The column with the side of a row."""
AT = "$at"
"""The column that decides the bucket of a row if a side is replicated and both sides have a key."""

_PRESERVED: dict[physical.JoinKind, frozenset[int]] = {
    "inner": frozenset(),
    "left": frozenset({0}),
    "right": frozenset({1}),
    "full": frozenset({0, 1}),
    "semi": frozenset(),
    "anti": frozenset({0}),
}
"""The sides whose rows without a match are in the output."""


@dataclass(frozen=True, slots=True)
class PreparedSide:
    """One input of a join.

    `stored` are its columns under the names of tasks, in order; `hashed` are further columns that tasks hash. A row
    with NULL in one of the key columns `unsafe` has no match. It goes to any bucket if the side is `preserved`, else
    nowhere. Rows of a `replicated` side go to every bucket, by the engine's `$h1`, or by `$at` if the sides have a key.
    """

    number: int
    hashes: tuple[Hash, Hash, Hash]
    stored: tuple[Value, ...]
    hashed: tuple[Value, ...]
    unsafe: tuple[Value, ...]
    preserved: bool
    change: physical.Change
    replicated: bool

    @property
    def delivered(self) -> tuple[Value, ...]:
        """Return all columns that the tasks get."""
        return (*self.stored, *self.hashed)

    @property
    def latest(self) -> bool:
        """Return whether its rows overwrite each other, and have `$seq`."""
        return self.change == "upsert"


@dataclass(frozen=True, slots=True)
class SidesPreparation(TaskInput):
    """The steps before a join's tasks: the steps of each side, whose rows go to the tasks together."""

    sides: tuple[PreparedSide, ...] = ()
    appends: bool = False
    keyed: bool = True

    @property
    def place(self) -> str:
        """Return the column that decides the bucket; with a replicated side it is not the hash of the key."""
        return AT if self.keyed and self.repeated is not None else "$h1"

    @property
    def unmatched(self) -> int:
        """Return the number that is added to the side of a row that cannot match."""
        return len(self.sides)

    @property
    def is_broadcast(self) -> bool:
        """Return whether this is a broadcast join without a key, of all pairs of rows."""
        return not self.keyed and self.repeated is not None

    @property
    def repeated(self) -> int | None:
        """Return the side whose rows go to every bucket."""
        return next((side.number for side in self.sides if side.replicated), None)

    @property
    def latest(self) -> bool:
        """Return whether rows of a side have `$seq`."""
        return any(side.latest for side in self.sides)

    def delivered(self) -> pa.Schema:
        """Return the Arrow schema of the tasks' input, without `$b`."""
        import pyarrow as pa

        fields = [(name, pa.int64()) for name in self.group]
        fields += [(value.name, arrow_type(value.type)) for value in self.values]
        return pa.schema([*fields, *((name, pa.int64()) for name in self.internal)])

    @property
    def internal(self) -> tuple[str, ...]:
        """Return the names of the columns that describe changes."""
        return (physical.DIFF, physical.SEQ) if self.latest else (physical.DIFF,)

    def types(self) -> tuple[Type | None, ...]:
        """Return the SQL types of the columns of `delivered`, None for sides, hashes and counts."""
        return (*(None for _ in self.group), *(value.type for value in self.values), *(None for _ in self.internal))

    def output(self) -> pa.Schema:
        """Return the Arrow schema of the tasks' output: the join's columns, and `$diff` unless rows are append-only."""
        import pyarrow as pa

        fields = [(column.name, arrow_type(column.type)) for column in self.columns]
        return pa.schema(fields if self.appends else [*fields, (physical.DIFF, pa.int64())])


def prepare(join: physical.Join) -> SidesPreparation:
    """Return the input of a join's tasks; raise ValueError for sides that no join can have."""
    slots: list[Value] = []
    leaves = _leaves(join, preserved=True)
    sides = tuple(_side(leaf, number, slots) for number, leaf in enumerate(leaves))
    names = [leaf.side.arrangement for leaf in leaves if not leaf.side.reads and leaf.side.index is None]
    if len(set(names)) < len(names):
        raise ValueError(f'join "{join.arrangement}" has one arrangement for several sides')
    return SidesPreparation(
        hashes=(),
        values=tuple(slots),
        group=(SIDE, "$h1", "$h2", "$r"),
        measures=(),
        append=False,
        columns=join.columns,
        sides=sides,
        appends=join.change == "append",
        keyed=bool(join.safe),
    )


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A side whose rows go to the tasks, with the opposite side of its join; `preserved` holds up to the root join."""

    join: physical.Join
    side: physical.Side
    other: physical.Side
    preserved: bool


def _leaves(join: physical.Join, *, preserved: bool) -> tuple[_Leaf, ...]:
    _check(join)
    leaves: list[_Leaf] = []
    for number, (side, other) in enumerate(((join.left, join.right), (join.right, join.left))):
        is_preserved = preserved and number in _PRESERVED[join.kind]
        if not side.within:
            leaves.append(_Leaf(join, side, other, is_preserved))
            continue
        if same_key(side, join.safe) != tuple(range(len(join.safe))):
            raise ValueError(f'join "{join.arrangement}" is done with one on another key')
        leaves += _leaves(physical.joined_in(side), preserved=is_preserved)
    return tuple(leaves)


def _side(leaf: _Leaf, number: int, slots: list[Value]) -> PreparedSide:
    join, side, other = leaf.join, leaf.side, leaf.other
    types = {column.name: column for column in physical.columns_of(side.input)}
    more = [types[name] for name in (*side.key, *(side.index.columns if side.index is not None else ()))]
    names = {column.name for column in side.columns}
    values = _assign_slots(
        [*side.columns, *{column.name: column for column in more if column.name not in names}.values()], slots
    )
    by_column = {value.column: value for value in reversed(values)}
    stored_values, hashed = values[: len(side.columns)], values[len(side.columns) :]
    key = tuple(by_column[name] for name in side.key)
    is_broadcast = (
        side.replicated or other.replicated
    ) and not key  # without a key, rows are distributed by their own hash
    # a side that only counts has no rows; the kept columns identify rows of the batch
    first, second = identity(stored_values if is_broadcast else key)
    # rows are identified by the columns of the index, whatever the side's output
    row = stored_values if side.index is None else tuple(by_column[name] for name in side.index.columns)
    return PreparedSide(
        number,
        (first, second, row_hash("$r", row)),
        stored_values,
        hashed,
        tuple(value for value, safe in zip(key, join.safe, strict=True) if not safe and types[value.column].nullable),
        leaf.preserved,
        physical.change_of(side.input),
        side.replicated,
    )


def _assign_slots(columns: Sequence[physical.Column], slots: list[Value]) -> tuple[Value, ...]:
    """Return the columns under names that sides share: columns of the same type use the same slots."""
    free = list(slots)
    values = []
    for column in columns:
        slot = next((value for value in free if value.type == column.type), None)
        if slot is None:
            slot = Value(f"$c{len(slots)}", "", column.type)
            slots.append(slot)
        else:
            free.remove(slot)
        values.append(Value(slot.name, column.name, column.type))
    return tuple(values)


def _check(join: physical.Join) -> None:
    for number, side in enumerate((join.left, join.right)):
        where = f'side "{side.arrangement}" of join "{join.arrangement}"'
        preserved = number in _PRESERVED[join.kind] or (join.kind == "semi" and number == 0)
        latest = "latest" in (join.left.keeps, join.right.keeps)  # the rows of one key are in one bucket
        if side.replicated and (preserved or latest or (join.left.replicated and join.right.replicated)):
            raise ValueError(f"{where} cannot be replicated")
        if side.keeps == "counts" and (side.kept or preserved):
            raise ValueError(f"{where} gives rows, and only counts them")
        if (side.keeps == "latest") != (physical.change_of(side.input) == "upsert"):
            raise ValueError(f"{where} keeps {side.keeps}, which its input does not allow")
        if side.keeps == "latest":
            _check_latest(join, side, preserved=preserved, where=where)
    if len(join.left.key) != len(join.right.key) or len(join.left.key) != len(join.safe):
        raise ValueError(f'join "{join.arrangement}" has keys that are not alike')
    if join.compared is not None:
        _check_compared(join, join.compared)


def _check_compared(join: physical.Join, compared: physical.Compared) -> None:
    where = f'join "{join.arrangement}", which compares "{compared.left}" with "{compared.right}",'
    if join.kind != "semi" or join.safe or not join.right.replicated:
        raise ValueError(f"{where} is no semi join without a key whose right side is replicated")
    if compared.left not in join.left.kept or compared.right not in join.right.kept:
        raise ValueError(f"{where} does not keep them")


def _check_latest(join: physical.Join, side: physical.Side, *, preserved: bool, where: str) -> None:
    if set(side.key) != set(physical.key_of(side.input)):
        raise ValueError(f"{where} keeps the latest rows, but not by its key")
    if any(isinstance(node, physical.Read) and node.holes for node in physical.walk(side.input)):
        raise ValueError(f"{where} keeps the latest rows of a source that leaves values out")
    types = {column.name: column for column in physical.columns_of(side.input)}
    loose = any(types[name].nullable and not safe for name, safe in zip(side.key, join.safe, strict=True))
    if preserved and loose and join.kind != "semi":
        raise ValueError(f"{where} keeps no latest row of a key with NULL")
