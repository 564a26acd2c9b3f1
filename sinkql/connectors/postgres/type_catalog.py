"""Read types, with all their parts, from the server's catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from sinkql.connectors.postgres.slot import Connection
from sinkql.connectors.postgres.type import ServerType

_TYPES = """
SELECT t.oid::int8, format_type(t.oid, NULL), t.typtype::text, t.typcategory = 'A' AND t.typlen = -1, t.typelem::int8,
       t.typbasetype::int8, t.typtypmod, t.typndims::int,
       (SELECT array_agg(ARRAY[a.attname::text, a.atttypid::int8::text, a.atttypmod::text, a.attndims::text]
               ORDER BY a.attnum)
        FROM pg_attribute AS a WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped)
FROM pg_type AS t WHERE t.oid = ANY(%s::oid[])
"""
_VECTORS = (22, 30)
"""int2vector and oidvector, which are not treated as arrays."""


def read_types(connection: Connection, oids: Iterable[int]) -> dict[int, ServerType]:
    """Return types by their ids, with all their parts."""
    rows: dict[int, tuple[Any, ...]] = {}
    wanted = set(oids)
    while wanted:
        read = {row[0]: row for row in connection.execute(_TYPES, [list(wanted)])}
        rows |= read
        wanted = {part for row in read.values() for part in _part_oids(row)} - rows.keys()
    types: dict[int, ServerType] = {}
    return {oid: _build_type(oid, rows, types) for oid in rows}


def _part_oids(row: tuple[Any, ...]) -> Iterable[int]:
    _, _, kind, array, element, base, _, _, fields = row
    if array and row[0] not in _VECTORS:
        yield element
    if kind == "d":
        yield base
    if kind == "c":
        yield from (int(field[1]) for field in fields or ())


def _build_type(oid: int, rows: Mapping[int, tuple[Any, ...]], types: dict[int, ServerType]) -> ServerType:
    if oid in types:
        return types[oid]
    _, name, kind, array, element, base, modifier, dimensions, fields = rows[oid]
    if array and oid not in _VECTORS:
        type_ = ServerType(oid, name, "array", element=_build_type(element, rows, types))
    elif kind == "d":
        type_ = ServerType(
            oid, name, "domain", element=with_modifier(_build_type(base, rows, types), modifier, dimensions)
        )
    elif kind == "e":
        type_ = ServerType(oid, name, "enum")
    elif kind == "c":
        parts = (
            (field[0], with_modifier(_build_type(int(field[1]), rows, types), int(field[2]), int(field[3])))
            for field in fields or ()
        )
        type_ = ServerType(oid, name, "composite", fields=tuple(parts))
    else:
        type_ = ServerType(oid, name)
    types[oid] = type_
    return type_


def with_modifier(type_: ServerType, modifier: int, dimensions: int) -> ServerType:
    """Return a type as a column declares it; the modifier of an array applies to its elements."""
    if type_.kind == "array" and type_.element is not None:
        element = with_modifier(type_.element, modifier, 0)
        return msgspec.structs.replace(type_, element=element, dimensions=max(dimensions, 1))
    return type_ if type_.kind == "domain" else msgspec.structs.replace(type_, modifier=modifier)
