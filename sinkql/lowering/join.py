"""Lower a logical join over lowered inputs: keys as columns, the state of each side, and the residual condition.

If a join other than an inner join has a residual condition, it is tested on the pairs J of the equalities. Then L LEFT
JOIN R is J, plus the rows of L that are not in J, extended with NULLs. Rows of L are identified by a key or by all
columns. Without an equality, the rows of one side go to every bucket.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from sinkql import logical, physical
from sinkql.logical import Expression, JoinKey, JoinKind, Reference
from sinkql.logical.type import INTEGER
from sinkql.lowering.context import Context
from sinkql.lowering.index import with_index

_Keeps = Literal["rows", "latest", "counts"]
_KINDS: dict[JoinKind, physical.JoinKind] = {
    JoinKind.INNER: "inner", JoinKind.LEFT: "left", JoinKind.RIGHT: "right", JoinKind.FULL: "full",
    JoinKind.SEMI: "semi", JoinKind.ANTI: "anti",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class JoinLowering:
    """The lowering of the joins of one view; `view` is its full name, for the origins of expressions."""

    context: Context
    view: str

    def join(self, join: logical.Join, left: physical.Operator, right: physical.Operator) -> physical.Operator:
        """Return the operator of a join, with its columns in order, over the operators of its inputs."""
        if join.kind is JoinKind.RIGHT:
            join, left, right = _mirrored(join), right, left
        threshold = logical.threshold_of(join)
        if threshold is not None:
            joined = self._threshold(join, threshold, left, right)
        elif join.kind is JoinKind.INNER or logical.paired_once(join):
            join = replace(join, kind=JoinKind.INNER)
            joined = self._where(self._plain(join, left, right), join.residual)
        elif join.residual is not None or (join.kind is JoinKind.FULL and not join.keys):
            joined = self._by_pairs(join, left, right)
        else:
            joined = self._plain(join, left, right)
        return _in_order(joined, [column.name for column in join.shape.columns])

    def _plain(self, join: logical.Join, left: physical.Operator, right: physical.Operator) -> physical.Operator:
        """Return a join on its equalities only."""
        keys = join.keys
        spread = not keys and not (join.kind is not JoinKind.INNER and logical.one_row(join.left))
        if not keys and not spread:
            one = logical.literal(1, INTEGER)
            keys = (JoinKey(one, one),)  # the preserved side has one row: no replication is needed
        safe = tuple(key.safe for key in keys)
        counts = join.kind in (JoinKind.SEMI, JoinKind.ANTI)
        everywhere = join.replicated  # rows of this side go to every bucket
        if spread:
            first = join.kind is JoinKind.INNER and (everywhere == "left" or logical.one_row(join.left))
            everywhere = "left" if first else "right"
        left_keeps = self._keeps(join, left, [key.left for key in keys], number=0)
        right_keeps = "counts" if counts else self._keeps(join, right, [key.right for key in keys], number=1)
        left = left if left_keeps == "latest" else self.context.retracting(left)
        right = right if right_keeps == "latest" else self.context.retracting(right)
        left, left_key = self._keyed(left, [key.left for key in keys])
        right, right_key = self._keyed(right, [key.right for key in keys])
        name = self.context.arrangement()
        left_names = [column.name for column in join.left.shape.columns]
        right_names = [] if counts else [column.name for column in join.right.shape.columns]
        sides = (
            _side(left, f"{name}l", left_key, left_names, left_keeps, replicated=everywhere == "left"),
            _side(right, f"{name}r", right_key, right_names, right_keeps, replicated=everywhere == "right"),
        )
        if everywhere is None:
            sides = with_index(sides[0], self.context.indexes), with_index(sides[1], self.context.indexes)
        return physical.Join(
            kind=_KINDS[join.kind], left=sides[0], right=sides[1], arrangement=name, safe=safe,
        )  # fmt: skip

    def _keeps(self, join: logical.Join, side: physical.Operator, key: list[Expression], *, number: int) -> _Keeps:
        """Return `latest` if a side's rows overwrite each other by exactly the join key."""
        upsert_key = physical.key_of(side)
        if physical.change_of(side) != "upsert" or not key:
            return "rows"
        if join.replicated is not None:  # rows of one key are in several buckets
            return "rows"
        names = [part.name for part in key if isinstance(part, Reference)]
        if len(names) != len(key) or len(set(names)) != len(names) or set(names) != set(upsert_key):
            return "rows"
        if any(isinstance(node, physical.Read) and node.holes for node in physical.walk(side)):
            return "rows"
        preserved = join.kind is JoinKind.FULL or (number == 0 and join.kind in (JoinKind.LEFT, JoinKind.ANTI))
        types = {column.name: column for column in physical.columns_of(side)}
        pairs = zip(names, join.keys, strict=True)
        loose = any(types[name].nullable and not pair.safe for name, pair in pairs)
        return "rows" if preserved and loose else "latest"

    def _keyed(self, side: physical.Operator, key: list[Expression]) -> tuple[physical.Operator, list[str]]:
        """Return a side with the expressions of its key as columns, and their names."""
        names = [part.name if isinstance(part, Reference) else f"$k{place}" for place, part in enumerate(key)]
        new = [
            self.context.output(name, part, self.view)
            for name, part in zip(names, key, strict=True)
            if not isinstance(part, Reference)
        ]
        if not new:
            return side, names
        return _map(side, (*map(_pass_column, physical.columns_of(side)), *new)), names

    def _where(self, body: physical.Operator, condition: Expression | None) -> physical.Operator:
        if condition is None:
            return body
        return physical.Map(body, where=self.context.output("", condition, self.view))

    def _threshold(
        self, join: logical.Join, threshold: logical.Threshold, left: physical.Operator, right: physical.Operator
    ) -> physical.Operator:
        """Return the left rows for which the comparison with the value of the right side's single row is true."""
        left, (value,) = self._keyed(self.context.retracting(left), [threshold.value])
        right, (limit,) = self._keyed(self.context.retracting(right), [threshold.limit])
        name = self.context.arrangement()
        names = [column.name for column in join.left.shape.columns]
        return physical.Join(
            kind="semi",
            left=_side(left, f"{name}l", [], [*names, *([] if value in names else [value])], "rows"),
            right=_side(right, f"{name}r", [], [limit], "rows", replicated=True),
            arrangement=name,
            safe=(),
            compared=physical.Compared(value, threshold.comparison, limit),
        )

    # --- conditions on pairs -------------------------------------------------------------------------------------

    def _by_pairs(self, join: logical.Join, left: physical.Operator, right: physical.Operator) -> physical.Operator:
        left, right = (self.context.again(self.context.retracting(side)) for side in (left, right))
        pairs = self._where(self._plain(replace(join, kind=JoinKind.INNER), left, right), join.residual)
        pairs = self.context.again(pairs)
        if join.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return self._matching(join.kind, left, join.left, pairs)
        parts = [pairs, self._unmatched(left, join.left, pairs)]
        if join.kind is JoinKind.FULL:
            parts.append(self._unmatched(right, join.right, pairs))
        return physical.Union(tuple(parts), "retract")

    def _unmatched(
        self, side: physical.Operator, relation: logical.Relation, pairs: physical.Operator
    ) -> physical.Operator:
        """Return the rows of a side without a pair, with NULLs for the columns of the opposite side."""
        unmatched = self._matching(JoinKind.ANTI, side, relation, pairs)
        names = {column.name for column in relation.shape.columns}
        outputs = tuple(
            _pass_column(column)
            if column.name in names
            else physical.Output(column.name, logical.Literal(None, column.type))
            for column in physical.columns_of(pairs)
        )
        return physical.Map(unmatched, outputs)

    def _matching(
        self,
        kind: Literal[JoinKind.SEMI, JoinKind.ANTI],
        side: physical.Operator,
        relation: logical.Relation,
        pairs: physical.Operator,
    ) -> physical.Operator:
        """Return the rows of a side that have pairs (SEMI) or none (ANTI), by their identity."""
        names = [column.name for column in relation.shape.columns]
        key = min(relation.shape.keys, key=len, default=frozenset(names)) or frozenset(names)
        identity = [name for name in names if name in key]
        if not identity:  # rows without columns are all equal
            identity = names
        name = self.context.arrangement()
        return physical.Join(
            kind=_KINDS[kind],
            left=_side(side, f"{name}l", identity, names, "rows"),
            right=_side(pairs, f"{name}r", identity, [], "counts"),
            arrangement=name,
            safe=(True,) * len(identity),
        )


