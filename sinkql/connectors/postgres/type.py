"""Tables, columns and types of Postgres, and the SQL types of their values.

A column whose type is not supported can be read as text or left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from sinkql import codec
from sinkql.connector_api.types import nested_type
from sinkql.logical.type import NUMERIC, TEXT, Field, Type, record_type

Kind = Literal["base", "enum", "array", "composite", "domain"]


class ServerType(msgspec.Struct, frozen=True, omit_defaults=True):
    """A type: its id, its name as the server writes it, and its parts.

    `modifier` is the atttypmod of a column, or -1. An array has the type of its elements, and the `dimensions` that its
    column declares; a domain has its base type, and a composite type its fields. Ranges are base types, because only
    the built-in ones are supported.
    """

    oid: int
    name: str
    kind: Kind = "base"
    modifier: int = -1
    dimensions: int = 1
    element: ServerType | None = None
    fields: tuple[tuple[str, ServerType], ...] = ()

    @property
    def bare(self) -> ServerType:
        """Return the base type under all domains; other types are returned unchanged."""
        return self.element.bare if self.kind == "domain" and self.element is not None else self


class ServerColumn(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column of a table; with `as_text` it is read as text, whatever its type is.

    `long` is whether the server may omit its value from an update that does not change it.
    """

    name: str
    type: ServerType
    nullable: bool = True
    as_text: bool = False
    long: bool = False

    @property
    def sql_type(self) -> Type | None:
        """Return the SQL type of the column; None if it must be read as text or left out."""
        return TEXT if self.as_text else sql_type(self.type)


class ServerTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """A table of a publication, with the columns that the server sends.

    `identity` is its replica identity. `key` are the columns of the key; empty without a key. `unique` are all keys
    whose columns are never NULL. `filter` is the publication's WHERE as SQL. A partitioned table has its partitions'
    rows. `CapturedTable.options` holds a table as JSON.
    """

    schema: str
    name: str
    oid: int
    identity: Literal["default", "index", "full", "nothing"]
    columns: tuple[ServerColumn, ...]
    key: tuple[str, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    filter: str | None = None
    partitioned: bool = False


def table_json(table: ServerTable) -> dict[str, Any]:
    """Return the options that `server_table` reads. Only the id identifies the rows: the rest is under "tuning".

    If the decoding of a column has changed since earlier releases, "by column" says so.
    """
    fields = json_lists(msgspec.to_builtins(msgspec.structs.replace(table, unique=())))
    unblanked = {
        column.name: "unblanked" for column in table.columns if not column.as_text and _has_blanks(column.type)
    }
    return {"oid": fields.pop("oid"), **({"by column": unblanked} if unblanked else {}), "tuning": fields}


def _has_blanks(type_: ServerType) -> bool:
    """Return whether a type is or contains a char(n)."""
    parts = [field_type for _, field_type in type_.fields] + ([type_.element] if type_.element is not None else [])
    return type_.oid == BLANKED or any(map(_has_blanks, parts))


def server_table(options: Mapping[str, Any]) -> ServerTable:
    """Return the table in the options of a captured table, with its captured columns in order."""
    return codec.convert({**options.get("tuning", {}), "oid": options["oid"]}, ServerTable)


def json_lists(value: Any) -> Any:
    """Return the value with lists instead of tuples, as JSON returns it."""
    if isinstance(value, dict):
        return {name: json_lists(item) for name, item in value.items()}
    return [json_lists(item) for item in value] if isinstance(value, list | tuple) else value


_BASE: Mapping[int, str] = MappingProxyType(
    {
        16: "boolean", 17: "bytea", 19: "text", 20: "bigint", 21: "smallint", 23: "integer", 25: "text", 26: "uint4",
        114: "jsonb", 700: "real", 701: "double precision", 1042: "text", 1043: "text", 1082: "date", 1083: "time",
        1114: "timestamp", 1184: "timestamptz", 1186: "interval", 2950: "uuid", 3802: "jsonb",
        3904: "int4range", 3906: "numrange", 3908: "tsrange", 3910: "tstzrange", 3912: "daterange", 3926: "int8range",
    }
)  # fmt: skip
"""SQL types by the ids that are the same on every server."""

NUMERIC_OID = 1700
BLANKED = 1042
"""char(n): its padding is removed, as `value::text` does."""
_MOST_SCALE = 38


def sql_type(type_: ServerType) -> Type | None:
    """Return the SQL type of a type's values; None if it is not supported."""
    bare = type_.bare
    match bare.kind:
        case "enum":
            return TEXT
        case "array":
            return _array_type(bare)
        case "composite":
            types = [(name, sql_type(field_type)) for name, field_type in bare.fields]
            fields = [Field(name, field_type) for name, field_type in types if field_type is not None]
            return record_type(fields) if len(fields) == len(types) and fields else None
        case _ if bare.oid == NUMERIC_OID:
            return _numeric_type(bare.modifier)
        case _:
            name = _BASE.get(bare.oid)
            return Type(name) if name else None


def supported_type(type_: ServerType) -> Type:
    """Return the SQL type of the values of a supported type; raise TypeError for any other type."""
    supported = sql_type(type_)
    if supported is None:
        raise TypeError(f"{type_.name} has no SQL type")
    return supported


def element_type(type_: ServerType) -> ServerType:
    """Return the type of an array's elements; raise TypeError for any other type."""
    if type_.element is None:
        raise TypeError(f"{type_.name} is not an array")
    return type_.element


def _array_type(type_: ServerType) -> Type | None:
    nested = sql_type(type_.element) if type_.element is not None else None
    for _ in range(max(type_.dimensions, 1)):
        nested = nested_type("array", nested)
    return nested


def _numeric_type(modifier: int) -> Type | None:
    """Return a numeric with the most digits and the scale of a modifier."""
    if modifier < 0:
        return NUMERIC
    scale = numeric_scale(modifier)
    return Type("numeric", 38, max(scale, 0)) if scale <= _MOST_SCALE else None


def numeric_scale(modifier: int) -> int:
    """Return the scale in a column's modifier: eleven bits with a sign."""
    return (((modifier - 4) & 0x7FF) ^ 1024) - 1024
