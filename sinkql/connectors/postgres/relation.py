"""What the server says of a table in its stream, against the table that was planned → how its rows are read.

A table may gain columns while it is read, and have its own in another order. A column that is dropped, renamed or of
another type is left out from there on, and a problem says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sinkql.connector_api.cdc import CapturedTable, SchemaChanged
from sinkql.connectors.postgres.type import (
    BLANKED,
    NUMERIC_OID,
    ServerColumn,
    ServerTable,
    ServerType,
    numeric_scale,
    server_table,
    sql_type,
)

KEY_FLAG = 1


@dataclass(frozen=True, slots=True)
class SentColumn:
    """A column as the server sends it."""

    name: str
    oid: int
    modifier: int
    in_key: bool


@dataclass(frozen=True, slots=True)
class SentTable:
    """A table as the server sends it: `identity` is its replica identity, d, i, f or n."""

    oid: int
    name: tuple[str, str]
    identity: str
    columns: tuple[SentColumn, ...]


def read_relation(message: bytes) -> SentTable:
    """Read a Relation message."""
    oid = int.from_bytes(message[1:5], "big")
    schema, name, rest = message[5:].split(b"\0", 2)
    columns, at = [], 3
    for _ in range(int.from_bytes(rest[1:3], "big")):
        end = rest.index(b"\0", at + 1)
        type_ = int.from_bytes(rest[end + 1 : end + 5], "big")
        modifier = int.from_bytes(rest[end + 5 : end + 9], "big", signed=True)
        columns.append(SentColumn(rest[at + 1 : end].decode(), type_, modifier, bool(rest[at] & KEY_FLAG)))
        at = end + 9
    return SentTable(oid, (schema.decode(), name.decode()), chr(rest[0]), tuple(columns))


@dataclass(frozen=True, slots=True)
class Relation:
    """How a table's rows are read: `columns` and their `places` in what the server sends, those of the key, in order.

    `reshaped` is what is to be said where the table is not as it was planned; one without columns is not read.
    `planned` has all columns, also those that `table` is without by now.
    """

    planned: CapturedTable
    table: CapturedTable
    columns: tuple[ServerColumn, ...]
    places: tuple[int, ...]
    key: tuple[int, ...]
    sent: SentTable
    reshaped: SchemaChanged | None = None


def relate(table: CapturedTable, sent: SentTable) -> Relation:
    """Match a table to what the server sends of it."""
    planned = server_table(table.options)
    if planned.oid and sent.oid != planned.oid:
        anew = f"table {called(planned)} was dropped and created again: the rows that it had are not in the changes"
        return _without(table, planned, (), sent, SchemaChanged(table, anew))
    problem = _identity_problem(planned, table, sent)
    if problem is not None:
        return _without(table, planned, (), sent, SchemaChanged(table, problem, lost=True))
    columns, problems = fitting(planned, sent.columns)
    if not problems:
        places = {each.name: place for place, each in enumerate(sent.columns)}
        indexes = {each.name: number for number, each in enumerate(columns)}
        key = tuple(indexes[name] for name in table.key)
        return Relation(table, table, tuple(columns), tuple(places[each.name] for each in columns), key, sent)
    kept = {each.name for each in columns}
    if not kept.issuperset(table.key):
        columns = []
    return _without(table, planned, columns, sent, SchemaChanged(table, lacking(planned, problems)))


def fitting(planned: ServerTable, sent: Sequence[SentColumn]) -> tuple[list[ServerColumn], list[str]]:
    """Return those of a table's columns that have values of their types, as they are by now; and what others lack."""
    there = {each.name: each for each in sent}
    columns, problems = [], []
    for column in planned.columns:
        now = there.get(column.name)
        found = None if now is None else _retyped(column, now)
        if found is not None:
            columns.append(found)
        elif now is None:
            problems.append(f'column "{column.name}" was dropped or renamed')
        else:
            was, is_ = column.type.name, _type_name(now.oid)
            if was == is_:
                was, is_ = was + _shown(column.type.oid, column.type.modifier), is_ + _shown(now.oid, now.modifier)
            problems.append(f'the type of column "{column.name}" was {was} and is {is_} now')
    return columns, problems


