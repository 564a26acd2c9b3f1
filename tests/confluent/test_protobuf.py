"""Protobuf messages of schemas compiled by the tests: values of all types, headers, and bad messages."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from google.protobuf.message_factory import GetMessageClass

from sinkql import physical
from sinkql.connectors.confluent.protobuf import ProtobufMessages
from sinkql.connectors.confluent.protobuf_schema import Types, columns_of, compile_schema
from sinkql.errors import SinkqlError
from support.registry import StubRegistry, stub_registry

_ALL = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "other/point.proto";
message Row {
  enum Mood { SAD = 0; HAPPY = 3; }
  message Inner { int32 a = 1; optional string b = 2; repeated Inner2 c = 3; }
  message Inner2 { bool x = 1; }
  message Tree { string name = 1; Tree left = 2; }
  int32 i = 1; sint64 l = 2; uint32 u = 3; fixed64 f = 4; float r = 5; double d = 6; bool b = 7; string s = 8;
  bytes y = 9; Mood mood = 10; optional int64 maybe = 11;
  oneof choice { string left = 12; int32 right = 13; }
  Inner inner = 14; repeated int64 many = 15; map<string, int32> by_name = 16; map<int32, Inner2> by_number = 17;
  google.protobuf.Timestamp at = 18; google.protobuf.Duration took = 19; google.protobuf.Int64Value boxed = 20;
  google.protobuf.Struct free = 21; Tree tree = 22; other.Point point = 23; repeated Mood moods = 24;
  map<string, Tree> trees = 25;
}
message Second { int32 i = 1; message Within { string w = 1; } }
"""
_POINT = 'syntax = "proto3"; package other; message Point { int32 x = 1; }'
_TYPES = {
    "i": "integer", "l": "bigint", "u": "uint4", "f": "uint8", "r": "real", "d": "double precision", "b": "boolean",
    "s": "text", "y": "bytea", "mood": "text", "maybe": "bigint", "left": "text", "right": "integer",
    "inner": "record(a integer NOT NULL, b text, c record(x boolean NOT NULL) list NOT NULL)", "many": "bigint list",
    "by_name": "map[text=>integer]", "by_number": "map[text=>record(x boolean NOT NULL)]", "at": "timestamptz",
    "took": "interval", "boxed": "bigint", "free": "jsonb", "tree": "jsonb", "point": "record(x integer NOT NULL)",
    "moods": "text list", "trees": "jsonb",
}  # fmt: skip
_SET = {
    "i": -5, "l": -(2**40), "u": 2**32 - 1, "f": 2**64 - 1, "r": 0.5, "d": 0.1, "b": True, "s": "ü", "y": b"\0\xff",
    "mood": 3, "maybe": 0, "right": 7, "inner": {"a": 1, "b": "x", "c": [{"x": True}, {}]}, "many": [1, 2],
    "by_name": {"b": 2, "a": 1}, "by_number": {7: {"x": True}}, "at": {"seconds": 1, "nanos": 5_000},
    "took": {"seconds": 90, "nanos": 500_000_000}, "boxed": {"value": 9}, "free": {"k": [1, None]},
    "tree": {"name": "t", "left": {"name": "u"}}, "point": {"x": 4}, "moods": [0, 3, 9], "trees": {"k": {"name": "v"}},
}  # fmt: skip
_ROW = {
    "i": -5, "l": -(2**40), "u": 2**32 - 1, "f": 2**64 - 1, "r": 0.5, "d": 0.1, "b": True, "s": "ü", "y": b"\0\xff",
    "mood": "HAPPY", "maybe": 0, "left": None, "right": 7,
    "inner": {"a": 1, "b": "x", "c": [{"x": True}, {"x": False}]}, "many": [1, 2],
    "by_name": [{"key": "a", "value": 1}, {"key": "b", "value": 2}], "by_number": [{"key": "7", "value": {"x": True}}],
    "at": datetime(1970, 1, 1, 0, 0, 1, 5, UTC), "took": "00:01:30.5", "boxed": 9, "free": '{"k": [1.0, null]}',
    "tree": '{"left": {"name": "u"}, "name": "t"}', "point": {"x": 4}, "moods": ["SAD", "HAPPY", "9"],
    "trees": '{"k": {"name": "v"}}',
}  # fmt: skip
_EMPTY = {
    "i": 0, "l": 0, "u": 0, "f": 0, "r": 0.0, "d": 0.0, "b": False, "s": "", "y": b"", "mood": "SAD", "maybe": None,
    "left": None, "right": None, "inner": None, "many": [], "by_name": [], "by_number": [], "at": None, "took": None,
    "boxed": None, "free": None, "tree": None, "point": None, "moods": [], "trees": "{}",
}  # fmt: skip


