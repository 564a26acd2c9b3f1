"""Batches of Avro messages decode to fastavro's rows, for generated schemas and values and for damaged messages."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinkql import physical
from sinkql.connector_api.types import arrow_type
from sinkql.connectors.confluent.avro.columns import columns_of
from sinkql.connectors.confluent.avro.decode import AvroMessages, WriterSchemas
from sinkql.connectors.confluent.avro.resolution import parse
from sinkql.decode import avro_schema
from sinkql.decode.arrow_values import column_of
from sinkql.logical.type import INTEGER, INTERVAL
from support.examples import examples

Schema = Any
HEAD = b"\0\0\0\0\1"
_STRICTER = ("more than 32 bits", "neither true nor false", "more than 64 bits", "continues after", "negative length",
             "invalid symbol", "invalid branch of a union")  # fmt: skip
"""Errors of the decoder for messages that fastavro accepts."""


def columns(schema: Schema) -> tuple[physical.Column, ...]:
    """Return the physical columns of a schema."""
    found = columns_of(parse(json.dumps(schema)))
    return tuple(physical.Column(each.name, each.type, each.nullable) for each in found)


def decoder(schema: Schema, declared: tuple[physical.Column, ...] | None = None) -> AvroMessages:
    """Return a decoder for messages of one schema."""
    writers = WriterSchemas((json.dumps(schema),), wire=True, name="data", registry=None)
    return AvroMessages(columns(schema) if declared is None else declared, writers)


def plain(schema: Schema) -> Schema:
    """Return a schema without logical types, so that fastavro writes plain numbers and bytes."""
    if isinstance(schema, dict):
        return {key: plain(each) for key, each in schema.items() if key != "logicalType"}
    return [plain(each) for each in schema] if isinstance(schema, list) else schema


def written(schema: Schema, rows: list[dict[str, Any]]) -> list[bytes]:
    """Encode rows as messages."""
    parsed, found = fastavro.parse_schema(plain(schema)), []
    for row in rows:
        stream = BytesIO()
        fastavro.schemaless_writer(stream, parsed, row)
        found.append(HEAD + stream.getvalue())
    return found


def by_fastavro(schema: Schema, message: bytes) -> dict[str, Any] | str:
    """Decode a message with fastavro; return an array of one value for each column, or the error."""
    held = avro_schema.columns_of(fastavro.parse_schema(json.loads(json.dumps(schema))))
    read = fastavro.parse_schema(avro_schema.read_schema(held))
    stream = BytesIO(message[len(HEAD) :])
    try:
        row: Any = fastavro.schemaless_reader(stream, read, None)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if stream.read():
        return "it continues after its end"
    found = {}
    for column in columns(schema):
        failures: dict[int, str] = {}
        array = column_of(held[column.name].array([row[column.name]]), column.type, failures)
        if failures:
            return failures[0]
        found[column.name] = array
    return found


_SCALARS = st.sampled_from([
    "boolean", "int", "long", "float", "double", "string", "bytes",
    {"type": "int", "logicalType": "date"}, {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"}, {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"}, {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-millis"}, {"type": "long", "logicalType": "timestamp-nanos"},
    {"type": "string", "logicalType": "uuid"}, {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 9},
    {"type": "bytes", "logicalType": "decimal", "precision": 5}, {"type": "long", "logicalType": "unheard-of"},
    {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2},
])  # fmt: skip


@st.composite
def types(draw: st.DrawFn, depth: int = 2) -> Schema:
    """Draw a type with empty names; `named` fills them in."""
    kinds = ["scalar", "scalar", "optional", "enum", "fixed", "uuid", "decimal"]
    kind = draw(st.sampled_from([*kinds, "record", "array", "map", "union"] if depth else kinds))
    match kind:
        case "optional":
            inner = draw(types(depth - 1) if depth else _SCALARS)
            inner = "long" if isinstance(inner, list) else inner
            return draw(st.permutations(["null", inner]))
        case "enum":
            return {"type": "enum", "name": "", "symbols": ["A", "B", "C"]}
        case "fixed":
            return {"type": "fixed", "name": "", "size": draw(st.sampled_from([1, 5]))}
        case "uuid":
            return {"type": "fixed", "name": "", "size": 16, "logicalType": "uuid"}
        case "decimal":
            size = draw(st.sampled_from([4, 16]))
            return {"type": "fixed", "name": "", "size": size, "logicalType": "decimal", "precision": 7, "scale": 2}
        case "record":
            inner = draw(st.lists(types(depth - 1), min_size=1, max_size=3))
            fields = [{"name": f"g{place}", "type": each} for place, each in enumerate(inner)]
            return {"type": "record", "name": "", "fields": fields}
        case "array":
            return {"type": "array", "items": draw(types(depth - 1))}
        case "map":
            return {"type": "map", "values": draw(types(depth - 1))}
        case "union":
            return ["null", "long", "string"]
    return draw(_SCALARS)


def named(schema: Schema, numbers: list[int]) -> Schema:
    """Return a schema in which each named type has a unique name."""
    if isinstance(schema, list):
        return [named(each, numbers) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: named(each, numbers) if key != "symbols" else each for key, each in schema.items()}
    if found.get("name") == "":
        numbers.append(0)
        found["name"] = f"n{len(numbers)}"
    return found


def value(draw: st.DrawFn, schema: Schema) -> Any:
    """Draw a value; most of its dates and times are valid."""
    if isinstance(schema, list):
        return value(draw, draw(st.sampled_from(schema)))
    kind, logical = (schema, None) if isinstance(schema, str) else (schema["type"], schema.get("logicalType"))
    match kind:
        case "null":
            return None
        case "boolean":
            return draw(st.booleans())
        case "int" | "long":
            if logical is None or draw(st.integers(0, 9)) == 0:
                most = 2 ** (31 if kind == "int" else 63)
                return draw(st.integers(-most, most - 1))
            return draw(st.integers(0, 80_000 if kind == "int" else 80_000_000_000))
        case "float" | "double":
            return draw(st.floats(width=32, allow_nan=False))
        case "string":
            if logical == "uuid" and draw(st.integers(0, 5)):
                return str(draw(st.uuids()))
            return draw(st.text(max_size=5))
        case "bytes":
            return draw(st.binary(max_size=16 if logical and draw(st.booleans()) else 3))
        case "fixed":
            return draw(st.binary(min_size=schema["size"], max_size=schema["size"]))
        case "enum":
            return draw(st.sampled_from(schema["symbols"]))
        case "array":
            return [value(draw, schema["items"]) for _ in range(draw(st.integers(0, 2)))]
        case "map":
            return {draw(st.sampled_from("abc")): value(draw, schema["values"]) for _ in range(draw(st.integers(0, 2)))}
    return {each["name"]: value(draw, each["type"]) for each in schema["fields"]}


@st.composite
def topics(draw: st.DrawFn) -> tuple[Schema, list[bytes]]:
    """Draw a schema and messages of it."""
    drawn = draw(st.lists(types(), min_size=1, max_size=4))
    fields = [{"name": f"f{place}", "type": each} for place, each in enumerate(drawn)]
    schema = named({"type": "record", "name": "row", "fields": fields}, [])
    rows = [value(draw, schema) for _ in range(draw(st.integers(1, 5)))]
    return schema, written(schema, rows)


@st.composite
def damage(draw: st.DrawFn) -> tuple[Schema, list[bytes]]:
    """Draw messages and damage one: cut it off, extend it, or change a byte."""
    schema, messages = draw(topics())
    place = draw(st.integers(0, len(messages) - 1))
    broken = bytearray(messages[place])
    if len(broken) > len(HEAD):
        at = draw(st.integers(len(HEAD), len(broken) - 1))
        match draw(st.sampled_from(["cut", "more", "other"])):
            case "cut":
                del broken[at:]
            case "more":
                broken += draw(st.binary(min_size=1, max_size=3))
            case _:
                broken[at] = draw(st.integers(0, 255))
    messages[place] = bytes(broken)
    return schema, messages


def compare(schema: Schema, messages: list[bytes]) -> None:
    """Compare the decoded rows of messages with fastavro's, one by one."""
    found = decoder(schema).decode(messages)
    assert found.batch.num_rows == len(messages)
    for place, message in enumerate(messages):
        expected = by_fastavro(schema, message)
        why = found.failures.get(place)
        if isinstance(expected, str) or why is not None:
            assert why is not None, (schema, message, expected)
            assert isinstance(expected, str) or any(each in why for each in _STRICTER), (schema, message, why)
            continue
        for name, array in expected.items():
            own = found.batch.column(name).slice(place, 1)
            assert own.equals(array), (schema, message, name, own, array)
            assert own.type == array.type