def lacking(table: ServerTable, problems: Sequence[str]) -> str:
    """Return what a sink is told that needs a column that is not there any more."""
    return f"of table {called(table)} {'; '.join(problems)}"


def called(table: ServerTable) -> str:
    """Return a table's name as messages have it."""
    return f'"{table.schema}.{table.name}"'


def _without(
    table: CapturedTable, planned: ServerTable, columns: Sequence[ServerColumn], sent: SentTable, why: SchemaChanged
) -> Relation:
    """Return a table of which some columns are left, and why."""
    left = left_of(table, planned, columns)
    places = {each.name: place for place, each in enumerate(sent.columns)}
    indexes = {each.name: number for number, each in enumerate(columns)}
    key = tuple(indexes[name] for name in table.key) if columns else ()
    reshaped = replace(why, table=left)
    return Relation(table, left, tuple(columns), tuple(places[each.name] for each in columns), key, sent, reshaped)


def left_of(table: CapturedTable, planned: ServerTable, columns: Sequence[ServerColumn]) -> CapturedTable:
    """Return a table with those of its columns that are left on the server."""
    kept = {each.name for each in columns}
    captured = [each for each, own in zip(table.columns, planned.columns, strict=True) if own.name in kept]
    return replace(table, columns=tuple(captured))


def _identity_problem(planned: ServerTable, table: CapturedTable, sent: SentTable) -> str | None:
    flagged = {each.name for each in sent.columns if each.in_key}
    long = [each.name for each in planned.columns if each.long]
    if sent.identity == "f":
        return None
    if sent.identity in "di" and table.key and flagged == set(table.key):
        if planned.identity != "full" or not long:
            return None
        return (
            f"table {called(planned)} no longer has REPLICA IDENTITY FULL, so the server does not send {long[0]} where "
            "it has not changed: run ALTER TABLE … REPLICA IDENTITY FULL; on the server, or ALTER SOURCE … REFRESH "
            "REFERENCES; here, which has sinks keep such values"
        )
    if not table.key:
        return f"table {called(planned)} no longer has REPLICA IDENTITY FULL, which a table without a key must have"
    return f"the replica identity of table {called(planned)} is no longer its key {', '.join(table.key)}"


def _retyped(column: ServerColumn, sent: SentColumn) -> ServerColumn | None:
    """Return a column of the type that the server sends, if its values have the same type here; else None."""
    if sent.oid == column.type.oid:
        found = column.type
        if found.kind == "base":
            found = ServerType(found.oid, found.name, modifier=sent.modifier)
    elif sent.oid in _NAMES:
        found = ServerType(sent.oid, _NAMES[sent.oid], modifier=sent.modifier)
    else:
        return None
    retyped = ServerColumn(column.name, found, column.nullable, as_text=column.as_text, long=column.long)
    return retyped if column.as_text or sql_type(found) == sql_type(column.type) else None


_NAMES = {
    16: "boolean", 17: "bytea", 19: "name", 20: "bigint", 21: "smallint", 23: "integer", 25: "text", 26: "oid",
    114: "json", 700: "real", 701: "double precision", 1042: "character", 1043: "character varying", 1082: "date",
    1083: "time", 1114: "timestamp", 1184: "timestamptz", 1186: "interval", 1700: "numeric", 2950: "uuid",
    3802: "jsonb",
}  # fmt: skip


def _shown(oid: int, modifier: int) -> str:
    """Return what a column's declaration has in brackets."""
    if modifier < 0 or oid not in (NUMERIC_OID, BLANKED, 1043):
        return ""
    return f"({(modifier - 4) >> 16},{numeric_scale(modifier)})" if oid == NUMERIC_OID else f"({modifier - 4})"


def _type_name(oid: int) -> str:
    return _NAMES.get(oid, "another one")
