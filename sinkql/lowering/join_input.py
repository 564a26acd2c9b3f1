"""A join → what goes into its tasks: the changes of all its sides, in one exchange, under common names.

Sides are the left and the right one, and in place of one that is a join within the same tasks those of that join.
Tasks take `$side` (its number, and as much more for a row that has no match as there are sides), `$h1`, `$h2` (hashes
of the key), `$r` (that of what is kept), the columns `$c<i>` that are kept or hashed, which the sides share by type,
`$diff`, and of a side that keeps the latest rows `$seq`. Rows that match nothing come where the joins give them, and no
others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sinkql import physical
from sinkql.connector_api.types import arrow_type
from sinkql.lowering.common_subplan import same_key
from sinkql.lowering.task_input import Hash, TaskInput, Value, identity, row_hash

if TYPE_CHECKING:
    import pyarrow as pa

SIDE = "$side"
"""The column that says which side a row is of."""
AT = "$at"
"""What leads a row to its bucket where a side is replicated and both have a key."""

_PRESERVED: dict[physical.JoinKind, frozenset[int]] = {
    "inner": frozenset(),
    "left": frozenset({0}),
    "right": frozenset({1}),
    "full": frozenset({0, 1}),
    "semi": frozenset(),
    "anti": frozenset({0}),
}
"""The sides whose rows without a match show."""


@dataclass(frozen=True, slots=True)
class PreparedSide:
    """One input of a join.

    `kept` are its columns under the names that tasks know, in order, and `hashed` are others of which tasks compute
    hashes. A row with NULL in one of the columns `unsafe` of its key has no match: it goes by a hash of the row to some
    bucket if the side is `preserved`, and nowhere otherwise. Rows of a `replicated` side go to every bucket: what leads
    there is the engine's `$h1`, and their `$at` where the sides have a key.
    """

    number: int
    hashes: tuple[Hash, Hash, Hash]
    kept: tuple[Value, ...]
    hashed: tuple[Value, ...]
    unsafe: tuple[Value, ...]
    preserved: bool
    change: physical.Change
    replicated: bool

    @property
    def given(self) -> tuple[Value, ...]:
        """Return all columns that come into the tasks."""
        return (*self.kept, *self.hashed)

    @property
    def latest(self) -> bool:
        """Tell whether its rows overwrite each other, and come with `$seq`."""
        return self.change == "upsert"


@dataclass(frozen=True, slots=True)
class SidesPreparation(TaskInput):
    """The steps before a join's tasks: those of each side, whose rows go to the tasks together."""

    sides: tuple[PreparedSide, ...] = ()
    appends: bool = False
    keyed: bool = True

    @property
    def place(self) -> str:
        """Return the column by which rows go to buckets: beside a replicated side it is not the hash of the key."""
        return AT if self.keyed and self.repeated is not None else "$h1"

    @property
    def unmatched(self) -> int:
        """Return what is added to the side of a row that has no match."""
        return len(self.sides)

    @property
    def crossed(self) -> bool:
        """Tell whether each row of one side meets each of the other."""
        return not self.keyed and self.repeated is not None

    @property
    def repeated(self) -> int | None:
        """Return the side whose rows every bucket gets."""
        return next((each.number for each in self.sides if each.replicated), None)

    @property
    def latest(self) -> bool:
        """Tell whether rows of a side come with `$seq`."""
        return any(each.latest for each in self.sides)

    def delivered(self) -> pa.Schema:
        """Return the Arrow columns that the tasks take, `$b` left out."""
        import pyarrow as pa

        fields = [(name, pa.int64()) for name in self.group]
        fields += [(each.name, arrow_type(each.type)) for each in self.values]
        return pa.schema([*fields, *((name, pa.int64()) for name in self.internal)])

    @property
    def internal(self) -> tuple[str, ...]:
        """Return the names of what says how rows change."""
        return (physical.DIFF, physical.SEQ) if self.latest else (physical.DIFF,)

    def types(self) -> tuple[str | None, ...]:
        """Return the SQL types of what `delivered` has; None for sides, hashes and counts."""
        return (*(None for _ in self.group), *(each.type for each in self.values), *(None for _ in self.internal))

    def output(self) -> pa.Schema:
        """Return the Arrow columns that the tasks give: those of the join, and `$diff` unless rows only come."""
        import pyarrow as pa

        fields = [(column.name, arrow_type(column.type)) for column in self.columns]
        return pa.schema(fields if self.appends else [*fields, (physical.DIFF, pa.int64())])


