"""The schema of an Avro file → its columns in Arrow's types, and the schema that its blocks are decoded by.

Blocks are decoded without logical types, and texts as bytes: a date that no calendar has, or a byte that is not UTF-8,
makes an invalid row then, and not an invalid file. A union of several types, and a record in itself, have no type in
Arrow: the column with one is JSON, decoded with all that Avro says of it.

The bytes of values of a schema that refers to itself → an error where they are nested too deeply to be decoded.

fastavro follows values as deep as they go, on a stack that ends somewhere, and lists as long as they say.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Literal

import pyarrow as pa

from sinkql.decode.arrow_values import json_text

Schema = Any  # as JSON has it: a name, a list of branches, or an object

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
"""What texts are called that are instants in ISO 8601, for which Avro has no name."""
_NAMED = ("record", "error", "enum", "fixed")
_DIGITS = decimal.Context(prec=400)
_WIDEST = 76


class NotTypedError(Exception):
    """Say that values of a schema have no type in Arrow."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: the type it is told to have, and how its values become an array.

    `schema` is what it is decoded by. Values are put through `convert`, into an array of type `held`, which is seen as
    one of type `shown`: the same with texts, whose bytes nobody has looked at.
    """

    told: pa.DataType
    schema: Schema
    held: pa.DataType
    shown: pa.DataType
    convert: Callable[[Any], Any] | None = None

    def array(self, values: list[Any]) -> pa.Array:
        """Return an array of the values."""
        if self.convert is not None:
            values = [None if value is None else self.convert(value) for value in values]
        found = pa.array(values, self.held)
        return found if self.held == self.shown else found.view(self.shown)


def columns_of(schema: Schema) -> dict[str, Column]:
    """Return the columns of a file, whose schema is one that fastavro has parsed; raises ValueError."""
    if not isinstance(schema, dict) or schema.get("type") not in ("record", "error"):
        kind = schema.get("type") if isinstance(schema, dict) else "union" if isinstance(schema, list) else schema
        raise ValueError(f"its values are not records: their type is {kind}")
    names = {each["name"]: each for each in _named(schema)}
    return {field["name"]: _column(field["type"], names, place) for place, field in enumerate(schema["fields"])}


def column_of_schema(schema: Schema, names: Mapping[str, Any]) -> Column:
    """Return the column of values of a schema, of which fastavro has made one with `names`."""
    return _column(schema, names, 0)


def read_schema(columns: Mapping[str, Column]) -> Schema:
    """Return the schema that a file's blocks are decoded by."""
    fields = [{"name": name, "type": column.schema} for name, column in columns.items()]
    return {"type": "record", "name": "row", "fields": fields}


def _named(schema: Schema) -> Iterator[dict[str, Any]]:
    """Yield what a schema defines by name."""
    if isinstance(schema, list):
        for branch in schema:
            yield from _named(branch)
    elif isinstance(schema, dict):
        if schema["type"] in _NAMED:
            yield schema
        for inner in (schema.get("items"), schema.get("values"), *(each["type"] for each in schema.get("fields", ()))):
            if inner is not None:
                yield from _named(inner)
        if isinstance(schema["type"], dict | list):
            yield from _named(schema["type"])


def _column(schema: Schema, names: Mapping[str, Any], place: int) -> Column:
    try:
        return _Typed(names, f"t{place}_").column(schema)
    except NotTypedError:
        whole = _Whole(names, f"w{place}_").schema(schema)
        return Column(pa.json_(pa.string()), whole, pa.string(), pa.string(), _json)


def _json(value: Any) -> str:
    try:
        return json_text(value)
    except RecursionError:
        return "what is nested too deeply"
    except ValueError:
        return str(value)  # neither is JSON: an invalid row says so


