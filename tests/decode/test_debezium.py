"""Debezium's messages in JSON: changes of rows, values by the schema or by the declared types, and bad messages."""

from __future__ import annotations

import json
import pickle
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sinkql import physical
from sinkql.decode.debezium import JsonChanges
from sinkql.decode.messages import PLACEHOLDER
from sinkql.logical.type import parse_type

_TIME = "io.debezium.time."
_CONNECT = "org.apache.kafka.connect.data."


def decoder(types: Mapping[str, str], key: Sequence[str] = ("id",)) -> JsonChanges:
    """Return a pickled copy of a decoder, as a task has it."""
    columns = tuple(physical.Column(name, parse_type(type_), name not in key) for name, type_ in types.items())
    found: JsonChanges = pickle.loads(pickle.dumps(JsonChanges(columns, tuple(key))))
    return found


def change(op: str, after: Any = None, before: Any = None, fields: Sequence[Any] | None = None) -> bytes:
    """Return a message; `fields` is the row's schema, as a converter with schemas writes it."""
    payload = {"before": before, "after": after, "source": {"table": "t", "lsn": 7}, "op": op, "ts_ms": 1}
    if fields is None:
        return json.dumps(payload).encode()
    row = {"type": "struct", "fields": list(fields), "optional": True}
    whole = [{**row, "field": "before"}, {**row, "field": "after"}, {"type": "string", "field": "op"}]
    return json.dumps({"schema": {"type": "struct", "fields": whole}, "payload": payload}).encode()


def test_changes_are_rows_and_keys_that_are_gone() -> None:
    found = decoder({"id": "bigint", "name": "text"}).decode(
        None,
        [
            change("r", {"id": 1, "name": "a"}),
            change("c", {"id": 2, "name": None}),
            None,
            change("u", {"id": 1, "name": "b", "more": [1, {}]}, {"id": 1, "name": "a"}),
            change("d", None, {"id": 2, "name": "x"}),
            b'{"schema": null, "payload": null}',
            change("m"),
            change("c", {"id": 3}),
        ],
    )
    assert found.failures == {}
    assert found.places is not None
    assert found.places.tolist() == [0, 1, 3, 4, 7]
    assert found.batch.to_pydict() == {
        "id": [1, 2, 1, 2, 3],
        "name": ["a", None, "b", None, None],
        "$diff": [1, 1, 1, -1, 1],
    }
    assert found.batch.schema.types == [pa.int64(), pa.string(), pa.int64()]


def test_keys_of_messages_stand_before_what_was_there() -> None:
    keys = pa.record_batch({"b": pa.array(["x", "y"]), "a": pa.array([1, 2])})
    found = decoder({"a": "bigint", "b": "text", "c": "text"}, ("b", "a")).decode(
        keys, [change("d"), change("d", None, {"a": 9})]
    )
    assert found.batch.to_pydict() == {"a": [1, 2], "b": ["x", "y"], "c": [None, None], "$diff": [-1, -1]}


def base64(number: int) -> str:
    """Return the unscaled value of a decimal as Connect writes it."""
    return b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)).decode()


_AT = datetime(2026, 1, 2, 3, 4, 5, 678_000)
_MICROS = 1_767_323_045_678_000
_ZONED = _AT.replace(tzinfo=UTC)
_DECIMAL = f"{_CONNECT}Decimal"
_UUID = "a0000000-0000-0000-0000-00000000000b"


def scaled(scale: int) -> dict[str, Any]:
    """Return the schema of a decimal."""
    return {"name": _DECIMAL, "type": "bytes", "parameters": {"scale": str(scale)}}


