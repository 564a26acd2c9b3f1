"""Kinds of bad JSON messages: each fails at its place with a reason, and its neighbours decode."""

from __future__ import annotations

from decimal import Decimal

import pytest

from sinkql import physical
from sinkql.decode.messages import JsonMessages
from sinkql.logical.type import BIGINT, parse_type

BAD = [
    # the type of the column, a good value, a bad message or value, the reason
    ("text", '"a"', b"", "not a JSON object"),
    ("text", '"a"', b" ", "not a JSON object"),
    ("text", '"a"', b"{", "not a JSON object: it ends before the object does"),
    ("text", '"a"', rb'{"v": "\ud83d\ude00 \uD83D x"}', r"\uD83D is half of a character"),
    ("text", '"a"', b"null", "not a JSON object"),
    ("text", '"a"', b"[]", "not a JSON object"),
    ("text", '"a"', b"7", "not a JSON object"),
    ("text", '"a"', b'"a"', "not a JSON object"),
    ("text", '"a"', b'{"v": "a"} {}', "not a JSON object: trailing characters (byte 12)"),
    ("text", '"a"', b'{"v": "a"}\n{"v": "b"}', "not a JSON object"),
    ("text", '"a"', b'{"v": "a",}', "not a JSON object"),
    ("text", '"a"', b"{'v': 'a'}", "not a JSON object"),
    ("text", '"a"', b'{"v": "a"', "not a JSON object"),
    ("text", '"a"', b'{"v": "\xff"}', "invalid UTF-8"),
    ("text", '"a"', b'{"w": "\xff"}', "invalid UTF-8"),
    ("text", '"a"', b'\xef\xbb\xbf{"v": "a"}', "not a JSON object"),
    ("text", '"a"', b'{"id": 1, "v": "a\\u0000"}', "is not a text"),
    ("text", '"a"', b'{"v": "\\ud800"}', r"\ud800 is half of a character"),
    ("text", '"a"', b'{"v": 1}', "expected text, got int"),
    ("text", '"a"', b'{"v": true}', "expected text, got bool"),
    ("text", '"a"', b'{"v": {}}', "expected text, got object"),
    ("text", '"a"', b'{"v": []}', "expected text, got array"),
    ("text", '"a"', b'{"id": null, "v": "a"}', 'null value in column "id"'),
    ("text", '"a"', b'{"id": 1.5, "v": "a"}', 'column "id"'),
    ("text", '"a"', b'{"v": "a"}', 'null value in column "id"'),
    ("text", '"a"', b"[" * 1000 + b"]" * 1000, "nested more than"),
    ("text", '"a"', b'{"id": 2, "v": "a", "w":\nNaN}', "not a JSON object: invalid character"),
    ("text", '"a"', b'{"id": 2, "v": "a", "w": [0,\n -Infinity]}', "not a JSON object: invalid"),
    ("boolean", "true", "1", "expected boolean, got int"),
    ("boolean", "true", '"true"', "expected boolean, got str"),
    ("smallint", "1", "32768", "is not a smallint"),
    ("integer", "1", "2147483648", "is not an integer"),
    ("integer", "1", "1.5", "is not an integer"),
    ("integer", "1", '"1"', "expected integer, got str"),
    ("bigint", "1", "9223372036854775808", "is not a bigint"),
    ("bigint", "1", "-9223372036854775809", "is not a bigint"),
    ("uint2", "1", "-1", "is not a uint2"),
    ("uint4", "1", "4294967296", "is not a uint4"),
    ("uint8", "1", "18446744073709551616", "is not a uint8"),
    ("real", "1.5", "1e39", "is not a real"),
    ("double precision", "1.5", "1e400", "is not a double precision"),
    ("double precision", "1.5", "NaN", "not a JSON object"),
    ("double precision", "1.5", '"NaN"', "expected double precision, got str"),
    ("double precision", "1.5", "Infinity", "not a JSON object"),
    ("double precision", "1.5", "01", "not a JSON object"),
    ("numeric(6,2)", "1.25", "12345.6", "is not a numeric that fits"),
    ("numeric(6,2)", "1.25", "0.001", "is not a numeric that fits"),
    ("numeric(6,2)", "1.25", '"NaN"', "is not a numeric that fits"),
    ("numeric(6,2)", "1.25", "1e99999999999", "is not a numeric that fits"),
    ("date", '"2026-01-01"', '"2026-02-30"', "is not a date"),
    ("date", '"2026-01-01"', '"10000-01-01"', "is not a date"),
    ("date", '"2026-01-01"', '"infinity"', "is not a date"),
    ("date", '"2026-01-01"', "20000", "expected date, got int"),
    ("time", '"01:02:03"', '"25:00:00"', "is not a time"),
    ("timestamp", '"2026-01-01 00:00:00"', '"2026-01-01 00:00:61"', "is not a timestamp"),
    ("timestamp", '"2026-01-01 00:00:00"', '"2026-01-01 00:00:00.0000001"', "is not a timestamp"),
    ("timestamptz", '"2026-01-01T00:00:00Z"', '"2026-01-01T00:00:00"', "with its zone"),
    ("interval", '"1 day"', '"1 fortnight"', "is not an interval"),
    ("uuid", '"00000000-0000-0000-0000-000000000000"', '"0000"', "is not a uuid"),
    ("bytea", '"\\\\x00"', '"\\\\x0"', "is not a bytea"),
    ("jsonb", '{"a": 1}', '"\\u0000"', "is not JSON"),
    ("integer[]", "[1]", '["a"]', "expected integer, got str"),
    ("integer[][]", "[[1]]", "[[1], [1, 2]]", "not of one length"),
    ("text list", '["a"]', '{"a": 1}', "expected text list, got object"),
    ("map[text=>integer]", '{"a": 1}', '{"a": "1"}', "expected integer, got str"),
    ("record(a integer NOT NULL)", '{"a": 1}', '{"b": 1}', 'null value in field "a"'),
]


