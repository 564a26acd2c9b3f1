"""A bad Avro record fails alone: the error has its position and the reason, and its neighbours are decoded."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from sinkql import physical
from sinkql.connectors.confluent.avro.columns import columns_of
from sinkql.connectors.confluent.avro.decode import AvroMessages, WriterSchemas
from sinkql.connectors.confluent.avro.resolution import parse
from sinkql.errors import SinkqlError
from support.registry import StubRegistry, stub_registry

_ENUM = {"type": "enum", "name": "e", "symbols": ["A", "B", "C"]}
_DATE, _TIME, _MILLIS = ({"type": "int", "logicalType": each} for each in ("date", "time-millis", "x"))
_STAMP = {"type": "long", "logicalType": "timestamp-micros"}
_LOCAL = {"type": "long", "logicalType": "local-timestamp-millis"}
_UUID = {"type": "string", "logicalType": "uuid"}
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
FIXED = {"type": "fixed", "name": "x", "size": 4}
_FIXED_DECIMAL = {**FIXED, "logicalType": "decimal", "precision": 4}
_DURATION = {"type": "fixed", "name": "d", "size": 12, "logicalType": "duration"}
_RECORD = {
    "type": "record",
    "name": "inner",
    "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}],
}
_LIST, _MAP = {"type": "array", "items": "string"}, {"type": "map", "values": "long"}
_NULLS = {"type": "array", "items": "null"}
_UNION = ["null", "long", "string"]
_TREE = {"type": "record", "name": "tree", "fields": [{"name": "next", "type": ["null", "tree"]}]}
_FAR = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # the greatest long
_LEAST = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"

VALUES: list[tuple[Any, bytes, bytes, str]] = [
    # type, encoding of a good value, encoding of a bad value, reason
    ("boolean", b"\1", b"\2", "neither true nor false"),
    ("boolean", b"\1", b"", "cut off"),
    ("int", b"\2", b"", "cut off"),
    ("int", b"\2", b"\x80", "cut off"),
    ("int", b"\2", b"\x80\x80\x80\x80\x10", "more than 32 bits"),
    ("int", b"\2", _LEAST, "more than 32 bits"),
    ("int", b"\2", b"\2\2", "continues after"),
    ("long", b"\2", b"\xff" * 9 + b"\2", "more than 64 bits"),
    ("long", b"\2", b"\xff" * 12 + b"\1", "more than 64 bits"),
    ("long", b"\2", b"\xff" * 8, "cut off"),
    ("long", b"\2", b"\xff" * 9, "cut off"),
    ("float", b"\0\0\0\0", b"\0\0\0", "cut off"),
    ("double", b"\0" * 8, b"\0" * 7, "cut off"),
    ("double", b"\0" * 8, b"", "cut off"),
    ("string", b"\2a", b"\4a", "cut off"),
    ("string", b"\2a", _FAR + b"a", "cut off"),
    ("string", b"\2a", b"\x80\x80\x80\x80\x10a", "cut off"),
    ("string", b"\2a", b"\1a", "negative length"),
    ("string", b"\2a", _LEAST, "negative length"),
    ("string", b"\2a", b"\4a\xff", "invalid start byte"),
    ("string", b"\2a", b"\6\xed\xa0\x80", "invalid continuation byte"),
    ("string", b"\2a", b"\2\0", "is not a text"),
    ("string", b"\2a", b"\2ab", "continues after"),
    ("bytes", b"\2a", b"\4a", "cut off"),
    ("bytes", b"\2a", b"\3", "negative length"),
    (_ENUM, b"\2", b"\6", "invalid symbol"),
    (_ENUM, b"\2", b"\1", "invalid symbol"),
    (_ENUM, b"\2", _FAR, "invalid symbol"),
    (FIXED, b"abcd", b"abc", "cut off"),
    (FIXED, b"abcd", b"abcde", "continues after"),
    (_DATE, b"\2", b"\xfe\xff\xff\xff\x0f", "years 1 to 9999"),
    (_DATE, b"\2", b"\xff\xff\xff\xff\x0f", "years 1 to 9999"),
    (_TIME, b"\2", b"\x01", "not within a day"),
    (_TIME, b"\2", b"\x80\xf0\xb2\x52", "not within a day"),
    (_STAMP, b"\2", _FAR, "years 1 to 9999"),
    (_STAMP, b"\2", _LEAST, "years 1 to 9999"),
    (_LOCAL, b"\2", _FAR, "years 1 to 9999"),
    (_UUID, b"\x48" + b"00000000-0000-0000-0000-000000000000", b"\2a", "is not a uuid"),
    (_UUID, b"\x48" + b"00000000-0000-0000-0000-000000000000", b"\x48" + b"g" * 36, "is not a uuid"),
    (_DECIMAL, b"\2\1", b"\4\x7f\xff", "does not fit"),
    (_DECIMAL, b"\2\1", b"\x20" + b"\x7f" * 16, "too many digits"),
    (_DECIMAL, b"\2\1", b"\x22" + b"\1" * 17, "too many digits"),
    (_DECIMAL, b"\2\1", b"\x22" + b"\1" * 16, "cut off"),
    (_FIXED_DECIMAL, b"\0\0\0\1", b"\0\1\0\0", "does not fit"),
    (_DURATION, b"\0" * 12, b"\0" * 11, "cut off"),
    (_RECORD, b"\2\2a", b"\2\4a", "cut off"),
    (_RECORD, b"\2\2a", b"\2\2\xff", "invalid start byte"),
    (_LIST, b"\2\2a\0", b"\4\2a\0", "cut off"),
    (_LIST, b"\2\2a\0", b"\2\2a", "cut off"),
    (_LIST, b"\2\2a\0", _FAR + b"\2a\0", "cut off"),
    (_LIST, b"\2\2a\0", b"\2\2\xff\0", "invalid start byte"),
    (_NULLS, b"\2\0", _FAR + b"\0", "more values than it has bytes"),
    (_MAP, b"\2\2a\2\0", b"\2\2a\0", "cut off"),
    (_UNION, b"\2\2", b"\6", ""),
    (_UNION, b"\2\2", b"\1", ""),
    (_UNION, b"\2\2", b"\4\2\xff", "invalid start byte"),
    (["null", "long"], b"\2\2", b"\4\2", "invalid branch of a union"),
    (["null", "long"], b"\2\2", b"\1\2", "invalid branch of a union"),
    (["null", "long"], b"\2\2", b"", "cut off"),
    (["null", "long"], b"\0", b"\2", "cut off"),
    (_TREE, b"\2\0", b"\2" * 9000 + b"\0", "nested too deeply"),
]


def opened(schema: Any, registry: StubRegistry | None = None) -> AvroMessages:
    """Return a pickled and unpickled decoder, as a task gets it."""
    text = json.dumps(schema)
    columns = [physical.Column(each.name, each.type, each.nullable) for each in columns_of(parse(text))]
    access = None if registry is None else (f"m.p.{uuid4()}", (("url", registry.url),))
    found = AvroMessages(tuple(columns), WriterSchemas((text,), wire=True, name="data", registry=access))
    copied: AvroMessages = pickle.loads(pickle.dumps(found))
    return copied


def row(type_: Any) -> Any:
    """Return the schema of records with one field of a type."""
    return {"type": "record", "name": "row", "fields": [{"name": "v", "type": type_}]}


@pytest.mark.parametrize(("type_", "good", "bad", "why"), VALUES)
def test_a_bad_value_fails_alone(type_: Any, good: bytes, bad: bytes, why: str) -> None:
    head = b"\0\0\0\0\1"
    found = opened(row(type_)).decode([head + good, head + bad, head + good])
    assert list(found.failures) == [1]
    assert why in found.failures[1]
    assert '"v"' in found.failures[1] or "continues" in why
    alone = opened(row(type_)).decode([head + good])
    assert not alone.failures
    assert found.batch.slice(0, 1).equals(alone.batch)
    assert found.batch.slice(2, 1).equals(alone.batch)


@pytest.fixture
def registry() -> Iterator[StubRegistry]:
    """Yield a registry with three kinds of schemas: readable, without the field that is read, and not Avro."""
    with stub_registry() as stub:
        stub.register("t-value", row("long"))
        stub.register("t-value", {"type": "record", "name": "row", "fields": [{"name": "w", "type": "long"}]})
        stub.register("t-value", "message A {}", "PROTOBUF")
        stub.register("t-value", "{")
        stub.register("t-value", row("string"))
        yield stub


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"", "cut off before the id"),
        (b"\0\0\0\0", "cut off before the id"),
        (b"\0\0\0\0\1", 'field "v": it is cut off'),
        (b"\1\0\0\0\1\2", "0x01"),
        (b'{"v": 1}', "0x7b"),
        (b"\0\0\0\0\2\2", 'no field "v"'),
        (b"\0\0\0\0\3\2", "schema 3 has the format PROTOBUF, not AVRO"),
        (b"\0\0\0\0\4\2", "schema 4 is invalid"),
        (b"\0\0\0\0\5\2a", "is text, not bigint"),
        (b"\0\0\0\0\x09\2", "the registry has no schema 9"),
        (b"\0\xff\xff\xff\xff\2", "the registry has no schema 4294967295"),
    ],
)
def test_a_bad_head_fails_alone(registry: StubRegistry, message: bytes, why: str) -> None:
    good = b"\0\0\0\0\1\4"
    found = opened(row("long"), registry).decode([good, message, good])
    assert list(found.failures) == [1]
    assert why in found.failures[1]
    assert [found.batch.column(0)[place].as_py() for place in (0, 2)] == [2, 2]


def test_a_registry_that_does_not_answer_fails_no_record(registry: StubRegistry) -> None:
    registry.statuses = [500]
    with pytest.raises(SinkqlError) as caught:
        opened(row("long"), registry).decode([b"\0\0\0\0\1\4"])
    assert (caught.value.code, caught.value.retryable) == ("SQ4265", True)
    assert opened(row("long"), registry).decode([b"\0\0\0\0\1\4"]).batch.to_pydict() == {"v": [2]}