@examples(50, 150)
@given(topics())
def test_messages_are_what_fastavro_reads(topic: tuple[Schema, list[bytes]]) -> None:
    compare(*topic)


@examples(50, 150)
@given(damage())
def test_a_damaged_message_fails_alone(topic: tuple[Schema, list[bytes]]) -> None:
    compare(*topic)


@pytest.mark.parametrize("number", [10**38 - 1, 10**38, -(10**38) + 1, -(10**38), 2**127 - 1, -(2**127)])
def test_decimals_have_38_digits(number: int) -> None:
    value = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 9}
    schema: Schema = {"type": "record", "name": "row", "fields": [{"name": "f0", "type": value}]}
    compare(schema, [b"\0\0\0\0\1\x20" + number.to_bytes(16, "big", signed=True), b"\0\0\0\0\1\2\7"])


def test_columns_have_the_types_of_arrow() -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}
    found = decoder(schema).decode(written(schema, [{"a": 7}]))
    assert found.batch.schema == pa.schema([("a", arrow_type(INTEGER))])
    assert decoder(schema).decode([]).batch.num_rows == 0


def test_decimals_have_all_digits() -> None:
    most = 10**38 - 1
    numbers = [most, -most, 2**64, -(2**64), 2**63, -(2**63) - 1, 0, -1, 255, 256, -256, 2**119, -(2**120)]
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": decimal}]}
    rows = [{"a": each.to_bytes(each.bit_length() // 8 + 1, "big", signed=True)} for each in numbers]
    found = decoder(schema).decode(written(schema, rows))
    assert not found.failures
    assert [int(str(each).replace(".", "")) for each in found.batch.column(0).to_pylist()] == numbers


def test_durations_are_intervals() -> None:
    duration = {"type": "fixed", "name": "d", "size": 12, "logicalType": "duration"}
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", duration]}]}
    parts = [(0, 0, 0), (14, 3, 61_500), (2**32 - 1, 0, 0)]
    rows = [{"a": b"".join(each.to_bytes(4, "little") for each in part)} for part in parts]
    found = decoder(schema).decode(written(schema, [*rows, {"a": None}]))
    assert [each.type for each in columns(schema)] == [INTERVAL]
    assert list(found.failures) == [2]
    assert found.batch.column(0).to_pylist() == ["00:00:00", "1 year 2 mons 3 days 00:01:01.5", None, None]