def _side(
    body: physical.Operator,
    name: str,
    key: list[str],
    kept: list[str],
    keeps: _Keeps,
    *,
    replicated: bool = False,
) -> physical.Side:
    return physical.Side(body, name, tuple(key), tuple(kept), keeps, replicated)


def _mirrored(join: logical.Join) -> logical.Join:
    """Return a right join as a left join."""
    sides: dict[str | None, Literal["left", "right"]] = {"left": "right", "right": "left"}
    replicated = sides.get(join.replicated)
    return replace(join, kind=JoinKind.LEFT, left=join.right, right=join.left, replicated=replicated)


def _map(below: physical.Operator, outputs: tuple[physical.Output, ...]) -> physical.Map:
    if isinstance(below, physical.Map) and not below.outputs:
        return physical.Map(below.input, outputs, below.where)
    return physical.Map(below, outputs)


def _in_order(body: physical.Operator, names: list[str]) -> physical.Operator:
    """Return columns in this order, with a projection only if their order differs."""
    columns = {column.name: column for column in physical.columns_of(body)}
    if list(columns) == names:
        return body
    return physical.Map(body, tuple(_pass_column(columns[name]) for name in names))


def _pass_column(column: physical.Column) -> physical.Output:
    return physical.Output(column.name, Reference(column.name, column.type, column.nullable))
