"""Map the schema of an Avro file to Arrow columns, with the schema that its blocks are decoded with.

Blocks are decoded without logical types, and texts as bytes. A date outside the calendar, or a byte that is not UTF-8,
then makes an invalid row, and not an invalid file. A union of several types, and a record within itself, have no Arrow
type: their column is JSON, decoded with the whole Avro schema.

`nodes` and `check` refuse values of recursive schemas that are nested too deeply: fastavro follows values on a stack of
limited depth, and lists as long as they claim to be.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Literal

import pyarrow as pa

from sinkql.decode.arrow_values import json_text

Schema = Any  # JSON: a name, a list of branches, or an object

_PLAIN: Mapping[str, pa.DataType] = {
    "null": pa.string(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(),
}  # fmt: skip
_LOGICAL: Mapping[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(), ("int", "time-millis"): pa.time32("ms"), ("long", "time-micros"): pa.time64("us"),
    **{("long", f"timestamp-{name}"): pa.timestamp(unit, "UTC")
       for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))},
    **{("long", f"local-timestamp-{name}"): pa.timestamp(unit)
       for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))},
}  # fmt: skip
ZONED = "timestamp-zoned"
"""The name used here for texts that are instants in ISO 8601; Avro has no name for them."""
_NAMED = ("record", "error", "enum", "fixed")
_DIGITS = decimal.Context(prec=400)
_WIDEST = 76


class NotTypedError(Exception):
    """Values of a schema have no Arrow type."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its type, and how its values become an array.

    `schema` decodes the values. `convert` converts them for an array of type `held`, which is then viewed as type
    `shown`: texts are held as bytes, so that invalid UTF-8 is found later, row by row.
    """

    type: pa.DataType
    schema: Schema
    held: pa.DataType
    shown: pa.DataType
    convert: Callable[[Any], Any] | None = None

    def array(self, values: list[Any]) -> pa.Array:
        """Return an array of the values."""
        if self.convert is not None:
            values = [None if value is None else self.convert(value) for value in values]
        array = pa.array(values, self.held)
        return array if self.held == self.shown else array.view(self.shown)


def columns_of(schema: Schema) -> dict[str, Column]:
    """Return the columns of a file, whose schema fastavro has parsed; raise ValueError."""
    if not isinstance(schema, dict) or schema.get("type") not in ("record", "error"):
        kind = schema.get("type") if isinstance(schema, dict) else "union" if isinstance(schema, list) else schema
        raise ValueError(f"its values are not records: their type is {kind}")
    names = {named["name"]: named for named in _named_types(schema)}
    return {field["name"]: _column(field["type"], names, number) for number, field in enumerate(schema["fields"])}


def column_of_schema(schema: Schema, names: Mapping[str, Any]) -> Column:
    """Return the column of values of a schema that fastavro has parsed with `names`."""
    return _column(schema, names, 0)


def read_schema(columns: Mapping[str, Column]) -> Schema:
    """Return the schema that decodes a file's blocks."""
    fields = [{"name": name, "type": column.schema} for name, column in columns.items()]
    return {"type": "record", "name": "row", "fields": fields}


def _named_types(schema: Schema) -> Iterator[dict[str, Any]]:
    """Yield the named types that a schema defines."""
    if isinstance(schema, list):
        for branch in schema:
            yield from _named_types(branch)
    elif isinstance(schema, dict):
        if schema["type"] in _NAMED:
            yield schema
        for inner in (
            schema.get("items"),
            schema.get("values"),
            *(field["type"] for field in schema.get("fields", ())),
        ):
            if inner is not None:
                yield from _named_types(inner)
        if isinstance(schema["type"], dict | list):
            yield from _named_types(schema["type"])


def _column(schema: Schema, names: Mapping[str, Any], number: int) -> Column:
    try:
        return _TypedColumns(names, f"t{number}_").column(schema)
    except NotTypedError:
        whole = _SchemaCopy(names, f"w{number}_").schema(schema)
        return Column(pa.json_(pa.string()), whole, pa.string(), pa.string(), _json)


def _json(value: Any) -> str:
    try:
        return json_text(value)
    except RecursionError:
        return "nested too deeply"
    except ValueError:
        return str(value)  # as the result is not JSON, the row is invalid