@pytest.fixture(scope="module")
def types() -> Types:
    return Types(compile_schema(_ALL, {"other/point.proto": _POINT}))


def columns(found: Any) -> tuple[physical.Column, ...]:
    """Return the physical columns of a type."""
    return tuple(physical.Column(each.name, each.type, each.nullable) for each in columns_of(found))


def decoder(
    text: str, references: dict[str, str], message: str, registry: StubRegistry | None = None
) -> ProtobufMessages:
    """Return a pickled and unpickled decoder, as a task gets it."""
    descriptors = compile_schema(text, references)
    access = None if registry is None else (f"m.p.{uuid4()}", (("url", registry.url),))
    found = columns(Types(descriptors).find(message))
    made = ProtobufMessages(found, descriptors, message, access)
    copied: ProtobufMessages = pickle.loads(pickle.dumps(made))
    return copied


def written(found: Any, **values: Any) -> bytes:
    """Encode a message of a type."""
    data: bytes = GetMessageClass(found)(**values).SerializeToString()
    return data


def test_fields_are_columns(types: Types) -> None:
    found = columns(types.at((0,)))
    assert {each.name: str(each.type) for each in found} == _TYPES
    assert [each.name for each in found if each.nullable] == [
        "maybe", "left", "right", "inner", "at", "took", "boxed", "free", "tree", "point",
    ]  # fmt: skip


def test_values_of_all_types(types: Types) -> None:
    row = types.find("Row")
    found = decoder(_ALL, {"other/point.proto": _POINT}, "shop.Row").decode([written(row, **_SET), b"", written(row)])
    assert found.failures == {}
    assert [{**each, "f": int(each["f"])} for each in found.batch.to_pylist()] == [_ROW, _EMPTY, _EMPTY]


@pytest.fixture
def registry() -> Iterator[StubRegistry]:
    """Yield a registry with two Protobuf schemas of a topic; the second one begins with another message."""
    with stub_registry() as stub:
        stub.register("point", _POINT, "PROTOBUF")
        stub.register("t-value", _ALL, "PROTOBUF", references=(("other/point.proto", "point", 1),))
        before = _ALL.replace("message Row", "message First { int32 z = 1; }\nmessage Row")
        stub.register("t-value", before, "PROTOBUF", references=(("other/point.proto", "point", 1),))
        stub.register("t-value", '"string"')
        stub.register("t-value", "message {", "PROTOBUF")
        yield stub


