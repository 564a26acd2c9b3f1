"""Match a captured table with the layout of its rows in the log, and decode its changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkql.connector_api.cdc import CapturedTable, TableRows
from sinkql.connector_api.stream import RowError
from sinkql.connectors.mysql.binlog_sections import RowsPart
from sinkql.connectors.mysql.column import BadRows, TargetColumn, decode, strings
from sinkql.connectors.mysql.rows_event import Cells, Flags, Images, UndecodableRow, locate
from sinkql.connectors.mysql.table_map import LogColumn, TableMap
from sinkql.connectors.mysql.type import ColumnDeclaration, fits, parse_declaration
from sinkql.connectors.mysql.value import decoder
from sinkql.decode.columnar import Block
from sinkql.logical.type import JSONB, TEXT
from sinkql.physical import Column

_DELETE, _UPDATE = 2, 1


@dataclass(frozen=True, slots=True)
class TableMatch:
    """The columns of a layout that a table reads, and their targets.

    `problem` is why `table` has fewer columns than planned. With `lost`, changes of the table are missing.
    """

    table: CapturedTable
    columns: tuple[tuple[int, LogColumn, TargetColumn], ...] = ()
    problem: str | None = None
    lost: bool = False


def declarations(table: CapturedTable) -> Mapping[str, ColumnDeclaration]:
    """Return the declarations of a table's columns at the creation of the source."""
    return {name: parse_declaration(text) for name, text in table.options["declared"].items()}


def target_of(column: Column, declaration: ColumnDeclaration, charset: str | None) -> TargetColumn:
    """Return the target of a column, by its declaration at the creation of the source."""
    return TargetColumn(column.name, column.type, declaration.kind, charset, declaration.filled)


def match(table: CapturedTable, layout: TableMap, charsets: Mapping[int, str]) -> TableMatch:
    """Find a table's columns in a layout, by name."""
    places = {column.name: number for number, column in enumerate(layout.columns)}
    declared_columns, columns, problems = declarations(table), [], []
    name = f"{layout.database}.{layout.table}"
    if not layout.named:
        problem = f'the binary log lacks the column names of table "{name}": binlog_row_metadata is not FULL'
        return TableMatch(without(table), problem=problem, lost=True)
    for column in table.columns:
        place = places.get(column.name)
        if place is None:
            problems.append(f'column "{column.name}" of table "{name}" was dropped or renamed')
            continue
        wire = layout.columns[place]
        charset = charsets.get(wire.collation)
        if column.type in (TEXT, JSONB) and (charset is None or decoder(charset) is None) and wire.collation != 63:
            problems.append(f'column "{column.name}" of table "{name}" has the character set {charset}')
        elif not fits(declared_columns[column.name], wire, charset):
            problems.append(f'column "{column.name}" of table "{name}" has another type')
        elif wire.nullable and not column.nullable:
            problems.append(f'column "{column.name}" of table "{name}" may be NULL')
        else:
            columns.append((place, wire, target_of(column, declared_columns[column.name], charset)))
    if not problems:
        return TableMatch(table, tuple(columns))
    left = without(table, {column.name for column in table.columns} - {target.name for _, _, target in columns})
    return TableMatch(left, tuple(columns) if left.columns else (), "; ".join(problems))


class TableMatcher:
    """Matches captured tables with the layouts of the log, each pair once.

    `has_key` returns whether the key of a table identifies its rows, now or in a layout.
    """

    def __init__(
        self,
        tables: Sequence[CapturedTable],
        charsets: Mapping[int, str],
        has_key: Callable[[CapturedTable, TableMap], bool],
    ) -> None:
        self.tables: Mapping[str, CapturedTable] = {table.id: table for table in tables}
        self._charsets = charsets
        self._has_key = has_key
        self._matched: dict[tuple[str, int], TableMatch] = {}

    def fits(self, table: str, layout: TableMap) -> bool:
        """Return whether a table can be read with a layout."""
        return self.match(table, layout).problem is None

    def match(self, table: str, layout: TableMap) -> TableMatch:
        """Return the match of a table with a layout; layouts are not collected before the matcher."""
        matched = self._matched.get((table, id(layout)))
        if matched is None:
            captured = self.tables[table]
            matched = match(captured, layout, self._charsets)
            if matched.columns and not self._has_key(captured, layout):
                columns = ", ".join(f'"{name}"' for name in captured.key)
                problem = f'table "{layout.database}.{layout.table}" no longer has a unique key of {columns}'
                matched = TableMatch(without(captured), problem=problem, lost=True)
            self._matched[table, id(layout)] = matched
        return matched


def without(table: CapturedTable, columns: Collection[str] | None = None) -> CapturedTable:
    """Return a table without some columns, or without any if a key column is missing."""
    if columns is None or not set(table.key).isdisjoint(columns):
        return replace(table, columns=())
    return replace(table, columns=tuple(column for column in table.columns if column.name not in columns))


def changed_rows(block: Block, part: RowsPart, matched: TableMatch) -> TableRows:
    """Return the rows of a part as changes; with a key, only the present row of each key or its deletion."""
    table = matched.table
    places = [place for place, _, _ in matched.columns]
    images = locate(block, part.layout, part.starts, part.ends, places)
    kind = np.array(part.kinds, np.int64)[images.events]
    before = (kind == _DELETE) | ((kind == _UPDATE) & (images.steps % 2 == 0))
    if table.key:
        same = _find_same_keys(block, images, (kind == _UPDATE) & before, table, matched)
        if same.any():
            rows = np.flatnonzero(~same)
            cells = {place: column_cells.take(rows) for place, column_cells in images.cells.items()}
            images, before = Images(images.events[rows], images.steps[rows], cells), before[rows]
    at = np.array(part.at, np.int64)[images.events]
    unfit, arrays = UndecodableRow(), []
    for place, wire, target in matched.columns:
        cells_ = images.cells[place]
        if table.key and target.name not in table.key and before.any():
            cells_ = Cells(cells_.starts, np.where(before, 0, cells_.lengths), cells_.null | before)
        here = BadRows()
        arrays.append(decode(block, cells_, wire, target, here))
        for row, reason in here.reasons.items():
            unfit.add(row, target.name, reason, block.slice(int(cells_.starts[row]), int(cells_.lengths[row])))
    values = list(arrays)
    arrays += [pa.array(np.where(before, -1, 1)), pa.array(at, pa.timestamp("us", "UTC"))]
    names = [*(column.name for column in table.columns), "$diff", "$at"]
    batch = pa.RecordBatch.from_arrays(arrays, names=names)
    if not unfit.reasons:
        has_commits = not table.key and None not in part.commits
        return TableRows(batch, (), np.array(part.commits, object)[images.events] if has_commits else None)
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


def _find_same_keys(block: Block, images: Images, old: Flags, table: CapturedTable, matched: TableMatch) -> Flags:
    """Return the mask of images before an update whose key is unchanged, byte by byte, after it."""
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
    same_key = np.zeros(len(old), bool)
    same_key[rows[same]] = True
    return same_key
