"""Joins of every kind as operator trees, their SQL, and changes of their sides."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from decimal import Decimal
from typing import Literal

import msgspec

from operators.pipeline import Change, Row, call, columns, output, overwriting, source
from sinkql import physical
from sinkql.connector_api.types import parse_type
from sinkql.logical import Reference
from sinkql.logical.type import INTEGER
from sinkql.lowering.common_subplan import named

LEFT = {"lk": "integer", "lx": "bigint", "ls": "text"}
RIGHT = {"rk": "integer", "rs": "text", "ry": "bigint"}
KINDS: tuple[physical.JoinKind, ...] = ("inner", "left", "right", "full", "semi", "anti")

Changes = tuple[physical.Change, physical.Change]
Keeps = Literal["rows", "latest", "counts"]


@dataclass(frozen=True)
class Case:
    """A join of sources l and r: its keys, the change kinds of both sides, and the columns it keeps of each."""

    kind: physical.JoinKind
    changes: Changes = ("retract", "retract")
    keys: tuple[tuple[str, ...], tuple[str, ...]] = (("lk",), ("rk",))
    safe: bool = False
    replicated: tuple[bool, bool] = (False, False)
    kept: tuple[tuple[str, ...], tuple[str, ...]] = (("lk", "lx", "ls"), ("rk", "rs", "ry"))

    arrangements: tuple[str, str] = ("j-l", "j-r")

    @property
    def latest(self) -> list[str]:
        """Return the sources whose rows overwrite each other by key."""
        return [name for name, change in zip("lr", self.changes, strict=True) if change == "upsert"]

    @property
    def one_sided(self) -> bool:
        """Return whether the join's output has only the left side's rows."""
        return self.kind in ("semi", "anti")

    @property
    def view(self) -> physical.Join:
        """Return the join operator."""
        kept = self.kept[0], () if self.one_sided else self.kept[1]
        keeps: tuple[Keeps, Keeps] = (self._keeps(0), self._keeps(1))
        sides = [
            physical.Side(self._source(place), self.arrangements[place], key, kept[place], keeps[place], replicated)
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
            read = overwriting("lr"[place], *self.keys[place], **types)
            named = (physical.Column(each.name, each.type, each.name not in read.key) for each in read.columns)
            return msgspec.structs.replace(read, columns=tuple(named))
        return source("lr"[place], self.changes[place], **types)

    @property
    def sql(self) -> str:
        """Return the join as SQL."""
        sign = "IS NOT DISTINCT FROM" if self.safe else "="
        on = " AND ".join(f"{left} {sign} {right}" for left, right in zip(*self.keys, strict=True)) or "true"
        if self.one_sided:
            word = "" if self.kind == "semi" else "NOT "
            return f"SELECT {', '.join(self.kept[0])} FROM l WHERE {word}EXISTS (SELECT 1 FROM r WHERE {on})"
        return f"SELECT {', '.join((*self.kept[0], *self.kept[1]))} FROM l {self.kind} JOIN r ON {on}"


RETRACT: Changes = ("retract", "retract")
APPEND: Changes = ("append", "append")
NO_KEY: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
FIRST, SECOND = (True, False), (False, True)
CASES = {
    **{kind: Case(kind) for kind in KINDS},
    **{f"{kind}, NULL is a value": Case(kind, safe=True) for kind in KINDS},
    **{f"{kind} of rows that only come": Case(kind, APPEND) for kind in KINDS},
    **{f"{kind} with the latest": Case(kind, ("retract", "upsert")) for kind in KINDS},
    **{f"{kind} of the latest": Case(kind, ("upsert", "append")) for kind in ("inner", "left", "anti")},
    **{f"{kind} of the latest with the latest": Case(kind, ("upsert", "upsert")) for kind in ("left", "full")},
    **{
        f"{kind} with a replicated side": Case(kind, RETRACT, NO_KEY, replicated=SECOND)
        for kind in ("inner", "left", "semi", "anti")
    },
    **{
        f"{kind} with a replicated left side": Case(kind, RETRACT, NO_KEY, replicated=FIRST)
        for kind in ("inner", "right")
    },
    **{f"{kind} beside a replicated side": Case(kind, replicated=SECOND) for kind in ("inner", "left", "semi", "anti")},
    **{f"{kind} beside a replicated left side": Case(kind, replicated=FIRST) for kind in ("inner", "right")},
    "left beside a replicated side, NULL is a value": Case("left", safe=True, replicated=SECOND),
    "inner beside all that came": Case("inner", APPEND, replicated=SECOND),
    "anti of rows that only come beside a replicated side": Case("anti", ("append", "retract"), replicated=SECOND),
    **{f"{kind} with all that came": Case(kind, APPEND, NO_KEY, replicated=SECOND) for kind in ("inner", "semi")},
    "full with all": Case("full", RETRACT, NO_KEY),
    "by two columns": Case("full", keys=(("lk", "ls"), ("rk", "rs"))),
    "by one of few columns": Case("full", kept=(("lx",), ("rs",))),
    "of no columns": Case("left", kept=(("ls",), ())),
    "with no columns of the latest": Case("inner", ("retract", "upsert"), kept=(("lk", "ls"), ())),
}


def changes(
    rng: random.Random, live: Counter[Row], size: int, change: physical.Change, *, most: int = 5
) -> list[Change]:
    """Return a batch of changes of one side: new and repeated rows, and deletes of existing ones."""
    if change == "upsert":
        return [(_row(rng, rng.randint(1, most)), rng.choice([1, 1, -1])) for _ in range(size)]
    now = Counter(+live)
    found: list[Change] = []
    if change == "retract" and size > 2 and rng.random() < 0.15:
        return [(row, -count) for row, count in now.items()]
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
    """Return changes of both sides; the right side has its columns in another order."""
    left = changes(rng, inputs[0], size, case.changes[0])
    right = changes(rng, Counter({_turned(row): n for row, n in inputs[1].items()}), size, case.changes[1])
    if rng.random() < 0.3:
        rng.choice([left, right]).clear()
    return {"l": left, "r": [(_turned(row), diff) for row, diff in right]}


def _turned(row: Row) -> Row:
    key, one, other = row
    return key, other, one


def chain() -> physical.Join:
    """Return a join of a join and an aggregate: neither side is a plain source."""
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


def with_itself(change: physical.Change) -> physical.Operator:
    """Return joins of a source with itself; a filter between them gives the last one its own tasks."""
    types = {"k": "integer", "x": "bigint", "s": "text"}
    read = overwriting("l", "k", **types) if change == "upsert" else source("l", change, **types)
    own = tuple(physical.Column(each.name, each.type, each.name not in read.key) for each in read.columns)
    read = msgspec.structs.replace(read, columns=own)
    keeps: Keeps = "latest" if change == "upsert" else "rows"
    names = [tuple(f"{name}{place}" for name in types) for place in range(3)]
    parts = [_renamed(read, each) for each in names]
    sides = [physical.Side(each, "", (n[0],), n, keeps) for each, n in zip(parts, names, strict=True)]
    below = physical.Join("full", sides[0], sides[1], "", (False,))
    some = physical.Map(below, where=output(below, "", "x1 > 1"))
    left = physical.Side(some, "", ("k0",), (*names[0], *names[1]))
    return named(physical.Graph(physical.Join("left", left, sides[2], "", (False,)))).root


def _renamed(read: physical.Read, names: Sequence[str]) -> physical.Map:
    columns = zip(names, read.columns, strict=True)
    given = ((name, Reference(each.name, each.type, each.nullable)) for name, each in columns)
    return physical.Map(read, tuple(physical.Output(name, reference) for name, reference in given))


WITH_ITSELF = """
    SELECT j.*, c.*
    FROM (SELECT * FROM l AS a (k0, x0, s0) FULL JOIN l AS b (k1, x1, s1) ON k0 = k1 WHERE x1 > 1) AS j
    LEFT JOIN l AS c (k2, x2, s2) ON k0 = k2