def test_messages_say_of_which_type_they_are(types: Types, registry: StubRegistry) -> None:
    second = Types(
        compile_schema(_ALL.replace("int32 i = 1;", "int32 i = 1; int32 n = 99;"), {"other/point.proto": _POINT})
    )
    body = written(second.find("Row"), i=7, n=8)
    messages = [
        b"\0\0\0\0\2\0" + body,
        b"\0\0\0\0\2\2\0" + body,
        b"\0\0\0\0\3\2\2" + body,
        b"\0\0\0\0\3\0" + body,
        b"\0\0\0\0\2\2\2" + body,
        b"\0\0\0\0\2\4\2\0" + body,
        b"\0\0\0\0\2\2\x0a" + body,
        b"\0\0\0\0\2\2",
        b"\0\0\0\0\2\1" + body,
        b"\0\0\0\0\2\xff\xff\xff\xff\xff\xff",
        b"\0\0\0\0\4\0" + body,
        b"\0\0\0\0\5\0" + body,
        b"\0\0\0\0\x63\0" + body,
        b"\7\0\0\0\2\0" + body,
        b"\0\0\0\0\2",
        b"\0\0\0\0\2\0" + b"\x0a\x05a",
        b"\0\0\0\0\2\0" + b"\x42\x01\xff",
        b"\0\0\0\0\2\0" + written(types.find("Row"), s="a\0"),
        b"\0\0\0\0\2\0" + written(types.find("Row"), at={"nanos": 1}),
        b"\0\0\0\0\2\0" + written(types.find("Row"), at={"seconds": 2**40}),
        b"\0\0\0\0\2\0" + body,
    ]
    found = decoder(_ALL, {"other/point.proto": _POINT}, "shop.Row", registry).decode(messages)
    assert found.failures == {
        3: "it is a message shop.First, but shop.Row is expected",
        4: "it is a message shop.Second, but shop.Row is expected",
        5: "it is a message shop.Second.Within, but shop.Row is expected",
        6: "its schema has no message type with the index in its header",
        7: "the indexes of its type cannot be read",
        8: "the indexes of its type cannot be read",
        9: "the indexes of its type cannot be read",
        10: "schema 4 has the format AVRO, not PROTOBUF",
        11: "schema 5 is invalid: 1:9: Expected message name.",
        12: "the registry has no schema 99",
        13: "it begins with the byte 0x07 instead of 0x00 and the id of its schema",
        14: "it is cut off before the id of its schema",
        15: "it is not a message shop.Row",
        16: "it is not a message shop.Row",
        17: 'column "s": "a\\u0000" is not a text',
        18: 'column "at": 0.000000001 seconds have more than six decimals',
        19: 'column "at": it is outside of the years 1 to 9999',
    }
    assert [found.batch.column("i")[place].as_py() for place in (0, 1, 2, 20)] == [7] * 4
    assert registry.asked.count("/schemas/ids/2") == 1


def test_schemas_that_are_not_right_say_why() -> None:
    for text, why in [
        ("message A {", "1:12: Reached end of input"),
        ('syntax = "proto3"; import "gone.proto";', "gone.proto: File not found"),
        ("\\x0a", "cannot be read"),
        ("\\xzz", "non-hexadecimal"),
    ]:
        with pytest.raises(ValueError, match=why):
            Types(compile_schema(text, {}))
    with pytest.raises(ValueError, match="not a relative path"):
        compile_schema("", {"../x.proto": ""})
    with pytest.raises(ValueError, match='no message "B"'):
        Types(compile_schema('syntax = "proto3"; message A {}', {})).find("B")
    with pytest.raises(ValueError, match="has no fields"):
        columns_of(Types(compile_schema('syntax = "proto3"; message A {}', {})).find("A"))


def test_descriptors_stand_for_a_text(types: Types) -> None:
    descriptors = compile_schema(_ALL, {"other/point.proto": _POINT})
    assert columns(Types(compile_schema("\\x" + descriptors.hex(), {})).find("shop.Row")) == columns(types.find("Row"))


def test_required_and_optional_fields_of_proto2() -> None:
    text = 'syntax = "proto2"; message A { required int32 a = 1; optional int32 b = 2 [default = 5]; }'
    made = decoder(text, {}, "A")
    assert [(each.name, each.nullable) for each in made.columns] == [("a", False), ("b", True)]
    type_ = Types(compile_schema(text, {})).find("A")
    found = made.decode([written(type_, a=1), written(type_, a=1, b=2), b""])
    assert found.failures == {2: "it has no a, which is required"}
    assert found.batch.slice(0, 2).to_pydict() == {"a": [1, 1], "b": [None, 2]}


def test_without_the_packages_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinkql.connectors.confluent.protobuf_schema.find_spec", lambda name: None)
    with pytest.raises(SinkqlError) as caught:
        compile_schema("", {})
    assert caught.value.code == "SQ4266"