_SCALARS: list[tuple[str, dict[str, Any], Any, Any]] = [
    # the type of the column, the field's schema, the value in JSON, the value
    ("date", {"name": f"{_TIME}Date", "type": "int32"}, 20455, date(2026, 1, 2)),
    ("date", {"name": f"{_CONNECT}Date", "type": "int32"}, 0, date(1970, 1, 1)),
    ("timestamp", {"name": f"{_TIME}Timestamp", "type": "int64"}, _MICROS // 1000, _AT),
    ("timestamp", {"name": f"{_TIME}MicroTimestamp", "type": "int64"}, _MICROS, _AT),
    ("timestamp", {"name": f"{_TIME}NanoTimestamp", "type": "int64"}, _MICROS * 1000, _AT),
    ("timestamp", {"name": f"{_CONNECT}Timestamp", "type": "int64"}, _MICROS // 1000, _AT),
    ("timestamptz", {"name": f"{_TIME}ZonedTimestamp", "type": "string"}, "2026-01-02T03:04:05.678Z", _ZONED),
    ("timestamptz", {"name": f"{_TIME}MicroTimestamp", "type": "int64"}, _MICROS, _ZONED),
    ("time", {"name": f"{_TIME}Time", "type": "int32"}, 3_600_001, time(1, 0, 0, 1000)),
    ("time", {"name": f"{_TIME}MicroTime", "type": "int64"}, 3_600_000_001, time(1, 0, 0, 1)),
    ("time", {"name": f"{_TIME}NanoTime", "type": "int64"}, 1_000, time(0, 0, 0, 1)),
    ("interval", {"name": f"{_TIME}MicroDuration", "type": "int64"}, 90_000_000, "00:01:30"),
    ("interval", {"name": f"{_TIME}NanoDuration", "type": "int64"}, 90_000_000_000, "00:01:30"),
    ("interval", {"name": f"{_TIME}Interval", "type": "string"}, "P1Y2M3DT4H5M6.5S", "1 year 2 mons 3 days 04:05:06.5"),
    ("numeric(38,2)", scaled(2), base64(-12345), Decimal("-123.45")),
    ("numeric(38,2)", scaled(0), base64(7), Decimal("7.00")),
    ("numeric(38,0)", scaled(0), base64(10**38 - 1), Decimal(10**38 - 1)),
    ("numeric(38,3)", {"type": "struct"}, {"scale": 3, "value": base64(1)}, Decimal("0.001")),
    ("numeric(38,2)", {"type": "string"}, "12.5", Decimal("12.50")),
    ("numeric(38,2)", {"type": "double"}, 12.25, Decimal("12.25")),
    ("bytea", {"type": "bytes"}, "AP8=", b"\0\xff"),
    ("uuid", {"name": "io.debezium.data.Uuid", "type": "string"}, _UUID.upper(), _UUID),
    ("jsonb", {"name": "io.debezium.data.Json", "type": "string"}, '{"b": 1,  "a": [1.0]}', '{"a": [1.0], "b": 1}'),
    ("jsonb", {"type": "struct"}, {"b": 1}, '{"b": 1}'),
    ("text", {"name": "io.debezium.data.Enum", "type": "string"}, "happy", "happy"),
    ("boolean", {"type": "boolean"}, True, True),
    ("smallint", {"type": "int16"}, -7, -7),
    ("uint8", {"type": "int64"}, 2**64 - 1, Decimal(2**64 - 1)),
    ("double precision", {"type": "double"}, 1, 1.0),
    ("double precision", {"type": "double"}, "NaN", "nan"),
    ("real", {"type": "float"}, 0.1, 0.10000000149011612),
]  # fmt: skip
_VALUES = [
    *_SCALARS,
    ("integer list", {"type": "array"}, [1, None, 3], [1, None, 3]),
    *((f"{each}[]", {"type": "array", "items": said}, [value, None], [expected, None])
      for each, said, value, expected in _SCALARS if expected != "nan"),
    ("integer[]", {"type": "array"}, [], []),
    ("integer[][]", {"type": "array"}, [[1, 2], [3, None]], [[1, 2], [3, None]]),
    ("date[][]", {"type": "array", "items": {"type": "array"}}, [[0], [1]], [[date(1970, 1, 1)], [date(1970, 1, 2)]]),
]  # fmt: skip
_PLAIN = [each for each in _VALUES if each[1].get("items", each[1]).get("name") in (
    None, f"{_TIME}Date", f"{_TIME}MicroTimestamp", f"{_TIME}ZonedTimestamp", f"{_TIME}MicroTime",
    f"{_TIME}MicroDuration", f"{_TIME}Interval", "io.debezium.data.Uuid", "io.debezium.data.Json",
)]  # fmt: skip
"""Values that decode by the declared types alone."""


def check(type_: str, fields: Sequence[Any] | None, value: Any, expected: Any) -> None:
    """Check that a value between NULLs decodes as expected."""
    rows = [{"id": 1, "v": None}, {"id": 2, "v": value}, {"id": 3}]
    found = decoder({"id": "bigint", "v": type_}).decode(None, [change("c", row, fields=fields) for row in rows])
    assert found.failures == {}
    got = found.batch.column("v").to_pylist()
    assert [got[0], str(got[1]) if expected == "nan" else got[1], got[2]] == [None, expected, None]


@pytest.mark.parametrize(("type_", "said", "value", "expected"), _VALUES)
def test_the_schema_says_what_values_are(type_: str, said: dict[str, Any], value: Any, expected: Any) -> None:
    check(type_, [{"field": "id", "type": "int64"}, {**said, "field": "v", "optional": True}], value, expected)


@pytest.mark.parametrize(("type_", "said", "value", "expected"), _PLAIN)
def test_without_a_schema_the_type_says_it(type_: str, said: dict[str, Any], value: Any, expected: Any) -> None:
    check(type_, None, value, expected)


def test_messages_of_two_schemas_stay_in_order() -> None:
    def fields(unit: str) -> list[Any]:
        return [{"field": "id", "type": "int64"}, {"field": "v", "type": "int64", "name": _TIME + unit}]

    found = decoder({"id": "bigint", "v": "timestamp"}).decode(
        None,
        [
            change("c", {"id": 1, "v": _MICROS}, fields=fields("MicroTimestamp")),
            change("c", {"id": 2, "v": _MICROS // 1000}, fields=fields("Timestamp")),
            change("d", None, {"id": 1, "v": _MICROS}, fields=fields("MicroTimestamp")),
            change("c", {"id": 3, "v": "2026-01-02 03:04:05.678"}),
        ],
    )
    assert found.batch.to_pydict() == {
        "id": [1, 2, 1, 3], "v": [_AT, _AT, None, _AT], "$diff": [1, 1, -1, 1],
    }  # fmt: skip


_ID = {"id": 1}
BAD = [
    ("text", b"", "truncated"),
    ("text", b"{", "truncated"),
    ("text", b"[]", "not a message of Debezium"),
    ("text", b"{}", "no field op"),
    ("text", b'{"payload": {}}', "no field op"),
    ("text", b'{"op": 7}', "not a message of Debezium"),
    ("text", b'{"op": "c"} {}', "not a message of Debezium: trailing characters (byte 13)"),
    ("text", b'{"op": "c", "after": {"id": 1, "v": "\xff"}}', "invalid UTF-8"),
    ("text", change("c"), "no row after the change"),
    ("text", change("u"), "no row after the change"),
    ("text", change("d"), "does not name it"),
    ("text", change("d", None, {"v": "a"}), 'null value in column "id"'),
    ("text", change("t"), "the table was truncated"),
    ("text", change("x"), 'the change "x"'),
    ("text", change("cr", _ID), 'the change "cr"'),
    ("text", change("", _ID), 'the change ""'),
    ("text", change("c", []), "not a message of Debezium"),
    ("text", change("c", {"v": "a"}), 'null value in column "id"'),
    ("text", change("c", {"id": None}), 'null value in column "id"'),
    ("text", change("c", {"id": "1"}), 'column "id": expected bigint, got str'),
    ("text", change("c", {"id": 2**63}), "is not a bigint"),
    ("text", change("c", {"id": 1.5}), 'column "id": expected bigint, got float'),
    ("text", change("c", {"id": 1, "v": 1}), 'column "v": expected text, got int'),
    ("text", change("c", {"id": 1, "v": "a\0"}), "is not a text"),
    ("text", change("c", {"id": 1, "v": "__debezium_unavailable_value"}), "REPLICA IDENTITY FULL"),
    ("bytea", change("c", {"id": 1, "v": "__debezium_unavailable_value"}), "REPLICA IDENTITY FULL"),
    ("bytea", change("c", {"id": 1, "v": "A"}), "not in base64"),
    ("smallint", change("c", {"id": 1, "v": 32768}), "32768"),
    ("integer", change("c", {"id": 1, "v": -(2**31) - 1}), "-2147483649"),
    ("uint4", change("c", {"id": 1, "v": -1}), "-1"),
    ("boolean", change("c", {"id": 1, "v": 1}), "expected boolean, got int"),
    ("double precision", change("c", {"id": 1, "v": "x"}), "is not a double precision"),
    ("real", change("c", {"id": 1, "v": 1e39}), "is not a real"),
    ("date", change("c", {"id": 1, "v": 2**31 - 1}), "years 1 to 9999"),
    ("date", change("c", {"id": 1, "v": 2**40}), "does not fit"),
    ("date", change("c", {"id": 1, "v": "2026-02-30"}), "is not a date"),
    ("time", change("c", {"id": 1, "v": 86_400_000_000}), "within a day"),
    ("time", change("c", {"id": 1, "v": -1}), "within a day"),
    ("timestamp", change("c", {"id": 1, "v": 2**62}), "years 1 to 9999"),
    ("timestamp", change("c", {"id": 1, "v": 2**63}), "does not fit"),
    ("timestamp", change("c", {"id": 1, "v": 1.5}), "got float"),
    ("timestamptz", change("c", {"id": 1, "v": "2026-01-01 00:00:00"}), "with its zone"),
    ("interval", change("c", {"id": 1, "v": "P1W"}), "is not an interval"),
    ("numeric(4,2)", change("c", {"id": 1, "v": 123.4}), "is not a numeric"),
    ("numeric(4,2)", change("c", {"id": 1, "v": "NaN"}), "is not a numeric"),
    ("numeric(4,2)", change("c", {"id": 1, "v": "wA=="}), "is not a numeric"),
    ("numeric(4,2)", change("c", {"id": 1, "v": {"scale": 2}}), "missing required field"),
    ("numeric(4,2)", change("c", {"id": 1, "v": True}), "is not a numeric"),
    ("uuid", change("c", {"id": 1, "v": "7"}), "is not a uuid"),
    ("jsonb", change("c", {"id": 1, "v": "{"}), "is not JSON"),
    ("jsonb", change("c", {"id": 1, "v": "\\u0000"}), "is not JSON"),
    ("integer list", change("c", {"id": 1, "v": ["a"]}), "expected integer, got str"),
    ("date[]", change("c", {"id": 1, "v": [0, True]}), "expected date, got bool"),
    ("date[]", change("c", {"id": 1, "v": 0}), "expected date[], got int"),
    ("date[]", change("c", {"id": 1, "v": [0, 2**40]}), f'column "v": {2**40} does not fit'),
    ("bytea[]", change("c", {"id": 1, "v": ["A"]}), "not in base64"),
    ("integer[][]", change("c", {"id": 1, "v": [[1], [2, 3]]}), "not of one length"),
    ("uuid", change("c", {"id": 1, "v": PLACEHOLDER}), "REPLICA IDENTITY FULL"),
    ("text[]", change("c", {"id": 1, "v": [PLACEHOLDER]}), "REPLICA IDENTITY FULL"),
    ("uuid[]", change("c", {"id": 1, "v": ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]}), "REPLICA IDENTITY FULL"),
    ("integer[]", change("c", {"id": 1, "v": list(PLACEHOLDER.encode())}), "REPLICA IDENTITY FULL"),
    ("bytea[]", change("c", {"id": 1, "v": [b64encode(PLACEHOLDER.encode()).decode()]}), "REPLICA IDENTITY FULL"),
    ("bytea", change("c", {"id": 1, "v": b64encode(PLACEHOLDER.encode()).decode()}), "REPLICA IDENTITY FULL"),
    ("integer list", change("c", {"id": 1, "v": {}}), "got object"),
    ("uint2", change("c", {"id": 1, "v": 65536}), "65536"),
    ("uint8", change("c", {"id": 1, "v": 2**64}), "is not a uint8"),
    ("bigint", change("c", {"id": 1, "v": -(2**63) - 1}), "is not a bigint"),
    ("boolean", change("c", {"id": 1, "v": "true"}), "expected boolean, got str"),
    ("text", change("u", None, _ID), "no row after the change"),
    ("text", change("c", "a"), "not a message of Debezium"),
    ("text", b'{"op": null, "after": {"id": 1}}', "no field op"),
    ("timestamptz", change("c", {"id": 1, "v": True}), "got bool"),
]


def test_a_message_with_a_known_schema_may_end_wrongly() -> None:
    found = decoder({"id": "bigint"})
    good = b'{"schema":{"fields":[]},"payload":{"op":"c","after":{"id":1}}}'
    assert found.decode(None, [good]).failures == {}
    for bad in (good[:-1] + b"]", good + b"}", good[:-2] + b"}", good + b" x"):
        again = found.decode(None, [good, bad])
        assert again.places is not None
        assert (again.places.tolist(), sorted(again.failures)) == ([0], [1])
    assert found.decode(None, [good + b" ", good]).failures == {}


@pytest.mark.parametrize(("type_", "bad", "why"), BAD)
def test_a_bad_message_fails_alone(type_: str, bad: bytes, why: str) -> None:
    good = change("c", {"id": 1, "v": None})
    found = decoder({"id": "bigint", "v": type_}).decode(None, [good, bad, good])
    assert list(found.failures) == [1]
    assert why in found.failures[1]
    assert found.places is not None
    assert found.places.tolist() == [0, 2]
    assert found.batch.to_pydict() == {"id": [1, 1], "v": [None, None], "$diff": [1, 1]}


def test_a_row_is_gone_whatever_else_is_said_of_it() -> None:
    """A failed deletion would leave the row forever, and a deletion only needs the key."""
    messages = [change("d", None, {"id": 7, "v": "not a number", "w": {"a": [1]}})]
    found = decoder({"id": "bigint", "v": "bigint", "w": "text"}).decode(None, messages)
    assert (found.failures, found.batch.to_pydict()) == ({}, {"id": [7], "v": [None], "w": [None], "$diff": [-1]})


def test_nested_deeply_is_bad() -> None:
    deep = b'{"op": "c", "after": {"id": 1, "x": ' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}}"
    assert list(decoder({"id": "bigint"}).decode(None, [deep]).failures) == [0]
