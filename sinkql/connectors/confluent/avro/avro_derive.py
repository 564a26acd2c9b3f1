"""Columns → the schema of Avro that a sink registers for them.

Unsigned integers are the next greater type of Avro's, `interval` and ranges are strings, `timestamp` and `timestamptz`
have microseconds. A name that Avro does not take has underscores in the place of other characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from sinkql import logical, physical
from sinkql.logical.type import parse_type

_PLAIN: Mapping[str, Any] = {
    "boolean": "boolean", "smallint": "int", "integer": "int", "bigint": "long", "uint2": "int", "uint4": "long",
    "uint8": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 0},
    "real": "float", "double precision": "double", "bytea": "bytes", "text": "string",
    "date": {"type": "int", "logicalType": "date"}, "time": {"type": "long", "logicalType": "time-micros"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros"},
    "uuid": {"type": "string", "logicalType": "uuid"},
    "jsonb": {"type": "string", "connect.name": "io.debezium.data.Json"},
}  # fmt: skip

_NONE: Mapping[str, str] = {}


def derived(columns: Iterable[physical.Column], options: Mapping[str, Any]) -> Any:
    """Return the schema of a record of these columns; with `debezium` of a change, whose rows have one type.

    `options` are those that `avro_sink` planned.
    """
    fullname, docs = options["fullname"], options.get("docs", {})
    making = _Making(options["null_defaults"], {fullname.rpartition(".")[2]})
    types = [(column.name, parse_type(column.type), column.nullable) for column in columns]
    if not options["debezium"]:
        return making.record(fullname, types, docs)
    (_, row, _), _ = types
    own = making.free(["row", "row0"])
    before = making.record(own, [(each.name, each.type, each.nullable) for each in row.fields], docs)
    default = {"default": None} if options["null_defaults"] else {}
    fields = [
        {"name": "before", "type": ["null", before], **default}, {"name": "after", "type": ["null", own], **default}
    ]  # fmt: skip
    return {"type": "record", "name": fullname, "fields": fields}


def _doc(docs: Mapping[str, str], name: str) -> dict[str, str]:
    return {"doc": docs[name]} if name in docs else {}


def avro_names(names: Iterable[str]) -> list[str]:
    """Return what Avro calls columns or fields of these names: each its own."""
    found: list[str] = []
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
        plain = f"_{plain}" if not plain or plain[0].isdigit() else plain
        number, wanted = 0, plain
        while wanted in found:
            number += 1
            wanted = f"{plain}{number}"
        found.append(wanted)
    return found


@dataclass(slots=True)
class _Making:
    """Make one schema; records in it are called `record0` and so on, none by a name that is taken."""

    null_defaults: bool
    taken: set[str]

    def free(self, names: Iterable[str]) -> str:
        """Return the first name that no record has yet, and take it."""
        found = next(each for each in names if each not in self.taken)
        self.taken.add(found)
        return found

    def record(
        self, name: str, members: list[tuple[str, logical.Type, bool]], docs: Mapping[str, str] = _NONE
    ) -> dict[str, Any]:
        """Return a record; `docs` are texts about its members, the empty name that about itself."""
        called = avro_names(member[0] for member in members)
        fields = [
            {**self.field(avro, type_, nullable=nullable), **_doc(docs, own)}
            for avro, (own, type_, nullable) in zip(called, members, strict=True)
        ]
        return {"type": "record", "name": name, **_doc(docs, ""), "fields": fields}

    def field(self, name: str, type_: logical.Type, *, nullable: bool) -> dict[str, Any]:
        if not nullable:
            return {"name": name, "type": self.type(type_)}
        default = {"default": None} if self.null_defaults else {}
        return {"name": name, "type": ["null", self.type(type_)], **default}

    def type(self, type_: logical.Type) -> Any:
        match type_.name:
            case "numeric":
                scale = {"precision": type_.precision, "scale": type_.scale}
                return {"type": "bytes", "logicalType": "decimal", **scale}
            case "array" | "list":
                assert type_.element is not None
                return {"type": "array", "items": ["null", self.type(type_.element)]}
            case "map":
                return {"type": "map", "values": ["null", self.type(type_.value)]}
            case "record":
                name = self.free(map("record{}".format, count()))
                return self.record(name, [(each.name, each.type, each.nullable) for each in type_.fields])
            case name:
                return _PLAIN.get(name, "string")