class _TypedColumns:
    """Make columns of schemas. A named type is renamed wherever it stands, so that none is defined twice."""

    def __init__(self, names: Mapping[str, Any], prefix: str) -> None:
        self._names, self._prefix = names, prefix
        self._enclosing: list[str] = []
        self._count = 0

    def column(self, schema: Schema) -> Column:
        """Return the column of a schema; raise NotTypedError."""
        match schema:
            case list():
                return self._union(schema)
            case str() if schema in self._names:
                return self._named_column(self._names[schema])
            case str():
                type_ = _PLAIN[schema]
                return _text_column(type_, "bytes") if schema == "string" else Column(type_, schema, type_, type_)
            case {"type": "record" | "error" | "enum" | "fixed"}:
                return self._named_column(schema)
            case {"type": "array", "items": items}:
                return _list(self.column(items))
            case {"type": "map", "values": values}:
                return _map(self.column(values))
            case {"type": inner}:
                return _logical(schema, self.column(inner))
        raise NotTypedError

    def _union(self, branches: list[Schema]) -> Column:
        some = [branch for branch in branches if branch != "null"]
        if len(some) > 1:
            raise NotTypedError
        column = self.column(some[0] if some else "null")
        schema = [column.schema if branch != "null" else branch for branch in branches] if some else "null"
        return Column(column.type, schema, column.held, column.shown, column.convert)

    def _named_column(self, schema: dict[str, Any]) -> Column:
        original_name = schema["name"]
        if original_name in self._enclosing:
            raise NotTypedError
        self._count += 1
        name = f"{self._prefix}{self._count}"
        if schema["type"] == "enum":
            new_schema = {"type": "enum", "name": name, "symbols": schema["symbols"]}
            return Column(pa.string(), new_schema, pa.string(), pa.string())
        if schema["type"] == "fixed":
            type_, new_schema = pa.binary(schema["size"]), {"type": "fixed", "name": name, "size": schema["size"]}
            return _logical(schema, Column(type_, new_schema, type_, type_))
        self._enclosing.append(original_name)
        fields = {field["name"]: self.column(field["type"]) for field in schema["fields"]}
        self._enclosing.pop()
        return _struct(name, fields)


class _SchemaCopy:
    """Copy a schema with everything that it refers to, under new names."""

    def __init__(self, names: Mapping[str, Any], prefix: str) -> None:
        self._names, self._prefix = names, prefix
        self._copied_names: dict[str, str] = {}

    def schema(self, schema: Schema) -> Schema:
        """Return the copy."""
        if isinstance(schema, list):
            return [self.schema(branch) for branch in schema]
        if isinstance(schema, str):
            return self.schema(self._names[schema]) if schema in self._names else schema
        if schema["type"] not in _NAMED:
            return {key: self.schema(value) if key in ("type", "items", "values") else value
                    for key, value in schema.items()}  # fmt: skip
        if schema["name"] in self._copied_names:
            return self._copied_names[schema["name"]]
        name = self._copied_names[schema["name"]] = f"{self._prefix}{len(self._copied_names)}"
        copy = {key: value for key, value in schema.items() if key not in ("aliases", "default", "namespace", "fields")}
        if "fields" in schema:
            fields = [{"name": field["name"], "type": self.schema(field["type"])} for field in schema["fields"]]
            copy["fields"] = fields
        return {**copy, "name": name}


def _text_column(type_: pa.DataType, schema: Schema) -> Column:
    return Column(type_, schema, pa.binary(), pa.string())


def _logical(schema: dict[str, Any], column: Column) -> Column:
    """Return the column of a logical type; the underlying column if the type is unknown or invalid."""
    name, base = schema.get("logicalType"), schema["type"]
    if name == "uuid" and base == "string":
        return _text_column(pa.uuid(), column.schema)
    if name == ZONED and base == "string":
        return _text_column(pa.timestamp("us", "UTC"), column.schema)
    if name == "uuid" and base == "fixed" and schema["size"] == 16:
        return Column(pa.uuid(), column.schema, column.held, column.shown)
    if name == "decimal" and base in ("bytes", "fixed"):
        digits, scale = schema.get("precision"), schema.get("scale", 0)
        if isinstance(digits, int) and isinstance(scale, int) and 0 <= scale <= digits and 0 < digits <= _WIDEST:
            type_ = pa.decimal256(_WIDEST, scale)  # values may exceed the precision of the schema
            declared = pa.decimal128(digits, scale) if digits <= 38 else type_
            return Column(declared, column.schema, type_, type_, lambda value: _decimal(value, scale))
    arrow_type = _LOGICAL.get((base, name)) if isinstance(base, str) and isinstance(name, str) else None
    return column if arrow_type is None else Column(arrow_type, column.schema, arrow_type, arrow_type)


def _decimal(value: bytes, scale: int) -> decimal.Decimal:
    return decimal.Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, _DIGITS)


def _list(item: Column) -> Column:
    convert = item.convert
    return Column(
        pa.list_(item.type), {"type": "array", "items": item.schema}, pa.list_(item.held), pa.list_(item.shown),
        None if convert is None else lambda values: [None if value is None else convert(value) for value in values],
    )  # fmt: skip


def _map(item: Column) -> Column:
    convert = item.convert or (lambda value: value)
    kind, held, shown = (pa.map_(pa.string(), type_) for type_ in (item.type, item.held, item.shown))
    return Column(
        kind, {"type": "map", "values": item.schema}, held, shown,
        lambda values: [(key, None if value is None else convert(value)) for key, value in values.items()],
    )  # fmt: skip


