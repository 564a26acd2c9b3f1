"""Text → typed values, the same by the fast way and line by line."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from sinkql.connectors.files.convert import Failures, from_text, jsonb
from sinkql.connectors.files.json_lines import JsonLines
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
    columns = (Column("a", type_),)
    block = f'{{"a": {text}}}'.encode()
    fast, line_by_line = JsonLines(columns), JsonLines(columns)
    line_by_line._fast = None
    assert line_by_line.decode(block)[:2] == fast.decode(block)[:2]


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
        ("date", "2024-2-9", None),
        ("timestamp", "2024-01-02 03:04:05.000006", datetime(2024, 1, 2, 3, 4, 5, 6)),
        ("timestamp", "2024-01-02 03:04:05.0000067", None),
        ("timestamptz", "2024-01-02T03:04:05Z", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("timestamptz", "2024-01-02T03:04:05", None),
        ("uuid", "A0EEBC999C0B4EF8BB6D6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("uuid", "a0eebc99", None),
        ("bytea", "\\x00FF", b"\x00\xff"),
        ("bytea", "00FF", None),
        ("boolean", "t", True),
        ("boolean", "2", None),
    ],
)  # fmt: skip
def test_a_text_gives_its_value_or_a_failure(type_: str, text: str, value: object) -> None:
    failures: Failures = {}
    array = from_text(pa.array([text, None], pa.string()), type_, failures)
    assert [value, None] == array.to_pylist()
    assert ([0] if value is None else []) == list(failures)


def test_a_jsonb_is_printed_as_postgres_prints_it() -> None:
    text = '{"bb": 1.50, "a": [true, null, "\\u00e9"], "c": 1e2, "a": {"x": -0}}'
    assert jsonb(text) == '{"a": {"x": 0}, "c": 100, "bb": 1.50}'


def test_a_line_that_is_no_object_fails_alone() -> None:
    decoder = JsonLines((Column("a", "bigint", nullable=False),))
    batch, failures, lines = decoder.decode(b'{"a":1}\n[2]\n\n{"a":3}\n{}\n{"a":null}\n{"a":6} {"a":7}\n')
    assert batch.column("a").to_pylist() == [1, 3]
    assert sorted(failures) == [1, 3, 4, 5]
    assert lines[1] == b"[2]"


def test_a_failure_tells_what_was_found() -> None:
    _, failures, _ = JsonLines((Column("a", "numeric(4,1)"), Column("b", "smallint"))).decode(
        b'{"a": "x"}\n{"a": true}\n{"b": 40000}\n'
    )
    assert failures == {
        0: 'column "a": expected numeric(4,1), got a text that is no number',
        1: 'column "a": expected numeric(4,1), got bool',
        2: 'column "b": 40000 is not a smallint',
    }


def test_whole_lines_become_one_jsonb_column() -> None:
    batch, failures, _ = JsonLines((Column("data", "jsonb", nullable=False),), whole=True).decode(
        json.dumps({"b": 1, "a": "x"}).encode() + b"\nnope\n"
    )
    assert batch.column("data").to_pylist() == ['{"a": "x", "b": 1}']
    assert list(failures) == [1]
