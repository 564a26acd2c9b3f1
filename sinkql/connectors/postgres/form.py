"""How a server stores the values of a table, and stored them before → what was written anew without a change of a row.

ALTER TABLE … TYPE may compute a column's values from others, and a value of an enum may get another name: the stream
says nothing of either where the column's type is the same here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from sinkql.connectors.postgres.slot import Connection
from sinkql.connectors.postgres.type import ServerTable, ServerType


class Stored(msgspec.Struct, frozen=True, array_like=True):
    """A column as the catalog has it: the transaction that its row is of, its modifier, and a digest of the row."""

    by: str
    modifier: int
    row: str


class StorageForm(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a table's rows lie, its columns by their names, and the values of its enums by their ids.

    `changes` is another number where a column's row in the catalog is another.
    """

    file: int = 0
    changes: int = 0
    columns: dict[str, Stored] = {}
    labels: dict[str, str] = {}


_CHANGES = """
SELECT c.oid::int8, c.relfilenode::int8, c.relpersistence = 'u',
       (SELECT sum(a.xmin::text::int8)::int8 FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attnum > 0)
FROM pg_class AS c WHERE c.oid = ANY(%s::oid[])
"""
_COLUMNS = """
SELECT a.attrelid::int8, a.attname::text, a.xmin::text, a.atttypmod, md5(a::text)
FROM pg_attribute AS a WHERE a.attrelid = ANY(%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
"""
_LABELS = "SELECT enumtypid::int8, oid::text, enumlabel::text FROM pg_enum WHERE enumtypid = ANY(%s::oid[])"


def read_storage_forms(
    connection: Connection, tables: Mapping[str, ServerTable], known: Mapping[str, StorageForm | None]
) -> tuple[dict[str, StorageForm], set[str]]:
    """Return how tables are stored now, and those that are not logged; `known` is how they were."""
    found = {row[0]: row for row in connection.execute(_CHANGES, [[each.oid for each in tables.values()]])}
    types = {name: set(_enums(each)) for name, each in tables.items()}
    labels: dict[int, dict[str, str]] = {}
    if any(types.values()):
        for type_, id_, label in connection.execute(_LABELS, [sorted(set().union(*types.values()))]):
            labels.setdefault(type_, {})[id_] = label
    forms, asked, unlogged = {}, {}, set()
    for name, table in tables.items():
        if table.oid not in found:
            continue
        _, file, unlogged_now, changes = found[table.oid]
        before = known.get(name)
        columns = before.columns if before is not None and before.changes == changes else {}
        if not columns:
            asked[table.oid] = name
        named = {id_: label for type_ in types[name] for id_, label in labels.get(type_, {}).items()}
        forms[name] = StorageForm(file, changes or 0, columns, named)
        if unlogged_now:
            unlogged.add(name)
    rows: dict[str, dict[str, Stored]] = {}
    if asked:
        for oid, column, *stored in connection.execute(_COLUMNS, [list(asked)]):
            rows.setdefault(asked[oid], {})[column] = Stored(*stored)
    return {
        name: msgspec.structs.replace(each, columns=rows.get(name, each.columns)) for name, each in forms.items()
    }, unlogged


def rewritten(table: ServerTable, before: StorageForm, now: StorageForm, *, moved: bool) -> str | None:
    """Return what of a table's values is not as it was, though no row changed; None where nothing is.

    `moved` tells that a partition has another file.
    """
    called = f'"{table.schema}.{table.name}"'
    if moved or before.file != now.file:
        for column in table.columns:
            was, is_ = before.columns.get(column.name), now.columns.get(column.name)
            if was is not None and is_ is not None and _retyped(was, is_):
                return f'the values of column "{column.name}" of table {called} were written anew by ALTER TABLE'
    for id_, label in now.labels.items():
        if before.labels.get(id_, label) != label:
            return f'the value "{before.labels[id_]}" of an enum in table {called} is called "{label}" now'
    return None


def _retyped(was: Stored, now: Stored) -> bool:
    """Tell whether a column's type was altered, to another one or the same: other alterations change other things."""
    return was.by != now.by and (was.modifier != now.modifier or was.row == now.row)


def _enums(table: ServerTable) -> Iterator[int]:
    def within(type_: ServerType) -> Iterator[int]:
        if type_.kind == "enum":
            yield type_.oid
        for part in (type_.element, *(each for _, each in type_.fields)):
            if part is not None:
                yield from within(part)

    for each in table.columns:
        yield from within(each.type)
