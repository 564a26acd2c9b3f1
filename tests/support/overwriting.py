"""A source whose rows overwrite each other by key, read from a file of lines, and a registry that has it.

`CREATE SOURCE … FROM LOAD GENERATOR COUNTER` is such a source there, of one file. A line is a
row, a key that is gone, or says that all rows are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from sinkql import ast, logical, physical
from sinkql.extension.plan import Planning, SourcePlan
from sinkql.extension.registry import Registry, discover
from sinkql.extension.stream import Context, Limit, Offsets, Reader, Split, Tally
from sinkql.extension.types import arrow_type
from sinkql.logical.type import parse_type

COLUMNS = {"k": "integer not null", "x": "bigint", "t": "text not null"}
CLEARED = {"$": "cleared"}
Line = Mapping[str, Any]


def row(k: int, x: int | None, t: str) -> Line:
    """Return the line of a row."""
    return {"k": k, "x": x, "t": t}


def gone(k: int) -> Line:
    """Return the line of a key that has no row any more."""
    return {"$": "gone", "k": k}


def add(path: Path, lines: Iterable[Line]) -> None:
    """Write lines to a stream's file, which has others already."""
    with path.open("a") as file:
        file.writelines(json.dumps(each) + "\n" for each in lines)


def fold(lines: Iterable[Line]) -> dict[int, tuple[int, int | None, str]]:
    """Return the rows that are there after these lines, by key."""
    found: dict[int, tuple[int, int | None, str]] = {}
    for each in lines:
        match each.get("$"):
            case "cleared":
                found.clear()
            case "gone":
                found.pop(each["k"], None)
            case _:
                found[each["k"]] = (each["k"], each["x"], each["t"])
    return found


@dataclass(frozen=True)
class LineReader(Reader):
    """Read a stream's file. Offsets: `line`, how many lines were read. What clears all begins a batch."""

    path: Path
    declared: tuple[physical.Column, ...]

    def initial(self, *, at_end: bool) -> Offsets:
        return {"line": len(self._lines()) if at_end else 0}

    def target(self, start: Offsets) -> Offsets:
        return {"line": len(self._lines())}

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        end = min((until or self.target(start))["line"], start["line"] + limit.rows)
        lines = self._lines()
        stops = (at for at in range(start["line"] + 1, end) if lines[at] == CLEARED)
        return {"line": next(stops, end)}

    def cleared(self, start: Offsets, end: Offsets) -> bool:
        return CLEARED in self._lines()[start["line"] : end["line"]]

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        lines = self._lines()
        begin = max((at + 1 for at in range(start["line"], end["line"]) if lines[at] == CLEARED), default=start["line"])
        return [{"from": at, "to": min(at + 5, end["line"])} for at in range(begin, end["line"], 5)]

    def read(self, split: Split, tally: Tally) -> Iterator[pa.RecordBatch]:
        lines = self._lines()[split["from"] : split["to"]]
        tally.rows += len(lines)
        arrays = [
            pa.array([each.get(column.name) for each in lines], arrow_type(column.type)) for column in self.declared
        ]
        arrays.append(pa.array([-1 if "$" in each else 1 for each in lines], pa.int64()))
        yield pa.record_batch(arrays, names=[*(column.name for column in self.declared), "$diff"])

    def _lines(self) -> list[Line]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []


def registry(path: Path) -> Registry:
    """Return a registry that has the source of a file."""
    found = discover()
    counter = found.sources["LOAD GENERATOR COUNTER"]
    columns = tuple(
        logical.Column(name, parse_type(text.removesuffix(" not null")), nullable="not null" not in text)
        for name, text in COLUMNS.items()
    )
    shape = logical.Shape(columns, (frozenset({"k"}),), logical.Change.UPSERT)

    def plan(statement: ast.CreateSource, facts: logical.Facts, planning: Planning) -> SourcePlan:
        return SourcePlan({}, shape)

    def reader(read: physical.Read, context: Context) -> Reader:
        assert (read.change, read.key) == ("upsert", ("k",))
        return LineReader(path, read.columns)

    kind = replace(counter, plan=plan, reader=reader)
    return replace(found, sources=found.sources | {counter.name: kind})
