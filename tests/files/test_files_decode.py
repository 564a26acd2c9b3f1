"""Text → typed values, equal on the fast path and line by line."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import pyarrow as pa
import pytest

from sinkql.decode.json_lines import JsonDecoder
from sinkql.decode.text_column import Failures, from_text
from sinkql.logical.jsonb import jsonb
from sinkql.logical.type import BIGINT, JSONB, SMALLINT, parse_type
from sinkql.physical import Column

_TYPES = (
    "boolean", "smallint", "integer", "bigint", "real", "double precision", "text", "date", "timestamp", "timestamptz",
    "numeric(10,2)", "uuid", "bytea",
)  # fmt: skip
_TEXTS = (
    "1", "1.0", "-0", "1e3", "32768", "2147483648", "9223372036854775807", "9223372036854775808", "1e400", "NaN",
    "true", '"true"', '""', '"x"', '"\\ud83d\\ude00"', '"\\ud800"', "null", "[]", "{}", '"2024-02-29"', '"2023-02-29"',
    '"2024-02-29 01:02:03"', '"2024-02-29T01:02:03.123456Z"', '"2024-02-29 01:02:03+05:30"', '"2024-1-1"', "5",
)  # fmt: skip


@pytest.mark.parametrize("type_", _TYPES)
@pytest.mark.parametrize("text", _TEXTS)
def test_blocks_and_lines_decode_alike(type_: str, text: str) -> None:
    columns = (Column("a", parse_type(type_)),)
    block = f'{{"a": {text}}}'.encode()
    fast, line_by_line = JsonDecoder(columns), JsonDecoder(columns)
    line_by_line._schema = None
    assert [*line_by_line.decode(BytesIO(block))] == [*fast.decode(BytesIO(block))]


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("numeric(38,10)", "0.1", Decimal("0.1000000000")),
        ("numeric(38,10)", "1.50000000000000", Decimal("1.5000000000")),
        ("numeric(38,10)", "0.12345678901", None),
        ("numeric(12,2)", "12345678901", None),
        ("numeric(12,2)", "NaN", None),
        ("numeric(12,2)", "x", None),
        ("numeric(12,2)", "", None),
        ("bigint", "9223372036854775808", None),
        ("real", "0.1", 0.10000000149011612),
        ("double precision", "0x10", None),
        ("date", "2024-02-29", date(2024, 2, 29)),
        ("date", "2024-2-9", date(2024, 2, 9)), ("date", "2024-2", None),
        ("timestamp", "2024-01-02 03:04:05.000006", datetime(2024, 1, 2, 3, 4, 5, 6)),
        ("timestamp", "2024-01-02 03:04:05.0000067", None),
        ("timestamptz", "2024-01-02T03:04:05Z", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("timestamptz", "2024-01-02T03:04:05", None),
        ("uuid", "A0EEBC999C0B4EF8BB6D6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("uuid", "a0eebc99", None),
        ("bytea", "\\x00FF", b"\x00\xff"),
        ("bytea", "00FF", b"00FF"),
        ("boolean", "t", True),
        ("boolean", "2", None),
    ],
)  # fmt: skip
def test_a_text_gives_its_value_or_a_failure(type_: str, text: str, value: object) -> None:
    failures: Failures = {}
    array = from_text(pa.array([text, None], pa.string()), parse_type(type_), failures)
    assert [value, None] == array.to_pylist()
    assert ([0] if value is None else []) == list(failures)


def test_a_jsonb_is_printed_as_postgres_prints_it() -> None:
    text = '{"bb": 1.50, "a": [true, null, "\\u00e9"], "c": 1e2, "a": {"x": -0}}'
    assert jsonb(text) == '{"a": {"x": 0}, "c": 100, "bb": 1.50}'


def _decode(decoder: JsonDecoder, text: bytes) -> tuple[list[dict[str, Any]], dict[int, str]]:
    parts = list(decoder.decode(BytesIO(text)))
    rows = [row for part in parts for row in part.batch.to_pylist()]
    failures = [failure for part in parts for failure in part.failures]
    assert len(rows) + len(failures) == sum(part.records for part in parts)
    lines = text.split(b"\n")
    assert [lines[failure.line - 1] for failure in failures] == [failure.raw for failure in failures]
    return rows, {failure.line: failure.message for failure in failures}


def test_a_line_that_is_no_object_fails_alone() -> None:
    decoder = JsonDecoder((Column("a", BIGINT, nullable=False),))
    rows, failures = _decode(decoder, b'{"a":1}\n[2]\n\n{"a":3}\nnull\n{}\n{"a":null}\n{"a":6} {"a":7}\n')
    assert [row["a"] for row in rows] == [1, 3]
    assert list(failures) == [2, 5, 6, 7, 8]


@pytest.mark.parametrize("text", [b"null", b"null\n", b'{"a": 1}\nnull\n{"a": 2}\n', b"null\nnull\n"])
def test_a_line_of_null_is_no_row(text: bytes) -> None:
    rows, failures = _decode(JsonDecoder((Column("a", BIGINT),)), text)
    assert text.count(b"null") == len(failures)
    assert text.count(b"{") == len(rows)


def test_a_failure_tells_what_was_found() -> None:
    _, failures = _decode(
        JsonDecoder((Column("a", parse_type("numeric(4,1)")), Column("b", SMALLINT))),
        b'{"a": "x"}\n{"a": true}\n{"b": 40000}\n{"b": "1"}\n',
    )
    assert failures == {
        1: 'column "a": x is not a numeric that fits',
        2: 'column "a": expected numeric(4,1), got bool',
        3: 'column "b": 40000 is not a smallint',
        4: 'column "b": expected smallint, got str',
    }


def test_whole_lines_become_one_jsonb_column() -> None:
    rows, failures = _decode(
        JsonDecoder((Column("data", JSONB, nullable=False),), whole=True),
        json.dumps({"b": 1, "a": "x"}).encode() + b"\nnope\nnull\n\xff\n",
    )
    assert [row["data"] for row in rows] == ['{"a": "x", "b": 1}', "null"]
    assert list(failures) == [2, 4]
