"""Avro messages in one topic with other schemas than the planned one, read through a stub of a registry."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import uuid4

import fastavro
import pyarrow as pa
import pytest

from confluent.test_avro import plain
from sinkql import physical
from sinkql.connectors.confluent.avro.columns import columns_of, rows_of
from sinkql.connectors.confluent.avro.decode import AvroChanges, AvroMessages, WriterSchemas
from sinkql.connectors.confluent.avro.resolution import parse
from support.registry import StubRegistry, stub_registry

Schema = Any


@pytest.fixture
def registry() -> Iterator[StubRegistry]:
    """Yield a stub of a registry."""
    with stub_registry() as stub:
        yield stub


def record(*fields: tuple[str, Any] | dict[str, Any], name: str = "row") -> Schema:
    """Return the schema of a record."""
    made = [each if isinstance(each, dict) else {"name": each[0], "type": each[1]} for each in fields]
    return {"type": "record", "name": name, "fields": made}


def message(registry: StubRegistry, schema: Schema, value: Any) -> bytes:
    """Register a schema and encode a value as a message of it."""
    id_ = registry.register("t-value", json.dumps(schema))
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(plain(schema)), value)
    return b"\0" + id_.to_bytes(4, "big") + stream.getvalue()


def writers(registry: StubRegistry, schema: Schema, references: tuple[str, ...] = ()) -> WriterSchemas:
    """Return the writer schemas of a topic that was planned with one schema."""
    access = (f"m.p.{uuid4()}", (("url", registry.url),))  # another stub may have had the same port
    return WriterSchemas((json.dumps(schema), *references), wire=True, name="data", registry=access)


def decoder(registry: StubRegistry, schema: Schema, references: tuple[str, ...] = ()) -> AvroMessages:
    """Return a decoder with the columns of a schema, as a task gets it."""
    found = columns_of(parse(json.dumps(schema), references).as_record("data"))
    columns = tuple(physical.Column(each.name, each.type, each.nullable) for each in found)
    made: AvroMessages = pickle.loads(pickle.dumps(AvroMessages(columns, writers(registry, schema, references))))
    return made


_DATE = {"type": "int", "logicalType": "date"}
_MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
_ENUM = {"type": "enum", "name": "e", "symbols": ["A", "B"]}
_WIDER_ENUM = {"type": "enum", "name": "e", "symbols": ["Z", "A", "B"]}
_POINT = record(("x", "int"), name="point")
_FURTHER = record(
    {"name": "z", "type": "string", "default": "none"}, {"name": "ex", "aliases": ["x"], "type": "int"}, name="point"
)
_PAIRS = [
    # reader's type, writer's type, written value, decoded value
    ("long", "int", 7, 7),
    ("double", "int", 7, 7.0),
    ("float", "int", 7, 7.0),
    ("double", "long", -(2**40), float(-(2**40))),
    ("double", "float", 0.5, 0.5),
    ("string", "bytes", "ü".encode(), "ü"),
    ("bytes", "string", "ü", "ü".encode()),
    (["null", "long"], "int", 7, 7),
    (["null", "long"], ["int", "null"], None, None),
    (["null", "long"], "null", None, None),
    ("long", ["null", "long"], 7, 7),
    (_ENUM, _WIDER_ENUM, "A", "A"),
    ("string", _ENUM, "B", "B"),
    (_DATE, ["null", _DATE], 1, date(1970, 1, 2)),
    (_MONEY, {**_MONEY, "precision": 4}, b"\x01\x00", Decimal("2.56")),
    (["null", "string", "long"], ["null", "string", "long"], "a", '"a"'),
    (["null", "string", "long"], "string", "a", '"a"'),
    (["null", "string", "long"], ["null", "long"], None, None),
    (["null", "string", "long"], ["string", "long", "double"], 1.5, "1.5"),
    (_FURTHER, _POINT, {"x": 3}, {"z": "none", "ex": 3}),
    (["null", _FURTHER], ["null", _POINT], {"x": 3}, {"z": "none", "ex": 3}),
    (["null", _FURTHER], ["null", _POINT], None, None),
    ({"type": "array", "items": _FURTHER}, {"type": "array", "items": _POINT}, [{"x": 3}], [{"z": "none", "ex": 3}]),
    ({"type": "map", "values": _FURTHER}, {"type": "map", "values": _POINT}, {"k": {"x": 3}},
     [{"key": "k", "value": {"z": "none", "ex": 3}}]),
    ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, [1, 2], [1, 2]),
]  # fmt: skip


@pytest.mark.parametrize(("reads", "wrote", "value", "expected"), _PAIRS)
def test_values_of_another_type_are_read_where_they_fit(
    registry: StubRegistry, reads: Schema, wrote: Schema, value: Any, expected: Any
) -> None:
    schema = record(("before", "string"), ("v", reads), ("after", "long"))
    other = record(("before", "string"), ("v", wrote), ("after", "long"))
    messages = [message(registry, other, {"before": "a", "v": value, "after": place}) for place in range(3)]
    found = decoder(registry, schema).decode(messages)
    assert found.failures == {}
    assert found.batch.to_pydict() == {"before": ["a"] * 3, "v": [expected] * 3, "after": [0, 1, 2]}


_DEFAULTS = [
    ("long", 7, 7),
    ("double", 1, 1.0),
    ("string", "ü", "ü"),
    ("bytes", "\u00ff\u0001", b"\xff\x01"),
    ("boolean", True, True),
    (["null", "long"], None, None),
    (["long", "null"], 5, 5),
    (_DATE, 1, date(1970, 1, 2)),
    (_MONEY, "\u0001\u0000", Decimal("2.56")),
    (_ENUM, "B", "B"),
    ({"type": "array", "items": "string"}, ["a"], ["a"]),
    ({"type": "map", "values": "long"}, {"a": 1}, [{"key": "a", "value": 1}]),
    (_POINT, {"x": 4}, {"x": 4}),
    (_FURTHER, {"ex": 4}, {"z": "none", "ex": 4}),
]


@pytest.mark.parametrize(("type_", "default", "expected"), _DEFAULTS)
def test_a_field_that_is_not_written_has_its_default(
    registry: StubRegistry, type_: Schema, default: Any, expected: Any
) -> None:
    schema = record(("id", "long"), {"name": "v", "type": type_, "default": default})
    found = decoder(registry, schema).decode([message(registry, record(("id", "long")), {"id": 1})] * 2)
    assert found.failures == {}
    assert found.batch.to_pydict() == {"id": [1, 1], "v": [expected, expected]}


def test_messages_of_many_schemas_stay_in_order(registry: StubRegistry) -> None:
    schema = record(("id", "long"), {"name": "name", "aliases": ["title"], "type": ["null", "string"]}, ("n", "long"))
    first = record(("n", "int"), ("title", "string"), ("id", "int"))
    second = record(("id", "long"), ("extra", {"type": "array", "items": "string"}), ("n", "long"))
    wrong = record(("id", "string"), ("n", "long"))
    messages = [
        message(registry, schema, {"id": 1, "name": "a", "n": 10}),
        message(registry, second, {"id": 2, "extra": ["x", "y"], "n": 20}),
        message(registry, first, {"id": 3, "title": "c", "n": 30}),
        message(registry, wrong, {"id": "4", "n": 40}),
        message(registry, second, {"id": 5, "extra": [], "n": 50}),
        message(registry, schema, {"id": 6, "name": None, "n": 60}),
        message(registry, record(("id", "long")), {"id": 7}),
    ]
    found = decoder(registry, schema).decode(messages)
    assert found.failures == {
        3: 'its field for column "id" is text, not bigint',
        6: 'it has no field "n", and the reader\'s schema has no default for it',
    }
    kept = found.batch.take([0, 1, 2, 4, 5]).to_pydict()
    assert kept == {"id": [1, 2, 3, 5, 6], "name": ["a", None, "c", None, None], "n": [10, 20, 30, 50, 60]}
    assert len([each for each in registry.asked if each.startswith("/schemas")]) == 5


def test_null_where_the_planned_schema_has_none_is_an_invalid_row(registry: StubRegistry) -> None:
    messages = [message(registry, record(("v", ["null", "long"])), {"v": value}) for value in (1, None, 2)]
    found = decoder(registry, record(("v", "long"))).decode(messages)
    assert found.failures == {1: 'null value in column "v", which is NOT NULL'}


def test_schemas_that_name_others_are_read_with_them(registry: StubRegistry) -> None:
    registry.register("point", _POINT)
    schema = record(("p", ["null", "point"]), ("q", "point"))
    id_ = registry.register("t-value", schema, references=(("point", "point", 1),))
    found = decoder(registry, schema, (json.dumps(_POINT),)).decode([b"\0" + id_.to_bytes(4, "big") + b"\2\4\6"])
    assert found.failures == {}
    assert found.batch.to_pydict() == {"p": [{"x": 2}], "q": [{"x": 3}]}


def test_values_that_are_not_records_are_one_column(registry: StubRegistry) -> None:
    messages = [message(registry, each, value) for each, value in (("long", 3), ("int", 4), (["null", "long"], 5))]
    found = decoder(registry, "long").decode(messages)
    assert found.failures == {}
    assert found.batch.to_pydict() == {"data": [3, 4, 5]}


# --- Debezium ---------------------------------------------------------------------------------------------------------


def envelope(row: Schema) -> Schema:
    """Return the schema of Debezium's messages."""
    source = record(("db", "string"), ("lsn", ["null", "long"]), name="Source")
    return record(
        ("before", ["null", row]), ("after", ["null", "Value"]), ("source", source), ("op", "string"),
        ("ts_ms", ["null", "long"]), name="Envelope",
    )  # fmt: skip


