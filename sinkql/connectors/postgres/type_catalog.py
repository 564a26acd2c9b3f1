"""Ids of types, asked of their server → the types, with all that they are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import psycopg

from sinkql.connectors.postgres.type import ServerType

Connection = psycopg.Connection[tuple[Any, ...]]

_TYPES = """
SELECT t.oid::int8, format_type(t.oid, NULL), t.typtype::text, t.typcategory = 'A' AND t.typlen = -1, t.typelem::int8,
       t.typbasetype::int8, t.typtypmod, t.typndims::int,
       (SELECT array_agg(ARRAY[a.attname::text, a.atttypid::int8::text, a.atttypmod::text, a.attndims::text]
               ORDER BY a.attnum)
        FROM pg_attribute AS a WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped)
FROM pg_type AS t WHERE t.oid = ANY(%s::oid[])
"""
_VECTORS = (22, 30)
"""int2vector and oidvector, which are no arrays of their own kind."""


def read_types(connection: Connection, oids: Iterable[int]) -> dict[int, ServerType]:
    """Return types by their ids, with all that they are made of."""
    rows: dict[int, tuple[Any, ...]] = {}
    wanted = set(oids)
    while wanted:
        found = {row[0]: row for row in connection.execute(_TYPES, [list(wanted)])}
        rows |= found
        wanted = {part for row in found.values() for part in _parts(row)} - rows.keys()
    made: dict[int, ServerType] = {}
    return {oid: _made(oid, rows, made) for oid in rows}


def _parts(row: tuple[Any, ...]) -> Iterable[int]:
    _, _, kind, array, element, base, _, _, fields = row
    if array and row[0] not in _VECTORS:
        yield element
    if kind == "d":
        yield base
    if kind == "c":
        yield from (int(each[1]) for each in fields or ())


def _made(oid: int, rows: Mapping[int, tuple[Any, ...]], made: dict[int, ServerType]) -> ServerType:
    if oid in made:
        return made[oid]
    _, name, kind, array, element, base, modifier, dimensions, fields = rows[oid]
    if array and oid not in _VECTORS:
        found = ServerType(oid, name, "array", element=_made(element, rows, made))
    elif kind == "d":
        found = ServerType(oid, name, "domain", element=with_modifier(_made(base, rows, made), modifier, dimensions))
    elif kind == "e":
        found = ServerType(oid, name, "enum")
    elif kind == "c":
        parts = (
            (each[0], with_modifier(_made(int(each[1]), rows, made), int(each[2]), int(each[3])))
            for each in fields or ()
        )
        found = ServerType(oid, name, "composite", fields=tuple(parts))
    else:
        found = ServerType(oid, name)
    made[oid] = found
    return found


def with_modifier(type_: ServerType, modifier: int, dimensions: int) -> ServerType:
    """Return a type as a column declares it; an array's elements have the modifier."""
    if type_.kind == "array" and type_.element is not None:
        element = with_modifier(type_.element, modifier, 0)
        return msgspec.structs.replace(type_, element=element, dimensions=max(dimensions, 1))
    return type_ if type_.kind == "domain" else msgspec.structs.replace(type_, modifier=modifier)
