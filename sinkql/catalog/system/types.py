"""The dialect's types as clients know them; SQL that tells their oids, names and modifiers from a type's text."""

from __future__ import annotations

from dataclasses import dataclass

from sinkql.catalog.system.relation import literal


@dataclass(frozen=True, slots=True)
class ClientType:
    """A type: `name` as the dialect writes it, `short` as pg_type does; `length` in bytes, -1 if it varies."""

    name: str
    short: str
    oid: int
    length: int
    category: str


TYPES = (
    ClientType("boolean", "bool", 16, 1, "B"),
    ClientType("bytea", "bytea", 17, -1, "U"),
    ClientType("bigint", "int8", 20, 8, "N"),
    ClientType("smallint", "int2", 21, 2, "N"),
    ClientType("integer", "int4", 23, 4, "N"),
    ClientType("text", "text", 25, -1, "S"),
    ClientType("oid", "oid", 26, 4, "N"),
    ClientType("real", "float4", 700, 4, "N"),
    ClientType("double precision", "float8", 701, 8, "N"),
    ClientType("text[]", "_text", 1009, -1, "A"),
    ClientType("date", "date", 1082, 4, "D"),
    ClientType("time", "time", 1083, 8, "D"),
    ClientType("timestamp", "timestamp", 1114, 8, "D"),
    ClientType("timestamptz", "timestamptz", 1184, 8, "D"),
    ClientType("interval", "interval", 1186, 16, "T"),
    ClientType("numeric", "numeric", 1700, -1, "N"),
    ClientType("uuid", "uuid", 2950, 16, "U"),
    ClientType("jsonb", "jsonb", 3802, -1, "U"),
    ClientType("int4range", "int4range", 3904, -1, "R"),
    ClientType("numrange", "numrange", 3906, -1, "R"),
    ClientType("tsrange", "tsrange", 3908, -1, "R"),
    ClientType("tstzrange", "tstzrange", 3910, -1, "R"),
    ClientType("daterange", "daterange", 3912, -1, "R"),
    ClientType("int8range", "int8range", 3926, -1, "R"),
    ClientType("text list", "list", 16384, -1, "U"),
    ClientType("uint2", "uint2", 16460, 2, "U"),
    ClientType("uint4", "uint4", 16462, 4, "U"),
    ClientType("uint8", "uint8", 16464, 8, "U"),
    ClientType("mz_timestamp", "mz_timestamp", 16552, 8, "U"),
    ClientType("mz_aclitem", "mz_aclitem", 16566, -1, "U"),
    ClientType("mz_aclitem[]", "_mz_aclitem", 16567, -1, "A"),
)
"""Oids below 16384 are Postgres's, those above upstream's."""


def base(type_sql: str) -> str:
    """Return SQL for a type's name without its modifiers."""
    return f"CASE WHEN {type_sql} LIKE 'numeric%' THEN 'numeric' ELSE {type_sql} END"


def oid(type_sql: str) -> str:
    """Return SQL for the oid of a type by its text."""
    cases = " ".join(f"WHEN {literal(each.name)} THEN {each.oid}" for each in TYPES)
    return f"CASE {base(type_sql)} {cases} END"


def short_name(type_sql: str) -> str:
    """Return SQL for the short name of a type by its text."""
    cases = " ".join(f"WHEN {literal(each.name)} THEN {literal(each.short)}" for each in TYPES)
    return f"CASE {base(type_sql)} {cases} ELSE {type_sql} END"


def modifier(type_sql: str) -> str:
    """Return SQL for a type's modifier: of numeric(p,s) ((p << 16) | s) + 4, otherwise -1."""
    packed = f"(({precision(type_sql)} << 16) | {scale(type_sql)}) + 4"
    return f"CASE WHEN {type_sql} LIKE 'numeric(%' THEN {packed} ELSE -1 END"


def precision(type_sql: str) -> str:
    """Return SQL for the precision of `numeric(p,s)`."""
    return f"CAST(substr({type_sql}, 9) AS INTEGER)"


def scale(type_sql: str) -> str:
    """Return SQL for the scale of `numeric(p,s)`."""
    return f"CAST(substr({type_sql}, instr({type_sql}, ',') + 1) AS INTEGER)"
