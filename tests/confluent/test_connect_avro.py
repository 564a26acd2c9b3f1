"""Debezium's messages in Avro: Kafka Connect's dates and times, arrays, and unchanged values that were not sent."""

from __future__ import annotations

import json
from base64 import b64decode
from datetime import UTC, date, datetime, time
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest

from sinkql import physical
from sinkql.connector_api.stream import DecodedMessages
from sinkql.connectors.confluent.avro.columns import columns_of, rows_of
from sinkql.connectors.confluent.avro.decode import AvroChanges, WriterSchemas
from sinkql.connectors.confluent.avro.resolution import parse
from sinkql.decode.messages import PLACEHOLDER
from sinkql.logical.type import parse_type

_AT = datetime(2026, 1, 2, 3, 4, 5, 678_000)
_MICROS = 1_767_323_045_678_000
_ZONED = "2026-01-02T03:04:05.678Z"


def connect(base: str, name: str) -> dict[str, Any]:
    """Return a type with the name that Kafka Connect's converter gives it."""
    return {"type": base, "connect.version": 1, "connect.name": f"io.debezium.time.{name}"}


_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
_VALUES: list[tuple[Any, Any, str, Any]] = [
    # Avro type, encoded value, column type, decoded value
    (connect("int", "Date"), 20455, "date", date(2026, 1, 2)),
    (connect("int", "Time"), 3_600_001, "time", time(1, 0, 0, 1000)),
    (connect("long", "MicroTime"), 3_600_000_001, "time", time(1, 0, 0, 1)),
    (connect("long", "Timestamp"), _MICROS // 1000, "timestamp", _AT),
    (connect("long", "MicroTimestamp"), _MICROS, "timestamp", _AT),
    (connect("long", "NanoTimestamp"), _MICROS * 1000, "timestamp", _AT),
    (connect("string", "ZonedTimestamp"), _ZONED, "timestamptz", _AT.replace(tzinfo=UTC)),
    ("int", 7, "integer", 7),
    ("boolean", True, "boolean", True),
    ("bytes", b"\0\xff", "bytea", b"\0\xff"),
    (_DECIMAL, b64decode("z8c="), "numeric(9,2)", Decimal("-123.45")),
]


def envelope(type_: Any) -> Any:
    """Return the schema of changes to rows with one value of a type."""
    fields = [{"name": "id", "type": "long"}, {"name": "v", "type": ["null", type_], "default": None}]
    row = {"type": "record", "name": "Value", "fields": fields}
    changed = [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Value"]}]
    return {"type": "record", "name": "Envelope", "fields": [*changed, {"name": "op", "type": "string"}]}


def decoded(type_: Any, values: list[Any], declared: str | None = None) -> DecodedMessages:
    """Decode messages with these values; `declared` replaces the column's inferred type."""
    schema = envelope(type_)
    own = [(each.name, str(each.type), each.nullable) for each in columns_of(rows_of(parse(json.dumps(schema))))]
    columns = tuple(
        physical.Column(name, parse_type(declared if declared and name == "v" else type_), nullable)
        for name, type_, nullable in own
    )
    plain = fastavro.parse_schema(json.loads(json.dumps(schema).replace('"logicalType"', '"said"')))
    messages = []
    for number, value in enumerate(values):
        stream = BytesIO()
        fastavro.schemaless_writer(stream, plain, {"before": None, "after": {"id": number, "v": value}, "op": "c"})
        messages.append(stream.getvalue())
    return AvroChanges(columns, ("id",), WriterSchemas((json.dumps(schema),), False, "data", None)).decode(
        None, messages
    )


@pytest.mark.parametrize(("type_", "written", "sql", "expected"), _VALUES)
def test_values_and_arrays_of_them_are_what_connect_names_them(
    type_: Any, written: Any, sql: str, expected: Any
) -> None:
    found = decoded(type_, [written, None])
    assert (found.failures, found.batch.column("v").to_pylist()) == ({}, [expected, None])
    items = {"type": "array", "items": ["null", type_]}
    for declared in (None, f"{sql}[]"):
        found = decoded(items, [[written, None], None, []], declared)
        assert (found.failures, found.batch.column("v").to_pylist()) == ({}, [[expected, None], None, []])


def test_an_instant_that_is_none_fails_alone() -> None:
    found = decoded(connect("string", "ZonedTimestamp"), [_ZONED, "soon", _ZONED])
    assert list(found.failures) == [1]
    assert "is not a timestamp with its zone" in found.failures[1]


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("string", PLACEHOLDER),
        ("bytes", PLACEHOLDER.encode()),
        ({"type": "array", "items": "string"}, [PLACEHOLDER]),
        ({"type": "array", "items": "string"}, ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]),
        ({"type": "array", "items": "bytes"}, [PLACEHOLDER.encode()]),
        ({"type": "array", "items": "int"}, list(PLACEHOLDER.encode())),
        ({"type": "array", "items": "long"}, list(PLACEHOLDER.encode())),
    ],
)
def test_a_value_that_was_not_sent_fails_its_row(type_: Any, value: Any) -> None:
    near = value[:-1]
    found = decoded(type_, [near, value, None])
    assert found.failures == {1: 'column "v": its value was not sent; the table needs REPLICA IDENTITY FULL'}
    assert found.batch.column("v").to_pylist() == [near, None]
