"""The dialect's types as clients know them, and SQL that derives oids, names and modifiers from a type's text."""

from __future__ import annotations

from dataclasses import dataclass

from sinkql.catalog.system.relation import literal


@dataclass(frozen=True, slots=True)
class ClientType:
    """A type: `name` in the dialect, `short` in pg_type; `length` in bytes, -1 if it varies."""

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
    *(ClientType(f"{name}[]", f"_{short}", oid, -1, "A") for name, short, oid in (
        ("boolean", "bool", 1000), ("bytea", "bytea", 1001), ("smallint", "int2", 1005), ("integer", "int4", 1007),
        ("text", "text", 1009), ("bigint", "int8", 1016), ("real", "float4", 1021),
        ("double precision", "float8", 1022),
        ("oid", "oid", 1028), ("timestamp", "timestamp", 1115), ("date", "date", 1182), ("time", "time", 1183),
        ("timestamptz", "timestamptz", 1185), ("interval", "interval", 1187), ("numeric", "numeric", 1231),
        ("uuid", "uuid", 2951), ("jsonb", "jsonb", 3807), ("int4range", "int4range", 3905),
        ("numrange", "numrange", 3907), ("tsrange", "tsrange", 3909), ("tstzrange", "tstzrange", 3911),
        ("daterange", "daterange", 3913), ("int8range", "int8range", 3927), ("uint2", "uint2", 16461),
        ("uint4", "uint4", 16463), ("uint8", "uint8", 16465),
    )),
)  # fmt: skip
"""Oids below 16384 are Postgres's, higher ones Materialize's."""


def base(type_sql: str) -> str:
    """Return SQL for a type's name without its modifiers."""
    return f"CASE WHEN {type_sql} LIKE 'numeric(%)' THEN 'numeric' ELSE {type_sql} END"


def _name_in_types(type_sql: str) -> str:
    """Return SQL for the name of a type in `TYPES`: one for all lists, and one per element type for arrays."""
    element = f"CASE WHEN {type_sql} LIKE 'numeric(%' THEN 'numeric' ELSE replace({type_sql}, '[]', '') END"
    return (
        f"CASE WHEN {type_sql} LIKE '% list' THEN 'text list' WHEN {type_sql} LIKE '%[]' THEN {element} || '[]' "
        f"ELSE {base(type_sql)} END"
    )


def oid(type_sql: str) -> str:
    """Return SQL for the oid of a type by its text."""
    cases = " ".join(f"WHEN {literal(client_type.name)} THEN {client_type.oid}" for client_type in TYPES)
    return f"CASE {_name_in_types(type_sql)} {cases} END"


def short_name(type_sql: str) -> str:
    """Return SQL for the short name of a type by its text."""
    cases = " ".join(f"WHEN {literal(client_type.name)} THEN {literal(client_type.short)}" for client_type in TYPES)
    return f"CASE {_name_in_types(type_sql)} {cases} ELSE {type_sql} END"


def modifier(type_sql: str) -> str:
    """Return SQL for a type's modifier: ((p << 16) | s) + 4 for numeric(p,s), otherwise -1."""
    packed = f"(({precision(type_sql)} << 16) | {scale(type_sql)}) + 4"
    return f"CASE WHEN {type_sql} LIKE 'numeric(%' THEN {packed} ELSE -1 END"


def precision(type_sql: str) -> str:
    """Return SQL for the precision of `numeric(p,s)`."""
    return f"CAST(substr({type_sql}, 9) AS INTEGER)"


def scale(type_sql: str) -> str:
    """Return SQL for the scale of `numeric(p,s)`."""
    return f"CAST(substr({type_sql}, instr({type_sql}, ',') + 1) AS INTEGER)"
