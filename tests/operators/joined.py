"""Joins of every kind as trees of operators, the SQL that they mean, and changes of their sides."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from operators.pipeline import Change, Row, call, columns, overwriting, source
from sinkql import physical

LEFT = {"lk": "integer", "lx": "bigint", "ls": "text"}
RIGHT = {"rk": "integer", "rs": "text", "ry": "bigint"}
KINDS: tuple[physical.JoinKind, ...] = ("inner", "left", "right", "full", "semi", "anti")

Keeps = Literal["rows", "latest", "counts"]


@dataclass(frozen=True)
class Case:
    """A join of sources l and r: how their rows change, what is kept of them, and by which columns they meet."""

    kind: physical.JoinKind
    changes: tuple[physical.Change, physical.Change] = ("retract", "retract")
    keys: tuple[tuple[str, ...], tuple[str, ...]] = (("lk",), ("rk",))
    safe: bool = False
    replicated: tuple[bool, bool] = (False, False)
    kept: tuple[tuple[str, ...], tuple[str, ...]] = (("lk", "lx", "ls"), ("rk", "rs", "ry"))

    def with_kind(self, kind: physical.JoinKind) -> Case:
        """Return the same of another kind."""
        return replace(self, kind=kind)

    @property
    def one_sided(self) -> bool:
        """Tell whether the rows of the left side alone are given."""
        return self.kind in ("semi", "anti")

    @property
    def view(self) -> physical.Join:
        """Return the operator."""
        kept = self.kept[0], () if self.one_sided else self.kept[1]
        keeps: tuple[Keeps, Keeps] = (self._keeps(0), self._keeps(1))
        sides = [
            physical.Side(self._source(place), f"j-{'lr'[place]}", key, kept[place], keeps[place], replicated)
            for place, (key, replicated) in enumerate(zip(self.keys, self.replicated, strict=True))
        ]
        return physical.Join(self.kind, sides[0], sides[1], "j", tuple(self.safe for _ in self.keys[0]))

    def _keeps(self, place: int) -> Keeps:
        if self.changes[place] == "upsert":
            return "latest"
        return "counts" if place == 1 and self.one_sided else "rows"

    def _source(self, place: int) -> physical.Read:
        types = (LEFT, RIGHT)[place]
        if self.changes[place] == "upsert":
            return overwriting("lr"[place], *self.keys[place], **types)
        return source("lr"[place], self.changes[place], **types)

    @property
    def sql(self) -> str:
        """Return the view in SQL."""
        sign = "IS NOT DISTINCT FROM" if self.safe else "="
        on = " AND ".join(f"{left} {sign} {right}" for left, right in zip(*self.keys, strict=True)) or "true"
        if self.one_sided:
            word = "" if self.kind == "semi" else "NOT "
            return f"SELECT {', '.join(self.kept[0])} FROM l WHERE {word}EXISTS (SELECT 1 FROM r WHERE {on})"
        return f"SELECT {', '.join((*self.kept[0], *self.kept[1]))} FROM l {self.kind} JOIN r ON {on}"


def changes(
    rng: random.Random, live: Counter[Row], size: int, change: physical.Change, *, most: int = 5
) -> list[Change]:
    """Return a batch of changes of a side's rows: some of its own again, and some that are not there any more."""
    if change == "upsert":
        return [(_row(rng, rng.randint(1, most)), rng.choice([1, 1, -1])) for _ in range(size)]
    now, found = Counter(+live), []
    for _ in range(size):
        if change == "retract" and now and rng.random() < 0.45:
            row = rng.choice(list(now))
            count = -rng.randint(1, now[row])
        else:
            row, count = _row(rng, rng.choice([None, *range(1, most + 1)])), rng.choice([1, 1, 1, 2])
        if change == "append":
            found += [(row, 1)] * count
        else:
            found.append((row, count))
        now[row] += count
        now = +now
    return found


def _row(rng: random.Random, key: int | None) -> Row:
    return key, *rng.choice([(1, "a"), (2, "a"), (None, "b"), (3, None), (1, "b")])


def batch(rng: random.Random, inputs: Sequence[Counter[Row]], case: Case, size: int) -> dict[str, list[Change]]:
    """Return changes of both sides; columns of the right one stand in another order."""
    left = changes(rng, inputs[0], size, case.changes[0])
    right = changes(rng, Counter({_turned(row): n for row, n in inputs[1].items()}), size, case.changes[1])
    if rng.random() < 0.3:
        rng.choice([left, right]).clear()
    return {"l": left, "r": [(_turned(row), diff) for row, diff in right]}


def _turned(row: Row) -> Row:
    key, one, other = row
    return key, other, one


def chain() -> physical.Join:
    """Return a join of a join and a group: neither side of it is read from a source as it is."""
    below = replace(Case("left"), kept=(("lk", "lx"), ("rk", "ry"))).view
    grouped = physical.Aggregate(
        source("r", "retract", **RIGHT), "g", columns(rk="integer"), (call("n", "count", None, "bigint"),), "retract"
    )
    sides = (
        physical.Side(below, "c-l", ("lk",), ("lk", "lx", "ry")),
        physical.Side(grouped, "c-r", ("rk",), ("rk", "n")),
    )
    return physical.Join("full", *sides, "c", (False,))


CHAIN = """SELECT lk, lx, ry, rk, n FROM (SELECT lk, lx, ry FROM l LEFT JOIN r ON lk = rk) AS j
    FULL JOIN (SELECT rk, count(*) AS n FROM r GROUP BY rk) AS g ON lk = rk"""
