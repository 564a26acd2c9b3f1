"""A source whose rows overwrite each other by key, read from a file of lines, and its registry.

In that registry, `CREATE SOURCE … FROM LOAD GENERATOR COUNTER` creates the source, of one file. A line is a row, the
deletion of a key, or the deletion of all rows. A row may omit unchanged values: the
previous row has them, perhaps under another key.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from sinkql import ast, logical, physical
from sinkql.connector_api.planning import PlanningContext, SourcePlan
from sinkql.connector_api.registry import Registry, discover
from sinkql.connector_api.stream import Context, Limit, Offsets, ReadCounts, Reader, SnapshotReader, Split
from sinkql.connector_api.types import arrow_type
from sinkql.logical.type import parse_type

COLUMNS = {"k": "integer not null", "x": "bigint", "t": "text not null"}
CLEARED = {"$": "cleared"}
Line = Mapping[str, Any]
HIGH = "high"
"""The file beside a stream with the line at which the initial snapshot ends."""


def row(k: int, x: int | None, t: str) -> Line:
    """Return the line of a row."""
    return {"k": k, "x": x, "t": t}


def omitted(line: Line, *holes: str, had: int | None = None) -> Line:
    """Return the line of a row with unchanged values; `had` is its previous key, if it changes."""
    found = {name: value for name, value in line.items() if name not in holes}
    return {**found, "holes": list(holes), **({"from": had} if had is not None else {})}


def gone(k: int) -> Line:
    """Return the line that deletes a key."""
    return {"$": "gone", "k": k}


def add(path: Path, new: Iterable[Line]) -> None:
    """Append lines to a stream's file."""
    with path.open("a") as file:
        file.writelines(json.dumps(each) + "\n" for each in new)


