"""A captured table and the layout of its rows in the log → the columns to decode, and rows as Arrow has them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkql.connector_api.cdc import CapturedTable, TableRows
from sinkql.connector_api.stream import RowError
from sinkql.connectors.mysql.binlog import Part
from sinkql.connectors.mysql.column import Bad, Target, decode, strings
from sinkql.connectors.mysql.rows_event import Cells, Flags, Images, UndecodableRow, locate
from sinkql.connectors.mysql.table_map import TableMap, Wire
from sinkql.connectors.mysql.type import Declared, declared, fits
from sinkql.connectors.mysql.value import decoder
from sinkql.decode.columnar import Block
from sinkql.logical.type import JSONB, TEXT
from sinkql.physical import Column

_DELETE, _UPDATE = 2, 1
_SHOWN = 5
"""Of how many rows that do not decode each part of the log says all."""


@dataclass(frozen=True, slots=True)
class Matched:
    """Which of a layout's columns a table's columns are, and what they are to become.

    A `problem` says why `table` has fewer columns than were planned, or none; with `lost` its changes are not known.
    """

    table: CapturedTable
    columns: tuple[tuple[int, Wire, Target], ...] = ()
    problem: str | None = None
    lost: bool = False


def declarations(table: CapturedTable) -> Mapping[str, Declared]:
    """Return how a table's columns were declared when the source was created."""
    return {name: declared(text) for name, text in table.options["declared"].items()}


def target_of(column: Column, known: Declared, charset: str | None) -> Target:
    """Return what a column is to become, as it was declared when the source was created."""
    return Target(column.name, column.type, known.kind, charset, known.filled)


def match(table: CapturedTable, layout: TableMap, charsets: Mapping[int, str]) -> Matched:
    """Find a table's columns in a layout, by name."""
    places = {each.name: number for number, each in enumerate(layout.columns)}
    known, found, problems = declarations(table), [], []
    name = f"{layout.database}.{layout.table}"
    if not layout.named:
        problem = f'the log has no column names of table "{name}": binlog_row_metadata is not FULL'
        return Matched(without(table), problem=problem, lost=True)
    for column in table.columns:
        place = places.get(column.name)
        if place is None:
            problems.append(f'column "{column.name}" of table "{name}" is gone')
            continue
        wire = layout.columns[place]
        charset = charsets.get(wire.collation)
        if column.type in (TEXT, JSONB) and (charset is None or decoder(charset) is None) and wire.collation != 63:
            problems.append(f'column "{column.name}" of table "{name}" has the character set {charset}')
        elif not fits(known[column.name], wire, charset):
            problems.append(f'column "{column.name}" of table "{name}" has another type')
        elif wire.nullable and not column.nullable:
            problems.append(f'column "{column.name}" of table "{name}" may be NULL')
        else:
            found.append((place, wire, target_of(column, known[column.name], charset)))
    if not problems:
        return Matched(table, tuple(found))
    left = without(table, {each.name for each in table.columns} - {target.name for _, _, target in found})
    return Matched(left, tuple(found) if left.columns else (), "; ".join(problems))


def without(table: CapturedTable, columns: Collection[str] | None = None) -> CapturedTable:
    """Return a table without some columns, or all; it has none where one of its key is gone."""
    if columns is None or not set(table.key).isdisjoint(columns):
        return replace(table, columns=())
    return replace(table, columns=tuple(each for each in table.columns if each.name not in columns))


def changed_rows(block: Block, part: Part, matched: Matched) -> TableRows:
    """Return the rows of a part as changes: with a key what each one has now, or that it is gone."""
    table = matched.table
    places = [place for place, _, _ in matched.columns]
    images = locate(block, part.layout, part.starts, part.ends, places)
    kind = np.array(part.kinds, np.int64)[images.events]
    before = (kind == _DELETE) | ((kind == _UPDATE) & (images.steps % 2 == 0))
    if table.key:
        same = _same_key(block, images, (kind == _UPDATE) & before, table, matched)
        if same.any():
            rows = np.flatnonzero(~same)
            cells = {place: each.take(rows) for place, each in images.cells.items()}
            images, before = Images(images.events[rows], images.steps[rows], cells), before[rows]
    at = np.array(part.at, np.int64)[images.events]
    unfit, arrays = UndecodableRow(), []
    for place, wire, target in matched.columns:
        cells_ = images.cells[place]
        if table.key and target.name not in table.key and before.any():
            cells_ = Cells(cells_.starts, np.where(before, 0, cells_.lengths), cells_.null | before)
        here = Bad()
        arrays.append(decode(block, cells_, wire, target, here))
        for row, reason in here.reasons.items():
            unfit.add(row, target.name, reason, block.slice(int(cells_.starts[row]), int(cells_.lengths[row])))
    values = list(arrays)
    arrays += [pa.array(np.where(before, -1, 1)), pa.array(at, pa.timestamp("us", "UTC"))]
    names = [*(column.name for column in table.columns), "$diff", "$at"]
    batch = pa.RecordBatch.from_arrays(arrays, names=names)
    if not unfit.reasons:
        known = not table.key and None not in part.commits
        return TableRows(batch, (), np.array(part.commits, object)[images.events] if known else None)
    named = [target.name for _, _, target in matched.columns]
    errors = [
        RowError(
            part.ids[images.events[row]],
            "SQ3101",
            reason,
            unfit.raw(row, named, values, "old" if before[row] else "new"),
        )
        for row, reason in sorted(unfit.reasons.items())
    ]
    keep = np.ones(len(batch), bool)
    keep[list(unfit.reasons)] = False
    return TableRows(batch.filter(pa.array(keep)), errors)


def _same_key(block: Block, images: Images, old: Flags, table: CapturedTable, matched: Matched) -> Flags:
    """Return which images are of a row before an update that has the same key, byte by byte, after it."""
    rows = np.flatnonzero(old)
    if not len(rows):
        return old
    same = np.ones(len(rows), bool)
    for place, wire, target in matched.columns:
        if target.name not in table.key:
            continue
        cells = images.cells[place]
        if wire.width:
            for byte in range(wire.width):
                same &= block.bytes[cells.starts[rows] + byte] == block.bytes[cells.starts[rows + 1] + byte]
        else:
            one, other = strings(block, cells.take(rows)), strings(block, cells.take(rows + 1))
            same &= np.asarray(pc.equal(one, other).fill_null(True))
    found = np.zeros(len(old), bool)
    found[rows[same]] = True
    return found