def prepare(join: physical.Join) -> SidesPreparation:
    """Return what goes into a join's tasks; raises ValueError for sides that no join can stand on."""
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
    """A side whose rows come to the tasks, and the other one of its join; whether it is `preserved` to the end."""

    join: physical.Join
    side: physical.Side
    other: physical.Side
    preserved: bool


def _leaves(join: physical.Join, *, preserved: bool) -> tuple[_Leaf, ...]:
    _check(join)
    found: list[_Leaf] = []
    for number, (side, other) in enumerate(((join.left, join.right), (join.right, join.left))):
        shown = preserved and number in _PRESERVED[join.kind]
        if not side.within:
            found.append(_Leaf(join, side, other, shown))
            continue
        if same_key(side, join.safe) != tuple(range(len(join.safe))):
            raise ValueError(f'join "{join.arrangement}" is done with one on another key')
        found += _leaves(physical.joined_in(side), preserved=shown)
    return tuple(found)


def _side(leaf: _Leaf, number: int, slots: list[Value]) -> PreparedSide:
    join, side, other = leaf.join, leaf.side, leaf.other
    types = {column.name: column for column in physical.columns_of(side.input)}
    more = [types[name] for name in (*side.key, *(side.index.columns if side.index is not None else ()))]
    names = {each.name for each in side.columns}
    given = _slotted([*side.columns, *{each.name: each for each in more if each.name not in names}.values()], slots)
    by_column = {each.column: each for each in reversed(given)}
    kept, hashed = given[: len(side.columns)], given[len(side.columns) :]
    key = tuple(by_column[name] for name in side.key)
    crossed = (side.replicated or other.replicated) and not key  # there is no key to meet by: rows go by themselves
    # a side that only counts knows no rows: what is left of the batch's own tells them apart
    first, second = identity(kept if crossed else key)
    # what an index has of a row tells it apart, whatever the side gives of it
    row = kept if side.index is None else tuple(by_column[name] for name in side.index.columns)
    return PreparedSide(
        number,
        (first, second, row_hash("$r", row)),
        kept,
        hashed,
        tuple(value for value, safe in zip(key, join.safe, strict=True) if not safe and types[value.column].nullable),
        leaf.preserved,
        physical.change_of(side.input),
        side.replicated,
    )


def _slotted(columns: Sequence[physical.Column], slots: list[Value]) -> tuple[Value, ...]:
    """Return the columns under names that sides share: a column of the left one and one of the right, of one type."""
    free = list(slots)
    found = []
    for column in columns:
        slot = next((each for each in free if each.type == column.type), None)
        if slot is None:
            slot = Value(f"$c{len(slots)}", "", column.type)
            slots.append(slot)
        else:
            free.remove(slot)
        found.append(Value(slot.name, column.name, column.type))
    return tuple(found)


def _check(join: physical.Join) -> None:
    for number, side in enumerate((join.left, join.right)):
        where = f'side "{side.arrangement}" of join "{join.arrangement}"'
        preserved = number in _PRESERVED[join.kind] or (join.kind == "semi" and number == 0)
        latest = "latest" in (join.left.keeps, join.right.keeps)  # whose rows are together by their key
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
    if any(isinstance(each, physical.Read) and each.holes for each in physical.walk(side.input)):
        raise ValueError(f"{where} keeps the latest rows of a source that leaves values out")
    types = {column.name: column for column in physical.columns_of(side.input)}
    loose = any(types[name].nullable and not safe for name, safe in zip(side.key, join.safe, strict=True))
    if preserved and loose and join.kind != "semi":
        raise ValueError(f"{where} keeps no latest row of a key with NULL")