def changed(op: str, after: Any = None, before: Any = None) -> dict[str, Any]:
    """Return a change as Debezium encodes it."""
    return {"before": before, "after": after, "source": {"db": "d", "lsn": 7}, "op": op, "ts_ms": 1}


_ROW = record(("id", "long"), ("name", ["null", "string"]), name="Value")


def change_decoder(registry: StubRegistry) -> AvroChanges:
    """Return a decoder of changes, as a task gets it."""
    schema = envelope(_ROW)
    found = columns_of(rows_of(parse(json.dumps(schema))))
    columns = tuple(physical.Column(each.name, each.type, each.nullable) for each in found)
    made: AvroChanges = pickle.loads(pickle.dumps(AvroChanges(columns, ("id",), writers(registry, schema))))
    return made


def test_changes_in_avro_are_rows_and_keys_that_are_gone(registry: StubRegistry) -> None:
    other = envelope(record(("id", "int"), ("more", "double"), name="Value"))
    messages = [
        message(registry, envelope(_ROW), changed("r", {"id": 1, "name": "a"})),
        None,
        message(registry, envelope(_ROW), changed("d", None, {"id": 2, "name": "x"})),
        message(registry, other, changed("u", {"id": 3, "more": 1.5}, {"id": 3, "more": 1.0})),
        message(registry, other, changed("d", None, {"id": 4, "more": 1.5})),
        message(registry, envelope(_ROW), changed("m")),
        message(registry, envelope(_ROW), changed("c", {"id": 5, "name": None})),
    ]
    found = change_decoder(registry).decode(None, messages)
    assert found.failures == {}
    assert found.places is not None
    assert found.places.tolist() == [0, 2, 3, 4, 6]
    expected = {"id": [1, 2, 3, 4, 5], "name": ["a", None, None, None, None], "$diff": [1, -1, 1, -1, 1]}
    assert found.batch.to_pydict() == expected
    keys = pa.record_batch({"id": pa.array([10, 20, 30, 40, 50, 60, 70])})
    assert change_decoder(registry).decode(keys, messages).batch.column("id").to_pylist() == [1, 30, 3, 50, 5]