class _Typed:
    """Make columns of schemas; each name gets another one wherever it stands, so that none is defined twice."""

    def __init__(self, names: Mapping[str, Any], prefix: str) -> None:
        self._names, self._prefix = names, prefix
        self._within: list[str] = []
        self._made = 0

    def column(self, schema: Schema) -> Column:
        """Return the column of a schema; raises NotTypedError."""
        match schema:
            case list():
                return self._union(schema)
            case str() if schema in self._names:
                return self._of_name(self._names[schema])
            case str():
                type_ = _PLAIN[schema]
                return _of_texts(type_, "bytes") if schema == "string" else Column(type_, schema, type_, type_)
            case {"type": "record" | "error" | "enum" | "fixed"}:
                return self._of_name(schema)
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
        found = self.column(some[0] if some else "null")
        schema = [found.schema if branch != "null" else branch for branch in branches] if some else "null"
        return Column(found.told, schema, found.held, found.shown, found.convert)

    def _of_name(self, schema: dict[str, Any]) -> Column:
        own = schema["name"]
        if own in self._within:
            raise NotTypedError
        self._made += 1
        name = f"{self._prefix}{self._made}"
        if schema["type"] == "enum":
            made = {"type": "enum", "name": name, "symbols": schema["symbols"]}
            return Column(pa.string(), made, pa.string(), pa.string())
        if schema["type"] == "fixed":
            type_, made = pa.binary(schema["size"]), {"type": "fixed", "name": name, "size": schema["size"]}
            return _logical(schema, Column(type_, made, type_, type_))
        self._within.append(own)
        fields = {each["name"]: self.column(each["type"]) for each in schema["fields"]}
        self._within.pop()
        return _struct(name, fields)


class _Whole:
    """Copy a schema with all that it says and refers to, under names of its own."""

    def __init__(self, names: Mapping[str, Any], prefix: str) -> None:
        self._names, self._prefix = names, prefix
        self._known: dict[str, str] = {}

    def schema(self, schema: Schema) -> Schema:
        """Return the copy."""
        if isinstance(schema, list):
            return [self.schema(branch) for branch in schema]
        if isinstance(schema, str):
            return self.schema(self._names[schema]) if schema in self._names else schema
        if schema["type"] not in _NAMED:
            return {key: self.schema(each) if key in ("type", "items", "values") else each
                    for key, each in schema.items()}  # fmt: skip
        if schema["name"] in self._known:
            return self._known[schema["name"]]
        name = self._known[schema["name"]] = f"{self._prefix}{len(self._known)}"
        made = {key: each for key, each in schema.items() if key not in ("aliases", "default", "namespace", "fields")}
        if "fields" in schema:
            fields = [{"name": each["name"], "type": self.schema(each["type"])} for each in schema["fields"]]
            made["fields"] = fields
        return {**made, "name": name}


def _of_texts(told: pa.DataType, schema: Schema) -> Column:
    return Column(told, schema, pa.binary(), pa.string())


def _logical(schema: dict[str, Any], found: Column) -> Column:
    """Return the column of a logical type; of one that is unknown or not valid, that of what it is made of."""
    name, base = schema.get("logicalType"), schema["type"]
    if name == "uuid" and base == "string":
        return _of_texts(pa.uuid(), found.schema)
    if name == ZONED and base == "string":
        return _of_texts(pa.timestamp("us", "UTC"), found.schema)
    if name == "uuid" and base == "fixed" and schema["size"] == 16:
        return Column(pa.uuid(), found.schema, found.held, found.shown)
    if name == "decimal" and base in ("bytes", "fixed"):
        digits, scale = schema.get("precision"), schema.get("scale", 0)
        if isinstance(digits, int) and isinstance(scale, int) and 0 <= scale <= digits and 0 < digits <= _WIDEST:
            type_ = pa.decimal256(_WIDEST, scale)  # with room for what is not of the precision that the schema tells
            told = pa.decimal128(digits, scale) if digits <= 38 else type_
            return Column(told, found.schema, type_, type_, lambda value: _decimal(value, scale))
    made = _LOGICAL.get((base, name)) if isinstance(base, str) and isinstance(name, str) else None
    return found if made is None else Column(made, found.schema, made, made)


def _decimal(value: bytes, scale: int) -> decimal.Decimal:
    return decimal.Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, _DIGITS)


def _list(item: Column) -> Column:
    convert = item.convert
    return Column(
        pa.list_(item.told), {"type": "array", "items": item.schema}, pa.list_(item.held), pa.list_(item.shown),
        None if convert is None else lambda values: [None if each is None else convert(each) for each in values],
    )  # fmt: skip


def _map(item: Column) -> Column:
    convert = item.convert or (lambda value: value)
    told, held, shown = (pa.map_(pa.string(), each) for each in (item.told, item.held, item.shown))
    return Column(
        told, {"type": "map", "values": item.schema}, held, shown,
        lambda values: [(key, None if each is None else convert(each)) for key, each in values.items()],
    )  # fmt: skip