def _struct(name: str, fields: Mapping[str, Column]) -> Column:
    kind = pa.struct([(field, column.type) for field, column in fields.items()])
    held = pa.struct([(field, column.held) for field, column in fields.items()])
    shown = pa.struct([(field, column.shown) for field, column in fields.items()])
    converts = {field: column.convert for field, column in fields.items() if column.convert is not None}

    def convert(value: dict[str, Any]) -> dict[str, Any]:
        return {**value, **{field: to(value[field]) for field, to in converts.items() if value[field] is not None}}

    inner = [{"name": field, "type": column.schema} for field, column in fields.items()]
    return Column(kind, {"type": "record", "name": name, "fields": inner}, held, shown, convert if converts else None)


_DEEPEST = 8000
"""The most records, unions, lists and maps within each other; each element of a linked list counts as two."""
_FEW = 1 << 16
"""The number of list values that a block may always have: some values have no bytes."""
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}


@dataclass(slots=True, eq=False)
class Node:
    """The structure of values: one of the parts, each of them, any number of them, or bytes.

    Bytes have a fixed `size`, the size of a number, or a size that a number before them gives.
    """

    kind: Literal["one", "each", "many", "bytes", "number", "text"]
    parts: Sequence[Node] = ()
    size: int = 0


def nodes(schema: Any) -> Node | None:  # JSON
    """Return the structure of values; None if they cannot be deeper than the schema, nor many in no bytes."""
    builder = _NodeBuilder()
    node = builder.of(schema)
    return node if builder.doubtful else None


def check(node: Node, data: bytes, count: int) -> None:
    """Walk over `count` values; raise ValueError if one is nested too deeply or incomplete."""
    cursor = _Cursor(data)
    waiting: list[Iterator[Node]] = [repeat(node, count)]
    while waiting:
        now = next(waiting[-1], None)
        if now is None:
            waiting.pop()
        elif now.kind == "bytes":
            cursor.skip(now.size)
        elif now.kind == "number":
            cursor.number()
        elif now.kind == "text":
            cursor.skip(cursor.number())
        else:
            waiting.append(cursor.parts(now))
        if len(waiting) > _DEEPEST:
            raise ValueError("a record in it is nested too deeply")


class _Cursor:
    """A position in bytes that advances over values."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at, self._values = data, 0, 0

    def parts(self, node: Node) -> Iterator[Node]:
        if node.kind == "each":
            yield from node.parts
        elif node.kind == "one":
            branch = self.number()
            if not 0 <= branch < len(node.parts):
                raise ValueError("a value in it is of no type of its union")
            yield node.parts[branch]
        else:
            while count := self.number():
                if count < 0:
                    self.number()  # the size of the block
                self._values += abs(count)
                if self._values > max(len(self._data), _FEW):
                    raise ValueError("its lists claim more values than it has bytes")
                for _ in range(abs(count)):
                    yield from node.parts

    def skip(self, size: int) -> None:
        self._at += size
        if size < 0 or self._at > len(self._data):
            raise ValueError("its data is cut off")

    def number(self) -> int:
        number = shift = 0
        while self._at < len(self._data) and shift < 64:
            byte = self._data[self._at]
            number |= (byte & 0x7F) << shift
            self._at += 1
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
            shift += 7
        raise ValueError("its data is cut off")


class _NodeBuilder:
    """Make nodes of schemas. A recursive type is doubtful, and so is a list whose elements have no bytes."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._enclosing: list[str] = []
        self.doubtful = False

    def of(self, schema: Any) -> Node:
        match schema:
            case list():
                return Node("one", [self.of(branch) for branch in schema])
            case "int" | "long":
                return Node("number")
            case "bytes" | "string":
                return Node("text")
            case str() if schema in _SIZES:
                return Node("bytes", size=_SIZES[schema])
            case str():
                self.doubtful = self.doubtful or schema in self._enclosing
                return self._nodes[schema]
            case {"type": "record" | "error", "name": name, "fields": fields}:
                parts: list[Node] = []
                node = self._nodes[name] = Node("each", parts)
                self._enclosing.append(name)
                parts += [self.of(field["type"]) for field in fields]
                self._enclosing.pop()
                return node
            case {"type": "enum", "name": name}:
                return self._nodes.setdefault(name, Node("number"))
            case {"type": "fixed", "name": name, "size": size}:
                return self._nodes.setdefault(name, Node("bytes", size=size))
            case {"type": "array", "items": items}:
                item = self.of(items)
                self.doubtful = self.doubtful or _is_empty(item)
                return Node("many", [item])
            case {"type": "map", "values": values}:
                return Node("many", [Node("text"), self.of(values)])
            case {"type": inner}:
                return self.of(inner)
        raise ValueError(f"its schema has {schema}")


def _is_empty(node: Node) -> bool:
    """Return whether values have no bytes; a node that is not finished yet may be either."""
    return (node.kind == "bytes" and node.size == 0) or (node.kind == "each" and all(map(_is_empty, node.parts)))