def lines(path: Path) -> list[Line]:
    """Return the lines of a stream's file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def fold(changes: Iterable[Line]) -> dict[int, tuple[int, int | None, str]]:
    """Return the rows after these lines, by key."""
    found: dict[int, tuple[int, int | None, str]] = {}
    for each in changes:
        match each.get("$"):
            case "cleared":
                found.clear()
            case "gone":
                found.pop(each["k"], None)
            case _:
                _, x, t = found.get(each.get("from", each["k"]), (0, None, ""))
                found.pop(each.get("from", each["k"]), None)
                found[each["k"]] = (each["k"], each.get("x", x), each.get("t", t))
    return found


def arrow(changes: Iterable[Line]) -> pa.Table:
    """Return the rows after these lines as a table."""
    schema = pa.schema(
        [(name, arrow_type(parse_type(text.removesuffix(" not null")))) for name, text in COLUMNS.items()]
    )
    return pa.Table.from_pylist([dict(zip(COLUMNS, each, strict=True)) for each in fold(changes).values()], schema)


def some(rng: random.Random, size: int) -> list[Line]:
    """Return random changes of few keys; some delete all rows, a few of them twice."""
    found: list[Line] = []
    for _ in range(size):
        chance = rng.random()
        if chance < 0.06:
            found += [CLEARED] * rng.choice([1, 1, 2])
        elif chance < 0.3:
            found.append(gone(rng.randrange(9)))
        else:
            found.append(row(rng.randrange(9), rng.choice([None, 0, 1, 2, 3]), rng.choice("ab")))
    return found


def omit_some(rng: random.Random, before: list[Line], size: int) -> list[Line]:
    """Return random changes; some have unchanged values, some change keys."""
    found: list[Line] = []
    for _ in range(size):
        there = list(fold([*before, *found]))
        free = [k for k in range(9) if k not in there]
        new = row(rng.randrange(9), rng.choice([None, 0, 1, 2, 3]), rng.choice("ab") * rng.randrange(1, 4))
        holes = rng.sample(["x", "t"], rng.randrange(1, 3))
        if there and rng.random() < 0.4:
            found.append(omitted({**new, "k": rng.choice(there)}, *holes))
        elif there and free and rng.random() < 0.5:
            moves = zip(rng.sample(free, len(free)), rng.sample(there, len(there)), strict=False)
            found += [gone(99), *(omitted({**new, "k": k}, *holes, had=had) for k, had in moves)]
        else:
            found += some(rng, 1) if rng.random() < 0.5 else [new]
    return found


@dataclass(frozen=True)
class LineReader(Reader, SnapshotReader):
    """Reads a stream's file; the offset `line` is the number of lines read.

    A batch begins at a line that deletes all rows, and at the first of adjacent lines that change keys.
    """

    path: Path
    declared: tuple[physical.Column, ...]
    holes: bool

    @property
    def snapshot(self) -> LineReader:
        return self

    def initial(self, *, at_end: bool) -> Offsets:
        return {"line": len(self._lines()) if at_end else 0}

    def target(self, start: Offsets) -> Offsets:
        return {"line": len(self._lines())}

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        end = min((until or self.target(start))["line"], start["line"] + limit.rows)
        found = self._lines()
        stops = (at for at in range(start["line"] + 1, end) if _begins(found[at - 1], found[at]))
        return {"line": next(stops, end)}

    def truncated_between(self, start: Offsets, end: Offsets) -> bool:
        return CLEARED in self._lines()[start["line"] : end["line"]]

    def snapshot_running(self, start: Offsets) -> bool:
        high = self.path.with_name(HIGH)
        return high.exists() and start["line"] < int(high.read_text())

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        found = self._lines()
        begin = max((at + 1 for at in range(start["line"], end["line"]) if found[at] == CLEARED), default=start["line"])
        return [{"from": at, "to": min(at + 5, end["line"])} for at in range(begin, end["line"], 5)]

    def read(self, split: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        found = []
        for each in self._lines()[split["from"] : split["to"]]:
            found += [gone(each["from"]), each] if "from" in each else [each]
        read_counts.rows += len(found)
        arrays = [
            pa.array([each.get(column.name) for each in found], arrow_type(column.type)) for column in self.declared
        ]
        arrays.append(pa.array([-1 if "$" in each else 1 for each in found], pa.int64()))
        names = [*(column.name for column in self.declared), "$diff"]
        if self.holes:
            names += ["$hole", "$from"]
            arrays.append(pa.array([self._bits(each) for each in found], pa.binary()))
            had = [{"k": each["from"]} if "from" in each else None for each in found]
            arrays.append(pa.array(had, pa.struct([("k", pa.int32())])))
        yield pa.record_batch(arrays, names=names)

    def _bits(self, line: Line) -> bytes | None:
        if "holes" not in line:
            return None
        columns = [column.name for column in self.declared]
        return bytes([sum(1 << columns.index(name) for name in line["holes"])])

    def _lines(self) -> list[Line]:
        return lines(self.path)


def _begins(before: Line, line: Line) -> bool:
    return line == CLEARED or ("from" in line and "from" not in before)


def registry(path: Path, *, holes: bool = False) -> Registry:
    """Return a registry with the source of a file; with `holes`, its rows may have unchanged values."""
    found = discover()
    counter = found.sources["LOAD GENERATOR COUNTER"]
    columns = tuple(
        logical.Column(name, parse_type(text.removesuffix(" not null")), nullable="not null" not in text)
        for name, text in COLUMNS.items()
    )
    shape = logical.Shape(columns, (frozenset({"k"}),), logical.Change.UPSERT)

    def plan(statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext) -> SourcePlan:
        return SourcePlan({"holes": True} if holes else {}, shape)

    def reader(read: physical.Read, context: Context) -> Reader:
        assert (read.change, read.key) == ("upsert", ("k",))
        return LineReader(path, read.columns, read.holes)

    kind = replace(counter, plan=plan, reader=reader)
    return replace(found, sources=found.sources | {counter.name: kind})