def _struct(name: str, fields: Mapping[str, Column]) -> Column:
    told = pa.struct([(each, column.told) for each, column in fields.items()])
    held = pa.struct([(each, column.held) for each, column in fields.items()])
    shown = pa.struct([(each, column.shown) for each, column in fields.items()])
    converts = {each: column.convert for each, column in fields.items() if column.convert is not None}

    def convert(value: dict[str, Any]) -> dict[str, Any]:
        return {**value, **{each: to(value[each]) for each, to in converts.items() if value[each] is not None}}

    inner = [{"name": each, "type": column.schema} for each, column in fields.items()]
    return Column(told, {"type": "record", "name": name, "fields": inner}, held, shown, convert if converts else None)


_DEEPEST = 8000
"""How many records, unions, lists and maps may be within each other; of a linked list, each element is two."""
_FEW = 1 << 16
"""How many values of lists may be in a block of fewer bytes: some have none."""
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}


@dataclass(slots=True, eq=False)
class Node:
    """What values of a schema are made of: one of the parts, each of them, any number of them, or bytes.

    Bytes are `size` ones, those of a number, or as many as a number before them says.
    """

    kind: Literal["one", "each", "many", "bytes", "number", "text"]
    parts: Sequence[Node] = ()
    size: int = 0


def nodes(schema: Any) -> Node | None:  # as JSON has it
    """Return what values are made of; None where they cannot be deeper than the schema, nor many in no bytes."""
    made = _Made()
    node = made.of(schema)
    return node if made.doubtful else None


def check(node: Node, data: bytes, count: int) -> None:
    """Go over so many values; raises ValueError where one is nested too deeply, or is not whole."""
    place = _Place(data)
    waiting: list[Iterator[Node]] = [repeat(node, count)]
    while waiting:
        now = next(waiting[-1], None)
        if now is None:
            waiting.pop()
        elif now.kind == "bytes":
            place.skip(now.size)
        elif now.kind == "number":
            place.number()
        elif now.kind == "text":
            place.skip(place.number())
        else:
            waiting.append(place.parts(now))
        if len(waiting) > _DEEPEST:
            raise ValueError("a record in it is nested too deeply")


class _Place:
    """A place in bytes, which moves on as they are gone over."""

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
                    self.number()  # of its bytes
                self._values += abs(count)
                if self._values > max(len(self._data), _FEW):
                    raise ValueError("its lists say that they have more values than it has bytes")
                for _ in range(abs(count)):
                    yield from node.parts

    def skip(self, size: int) -> None:
        self._at += size
        if size < 0 or self._at > len(self._data):
            raise ValueError("its data is cut off")

    def number(self) -> int:
        found = shift = 0
        while self._at < len(self._data) and shift < 64:
            byte = self._data[self._at]
            found |= (byte & 0x7F) << shift
            self._at += 1
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)
            shift += 7
        raise ValueError("its data is cut off")


class _Made:
    """Make nodes of schemas. One that is referred to within itself is doubtful, and a list of what has no bytes."""

    def __init__(self) -> None:
        self._named: dict[str, Node] = {}
        self._within: list[str] = []
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
                self.doubtful = self.doubtful or schema in self._within
                return self._named[schema]
            case {"type": "record" | "error", "name": name, "fields": fields}:
                parts: list[Node] = []
                node = self._named[name] = Node("each", parts)
                self._within.append(name)
                parts += [self.of(field["type"]) for field in fields]
                self._within.pop()
                return node
            case {"type": "enum", "name": name}:
                return self._named.setdefault(name, Node("number"))
            case {"type": "fixed", "name": name, "size": size}:
                return self._named.setdefault(name, Node("bytes", size=size))
            case {"type": "array", "items": items}:
                item = self.of(items)
                self.doubtful = self.doubtful or _empty(item)
                return Node("many", [item])
            case {"type": "map", "values": values}:
                return Node("many", [Node("text"), self.of(values)])
            case {"type": inner}:
                return self.of(inner)
        raise ValueError(f"its schema has {schema}")


def _empty(node: Node) -> bool:
    """Tell whether values have no bytes; one that is still being made is doubtful as it is."""
    return (node.kind == "bytes" and node.size == 0) or (node.kind == "each" and all(map(_empty, node.parts)))