_A = {"id": 1, "name": "a"}
_NUMBERED, _UNTOLD = {"before": _A, "after": _A, "op": 7}, {"before": 1, "after": _A, "op": "d"}


def test_bad_changes_in_avro_fail_alone(registry: StubRegistry) -> None:
    good = message(registry, envelope(_ROW), changed("c", {"id": 1, "name": "a"}))
    bad = [
        (message(registry, envelope(_ROW), changed("c")), "no row after the change"),
        (message(registry, envelope(_ROW), changed("d")), "does not name it"),
        (message(registry, envelope(_ROW), changed("t")), "the table was truncated"),
        (message(registry, envelope(_ROW), changed("x")), 'the change "x"'),
        (message(registry, _ROW, {"id": 1, "name": "a"}), "not a Debezium schema"),
        (
            message(registry, record(("before", _ROW), ("after", "Value"), ("op", "long")), _NUMBERED),
            "op is not a text",
        ),
        (
            message(registry, record(("before", "long"), ("after", _ROW), ("op", "string")), _UNTOLD),
            "before is not a record",
        ),
        (good[:8], "cut off"),
        (good + b"\0", "continues after"),
        (good.replace(b"\2a", b"\2\xff"), "invalid start byte"),
    ]
    found = change_decoder(registry).decode(None, [good, *(each for each, _ in bad), good])
    assert sorted(found.failures) == list(range(1, len(bad) + 1))
    for place, (_, why) in enumerate(bad, 1):
        assert why in found.failures[place]
    assert found.batch.to_pydict() == {"id": [1, 1], "name": ["a", "a"], "$diff": [1, 1]}
