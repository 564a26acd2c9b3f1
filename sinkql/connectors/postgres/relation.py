"""Match a table as the stream describes it with the planned table, and decide how its rows are read.

A table may gain columns while it is read, and the order of its columns may change. A column that was dropped, renamed
or given another type is left out from there on, and a problem reports it.
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
    """A table as the server sends it; `identity` is its replica identity: d, i, f or n."""

    oid: int
    name: tuple[str, str]
    identity: str
    columns: tuple[SentColumn, ...]


def read_relation(message: bytes) -> SentTable:
    """Decode a Relation message."""
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
    """How a table's rows are read: the columns, their `places` among the sent values, and the places of the key.

    `reshaped` is the schema change if the table differs from the planned one; a table without columns is not read.
    `planned` has all columns, also the lost ones.
    """

    planned: CapturedTable
    table: CapturedTable
    columns: tuple[ServerColumn, ...]
    places: tuple[int, ...]
    key: tuple[int, ...]
    sent: SentTable
    reshaped: SchemaChanged | None = None


def relate(table: CapturedTable, sent: SentTable) -> Relation:
    """Match a table with its description in the stream."""
    planned = server_table(table.options)
    if planned.oid and sent.oid != planned.oid:
        recreated = f"table {quoted_name(planned)} was dropped and recreated: the changes do not contain its rows"
        return _reshaped_relation(table, planned, (), sent, SchemaChanged(table, recreated))
    problem = _find_identity_problem(planned, table, sent)
    if problem is not None:
        return _reshaped_relation(table, planned, (), sent, SchemaChanged(table, problem, lost=True))
    columns, problems = match_columns(planned, sent.columns)
    if not problems:
        places = {column.name: place for place, column in enumerate(sent.columns)}
        indexes = {column.name: number for number, column in enumerate(columns)}
        key = tuple(indexes[name] for name in table.key)
        return Relation(table, table, tuple(columns), tuple(places[column.name] for column in columns), key, sent)
    remaining = {column.name for column in columns}
    if not remaining.issuperset(table.key):
        columns = []
    return _reshaped_relation(
        table, planned, columns, sent, SchemaChanged(table, missing_columns_text(planned, problems))
    )


def match_columns(planned: ServerTable, sent: Sequence[SentColumn]) -> tuple[list[ServerColumn], list[str]]:
    """Return the present state of columns that still have values of their types, and the problems of all others."""
    sent_columns = {column.name: column for column in sent}
    columns, problems = [], []
    for column in planned.columns:
        now = sent_columns.get(column.name)
        retyped = None if now is None else _retyped_column(column, now)
        if retyped is not None:
            columns.append(retyped)
        elif now is None:
            problems.append(f'column "{column.name}" was dropped or renamed')
        else:
            planned_type, sent_type = column.type.name, _type_name(now.oid)
            if planned_type == sent_type:
                planned_type, sent_type = (
                    planned_type + _format_modifier(column.type.oid, column.type.modifier),
                    sent_type + _format_modifier(now.oid, now.modifier),
                )
            problems.append(f'the type of column "{column.name}" was {planned_type} and is {sent_type} now')
    return columns, problems


def missing_columns_text(table: ServerTable, problems: Sequence[str]) -> str:
    """Return the message for sinks that need a missing column."""
    return f"of table {quoted_name(table)} {'; '.join(problems)}"


def quoted_name(table: ServerTable) -> str:
    """Return a table's name as messages show it."""
    return f'"{table.schema}.{table.name}"'


def _reshaped_relation(
    table: CapturedTable, planned: ServerTable, columns: Sequence[ServerColumn], sent: SentTable, why: SchemaChanged
) -> Relation:
    """Return the relation of a table with only some of its columns."""
    left = keep_columns(table, planned, columns)
    places = {column.name: place for place, column in enumerate(sent.columns)}
    indexes = {column.name: number for number, column in enumerate(columns)}
    key = tuple(indexes[name] for name in table.key) if columns else ()
    reshaped = replace(why, table=left)
    return Relation(table, left, tuple(columns), tuple(places[column.name] for column in columns), key, sent, reshaped)


def keep_columns(table: CapturedTable, planned: ServerTable, columns: Sequence[ServerColumn]) -> CapturedTable:
    """Return a captured table with only the columns that the server still has."""
    remaining = {column.name for column in columns}
    captured = [
        captured_column
        for captured_column, server_column in zip(table.columns, planned.columns, strict=True)
        if server_column.name in remaining
    ]
    return replace(table, columns=tuple(captured))


def _find_identity_problem(planned: ServerTable, table: CapturedTable, sent: SentTable) -> str | None:
    flagged = {column.name for column in sent.columns if column.in_key}
    long = [column.name for column in planned.columns if column.long]
    if sent.identity == "f":
        return None
    if sent.identity in "di" and table.key and flagged == set(table.key):
        if planned.identity != "full" or not long:
            return None
        return (
            f"table {quoted_name(planned)} no longer has REPLICA IDENTITY FULL, so the server omits unchanged values "
            f"of {long[0]}: run ALTER TABLE … REPLICA IDENTITY FULL; on the server, or ALTER SOURCE … REFRESH "
            "REFERENCES; in SinkQL, after which sinks store these values"
        )
    if not table.key:
        return (
            f"table {quoted_name(planned)} no longer has REPLICA IDENTITY FULL, which a table without a key must have"
        )
    return f"the replica identity of table {quoted_name(planned)} is no longer its key {', '.join(table.key)}"


def _retyped_column(column: ServerColumn, sent: SentColumn) -> ServerColumn | None:
    """Return a column with the type that the server sends, if its SQL type is the same; else None."""
    if sent.oid == column.type.oid:
        type_ = column.type
        if type_.kind == "base":
            type_ = ServerType(type_.oid, type_.name, modifier=sent.modifier)
    elif sent.oid in _NAMES:
        type_ = ServerType(sent.oid, _NAMES[sent.oid], modifier=sent.modifier)
    else:
        return None
    retyped = ServerColumn(column.name, type_, column.nullable, as_text=column.as_text, long=column.long)
    return retyped if column.as_text or sql_type(type_) == sql_type(column.type) else None


_NAMES = {
    16: "boolean", 17: "bytea", 19: "name", 20: "bigint", 21: "smallint", 23: "integer", 25: "text", 26: "oid",
    114: "json", 700: "real", 701: "double precision", 1042: "character", 1043: "character varying", 1082: "date",
    1083: "time", 1114: "timestamp", 1184: "timestamptz", 1186: "interval", 1700: "numeric", 2950: "uuid",
    3802: "jsonb",
}  # fmt: skip


def _format_modifier(oid: int, modifier: int) -> str:
    """Return the part of a column's declaration in parentheses."""
    if modifier < 0 or oid not in (NUMERIC_OID, BLANKED, 1043):
        return ""
    return f"({(modifier - 4) >> 16},{numeric_scale(modifier)})" if oid == NUMERIC_OID else f"({modifier - 4})"


def _type_name(oid: int) -> str:
    return _NAMES.get(oid, "another type")
