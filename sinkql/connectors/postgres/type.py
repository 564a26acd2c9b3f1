"""Tables, columns and types as Postgres has them → the SQL types of their values here.

A column's type has none where it can only be read as text, or left out.
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
    """A type by its id, its name as the server writes it, and what it is made of.

    `modifier` is that of a column (atttypmod), -1 for none. An array has the type of its elements, and as many
    `dimensions` as its column declares; a domain the type that it is over, a composite type fields. Ranges are base
    types: only the built-in ones have a type here.
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
        """Return what a domain is over, through all domains; other types as they are."""
        return self.element.bare if self.kind == "domain" and self.element is not None else self


class ServerColumn(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column of a table as Postgres has it; one `as_text` is read as text whatever its type is.

    `long` is one whose value the server may leave out of an update that does not change it.
    """

    name: str
    type: ServerType
    nullable: bool = True
    as_text: bool = False
    long: bool = False

    @property
    def sql_type(self) -> Type | None:
        """Return the type that the column has here; None for one that must be read as text, or left out."""
        return TEXT if self.as_text else sql_type(self.type)


class ServerTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """A table of a publication, with the columns that the server sends.

    `identity` is its replica identity: default, index or full. `key` are the columns by which rows are told apart, none
    for one whose rows are not. `unique` are all keys whose columns are never NULL. `filter` is the publication's WHERE
    as SQL. A partitioned table has its partitions' rows. `CapturedTable.options` are one of these, as JSON.
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
    """Return what `server_table` reads. Which rows it has, its id alone decides: the rest is under "tuning".

    How values of a column are read, where that has changed since earlier releases, is said by column.
    """
    known = json_lists(msgspec.to_builtins(msgspec.structs.replace(table, unique=())))
    unblanked = {each.name: "unblanked" for each in table.columns if not each.as_text and _has_blanks(each.type)}
    return {"oid": known.pop("oid"), **({"by column": unblanked} if unblanked else {}), "tuning": known}


def _has_blanks(type_: ServerType) -> bool:
    """Tell whether a type is a char(n), or has one in it."""
    parts = [each for _, each in type_.fields] + ([type_.element] if type_.element is not None else [])
    return type_.oid == BLANKED or any(map(_has_blanks, parts))


def server_table(options: Mapping[str, Any]) -> ServerTable:
    """Read the options of a captured table: the columns are those that are taken, in their order."""
    return codec.convert({**options.get("tuning", {}), "oid": options["oid"]}, ServerTable)


def json_lists(value: Any) -> Any:
    """Return the same with lists for tuples, as it comes back from JSON."""
    if isinstance(value, dict):
        return {name: json_lists(each) for name, each in value.items()}
    return [json_lists(each) for each in value] if isinstance(value, list | tuple) else value


_BASE: Mapping[int, str] = MappingProxyType(
    {
        16: "boolean", 17: "bytea", 19: "text", 20: "bigint", 21: "smallint", 23: "integer", 25: "text", 26: "uint4",
        114: "jsonb", 700: "real", 701: "double precision", 1042: "text", 1043: "text", 1082: "date", 1083: "time",
        1114: "timestamp", 1184: "timestamptz", 1186: "interval", 2950: "uuid", 3802: "jsonb",
        3904: "int4range", 3906: "numrange", 3908: "tsrange", 3910: "tstzrange", 3912: "daterange", 3926: "int8range",
    }
)  # fmt: skip
"""Types here by the ids that are the same on every server."""

NUMERIC_OID = 1700
BLANKED = 1042
"""char(n), whose values are filled up with blanks that mean nothing: they are left out, as `value::text` does."""
_MOST_SCALE = 38


def sql_type(type_: ServerType) -> Type | None:
    """Return the SQL type of a type's values; None for one that has none here."""
    bare = type_.bare
    match bare.kind:
        case "enum":
            return TEXT
        case "array":
            return _array(bare)
        case "composite":
            found = [(name, sql_type(each)) for name, each in bare.fields]
            fields = [Field(name, each) for name, each in found if each is not None]
            return record_type(fields) if len(fields) == len(found) and fields else None
        case _ if bare.oid == NUMERIC_OID:
            return _numeric(bare.modifier)
        case _:
            name = _BASE.get(bare.oid)
            return Type(name) if name else None


def _array(type_: ServerType) -> Type | None:
    found = sql_type(type_.element) if type_.element is not None else None
    for _ in range(max(type_.dimensions, 1)):
        found = nested_type("array", found)
    return found


def _numeric(modifier: int) -> Type | None:
    """Return a numeric of all digits that there are, with the scale of a modifier."""
    if modifier < 0:
        return NUMERIC
    scale = numeric_scale(modifier)
    return Type("numeric", 38, max(scale, 0)) if scale <= _MOST_SCALE else None


def numeric_scale(modifier: int) -> int:
    """Return the scale that a column's modifier says: eleven bits with a sign, as numerics have them."""
    return (((modifier - 4) & 0x7FF) ^ 1024) - 1024
