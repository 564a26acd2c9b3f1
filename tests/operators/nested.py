"""Random trees of joins on one key as operators, and their SQL."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from operators.joined import KINDS, changes
from operators.pipeline import Change, Row, output, overwriting, source
from sinkql import physical
from sinkql.lowering.fused_join import fuse_joins


@dataclass(frozen=True)
class Part:
    """A relation: its operator, its key columns and its SQL."""

    operator: physical.Operator
    key: tuple[str, ...]
    sql: str

    @property
    def columns(self) -> list[str]:
        """Return the names of the relation's columns."""
        return [each.name for each in physical.columns_of(self.operator)]


@dataclass
class Nested:
    """Generator of a random tree of joins on one or two columns."""

    rng: random.Random
    kinds: Sequence[physical.JoinKind] = KINDS
    safe: bool = field(init=False)
    wide: bool = field(init=False)
    changes: dict[str, physical.Change] = field(default_factory=dict)
    _joins: int = 0

    def __post_init__(self) -> None:
        self.safe, self.wide = self.rng.random() < 0.3, self.rng.random() < 0.3

    def part(self, names: str) -> Part:
        """Return a join tree over the named sources."""
        if len(names) == 1:
            return self._source(names)
        cut = self.rng.choice([1, len(names) - 1, len(names) - 1])
        return self._join(self.part(names[:cut]), self.part(names[cut:]))

    def batch(self, inputs: dict[str, Counter[Row]], size: int) -> dict[str, list[Change]]:
        """Return changes of some of the sources."""
        found = {name: changes(self.rng, inputs[name], size, change, most=3) for name, change in self.changes.items()}
        return {name: rows for name, rows in found.items() if self.rng.random() < 0.7}

    def _source(self, name: str) -> Part:
        kinds: list[physical.Change] = ["append", "retract", "retract", "upsert"]
        change = self.changes[name] = self.rng.choice(kinds[:3] if self.wide else kinds)
        types = {f"{name}k": "integer", f"{name}x": "bigint", f"{name}s": "text"}
        read = overwriting(name, f"{name}k", **types) if change == "upsert" else source(name, change, **types)
        named = tuple(physical.Column(each.name, each.type, each.name not in read.key) for each in read.columns)
        key = (f"{name}k", f"{name}s") if self.wide else (f"{name}k",)
        return Part(msgspec.structs.replace(read, columns=named), key, f"SELECT * FROM {name}")

    def _join(self, left: Part, right: Part) -> Part:
        self._joins += 1
        kind, name = self.rng.choice(self.kinds), f"j{self._joins}"
        order = self.rng.sample(range(len(left.key)), len(left.key))
        keys = [tuple(each.key[place] for place in order) for each in (left, right)]
        one_sided = kind in ("semi", "anti")
        sides = (
            self._side(left, f"{name}-l", keys[0], "rows"),
            self._side(right, f"{name}-r", keys[1], "counts" if one_sided else "rows"),
        )
        join = physical.Join(kind, sides[0], sides[1], name, tuple(self.safe for _ in order))
        sign = "IS NOT DISTINCT FROM" if self.safe else "="
        on = " AND ".join(f"{one} {sign} {other}" for one, other in zip(*keys, strict=True))
        shown = ", ".join(each.name for each in join.columns)
        if one_sided:
            word = "" if kind == "semi" else "NOT "
            exists = f"{word}EXISTS (SELECT 1 FROM ({right.sql}) AS r WHERE {on})"
            sql = f"SELECT {shown} FROM ({left.sql}) AS l WHERE {exists}"
        else:
            sql = f"SELECT {shown} FROM ({left.sql}) AS l {kind} JOIN ({right.sql}) AS r ON {on}"
        return self._keyed(Part(join, left.key, sql), right.key, kind)

    def _side(
        self, part: Part, name: str, key: tuple[str, ...], keeps: Literal["rows", "latest", "counts"]
    ) -> physical.Side:
        shown = tuple(each for each in part.columns if each in key or self.rng.random() < 0.7)
        latest = physical.change_of(part.operator) == "upsert"
        return physical.Side(
            part.operator, name, key, () if keeps == "counts" else shown, "latest" if latest else keeps
        )

    def _keyed(self, part: Part, others: tuple[str, ...], kind: physical.JoinKind) -> Part:
        """Return a join with the columns that contain its key in every row."""
        if kind == "right" or (kind == "inner" and self.rng.random() < 0.5):
            return Part(part.operator, others, part.sql)
        if kind != "full":
            return part
        below, names = part.operator, tuple(f"{each}_{self._joins}" for each in part.key)
        texts = [f"coalesce({one}, {other})" for one, other in zip(part.key, others, strict=True)]
        outputs = [output(below, each, each) for each in part.columns]
        outputs += [output(below, name, text) for name, text in zip(names, texts, strict=True)]
        more = ", ".join(f"{text} AS {name}" for name, text in zip(names, texts, strict=True))
        return Part(physical.Map(below, tuple(outputs)), names, f"SELECT *, {more} FROM ({part.sql}) AS f")


def within(operator: physical.Operator) -> int:
    """Return the number of nested joins, that is, joins executed in another join's tasks."""
    joins = [each for each in physical.walk(operator) if isinstance(each, physical.Join)]
    return sum(side.within for each in joins for side in (each.left, each.right))


def nested(rng: random.Random, names: str) -> tuple[Nested, Part]:
    """Return a random join tree; all its joins run in the tasks of the last one."""
    tree = Nested(rng)
    part = tree.part(names)
    return tree, Part(fuse_joins(physical.Graph(part.operator)).root, part.key, part.sql)