"""


TYPES: dict[str, list[object]] = {
    "text": ["", "a", "A", "ä", "a "],
    "numeric(10,2)": [Decimal("0.00"), Decimal("1.50"), Decimal("-1.50")],
    "double precision": [0.0, -0.0, 1.5, float("nan"), float("inf")],
    "real": [0.0, -0.0, 1.5, float("nan")],
    "timestamp": [datetime(2020, 1, 1), datetime(2020, 1, 1, 0, 0, 0, 1)],
    "date": [date(2020, 1, 1), date(1, 1, 1)],
    "time": [time(0), time(23, 59, 59, 999_999)],
    "boolean": [True, False],
    "bytea": [b"", b"\x00", b"a"],
    "integer[]": [(), (1,), (1, None), (None, 1), (1, 2)],
    "double precision[]": [(0.0,), (-0.0,), (float("nan"),), (1.5, None)],
}
"""Key values by type; if two of them are equal in SQL, they are the same key."""


def of_type(type_: str) -> physical.Join:
    """Return a full join on a key of the given type."""
    sides = []
    for name in "lr":
        key, number = f"{name}k", f"{name}n"
        columns = physical.Column(key, parse_type(type_)), physical.Column(number, INTEGER)
        read = physical.Read(name, "listed", {}, columns, "retract")
        sides.append(physical.Side(read, f"t-{name}", (key,), (key, number)))
    return physical.Join("full", sides[0], sides[1], "t", (False,))


TYPED = "SELECT * FROM l FULL JOIN r ON lk = rk"


def typed(type_: str) -> tuple[list[Change], list[Change]]:
    """Return rows with all values of a type, for each side."""
    values = [*TYPES[type_], None]
    return [((value, place), 1) for place, value in enumerate(values)], [
        ((value, place), 1) for place, value in enumerate(values[::-1])
    ]