@pytest.mark.parametrize(("type_", "good", "bad", "why"), BAD)
def test_a_bad_message_fails_alone(type_: str, good: str, bad: bytes | str, why: str) -> None:
    columns = (physical.Column("id", BIGINT, nullable=False), physical.Column("v", parse_type(type_)))
    right = f'{{"id": 1, "v": {good}}}'.encode()
    wrong = bad if isinstance(bad, bytes) else f'{{"id": 2, "v": {bad}}}'.encode()
    decoder = JsonMessages(columns, whole=False)
    alone = decoder.decode([right])
    assert not alone.failures
    for count in (1, 40):  # few messages are decoded one by one, many together
        found = decoder.decode([*[right] * count, wrong, *[right] * count])
        assert list(found.failures) == [count]
        assert why in found.failures[count]
        assert found.batch.num_rows == 2 * count + 1
        for place in (count - 1, count + 1):
            assert found.batch.slice(place, 1).equals(alone.batch)


@pytest.mark.parametrize("apart", [1, 2, 7, 50])
def test_many_messages_that_fail_leave_the_others_as_they_are(apart: int) -> None:
    columns = (physical.Column("id", BIGINT), physical.Column("v", parse_type("numeric(6,2)")))
    messages = [
        b'{"id": 1, "v": "x"}' if place % apart == 0 else f'{{"id": {place}, "v": {place}.5}}'.encode()
        for place in range(1000)
    ]
    found = JsonMessages(columns, whole=False).decode(messages)
    assert sorted(found.failures) == list(range(0, 1000, apart))
    rows = found.batch.to_pylist()
    assert [rows[place] for place in range(1000) if place % apart] == [
        {"id": place, "v": Decimal(place) + Decimal("0.50")} for place in range(1000) if place % apart
    ]
