"""JSON lines → rows: equal through Arrow, line by line and in Python's parser; no line is lost or invented."""

from __future__ import annotations

import json
import random
from functools import cache
from io import BytesIO
from typing import Any

import pyarrow as pa
import pytest

from sinkql.connector_api.stream import RowFailure
from sinkql.connector_api.types import arrow_type
from sinkql.decode.json_lines import _PIECE, JsonDecoder, _endless, _lines
from sinkql.decode.messages import JsonMessages
from sinkql.decode.text_value import value_of
from sinkql.logical.jsonb import nested_deeply
from sinkql.logical.type import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DATE,
    DOUBLE,
    INTEGER,
    JSONB,
    NUMERIC,
    REAL,
    TEXT,
    TIMESTAMPTZ,
    UUID,
    parse_type,
)
from sinkql.physical import Column

_COLUMNS = (
    Column("i", INTEGER), Column("b", BIGINT), Column("r", REAL), Column("d", DOUBLE),
    Column("n", parse_type("numeric(12,2)")), Column("w", NUMERIC), Column("y", BOOLEAN), Column("t", TEXT),
    Column("at", TIMESTAMPTZ), Column("day", DATE), Column("id", UUID), Column("raw", BYTEA),
)  # fmt: skip
_JSONB = (*_COLUMNS, Column("j", JSONB))
_GOOD = {
    "i": ("0", "-0", "2147483647", "-2147483648", "null"),
    "b": ("9223372036854775807", "-9223372036854775808", "null", "7"),
    "r": ("0.1", "0", "-0.0", "1e38", "1e-45", "3.4028235e38", "7", "1.00000017881393432617187499", "null"),
    "d": ("0.1", "0", "-0.0", "1e308", "5e-324", "1e-5", "7", "null"),
    "n": ("0.1", "1234567890.12", "1e3", "-0", '"5.25"', "1.500000", "null"),
    "w": ("0.0000000001", "9999999999999999999999999999.9999999999", "1e27", "null"),
    "y": ("true", "false", "null"),
    "t": (
        '"x"',
        '""',
        '"the-end"',
        '"7e-12-3E-4"',
        '"1e-5 "',
        '"00000000000000000000000000000000000000000000"',
        '"\\u00e9"',
        '"é😀"',
        '"\\ud83d\\ude00"',
        '"a\\nb\\t\\"\\\\"',
        '"{"',
        "null",
    ),
    "at": ('"2024-02-29 12:30:45Z"', '"2024-02-29T12:30:45.123456+05:30"', "null"),
    "day": ('"2024-02-29"', '"0001-01-01"', "null"),
    "id": ('"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"', '"{A0EEBC999C0B4EF8BB6D6BB9BD380A11}"', "null"),
    "raw": ('"\\\\x00ff"', '"abc"', "null"),
    "j": ('{"b": 1, "a": [1.50, 1e2]}', "[]", "1e400", "null", '"x"', "-0"),
    "more": ("[1, {}]", '"\\u0000"', "1e999", "{}"),
}
_BAD = (
    "1.0", "1e3", "2147483648", "9223372036854775808", "1e39", "1e-46", "1e300", "1e400", "1e-400", f"0.{'0' * 50}1",
    "3.4028235e38", "8611770808369993248845925856177", "0.12345678901", "999999999999", "NaN", "Infinity", "-Infinity",
    "01", "1.", ".5", "+1", "-", "1e", "0x10", "nul", "True", "'x'", '"NaN"', '"12"', '" 12"', "tru", "", '"\\u0000"',
    '"\\ud800"', '"\\udc00x"', '"\ud800"', '"\x01"', '"\\x"', '"a\tb"', "[1,]", "{,}", "[" * 450 + "]" * 450,
    "[" * 5000,
    '"2024-02-30"', '"2024-02-29 05+01"', '"0000-01-01"', '"2024-02-29 12:30:45"', '"2024-02-29 12:30+16"',
    '"a0eebc99"', '"\\\\x0"', '"\\\\400"', "1e999999999", "[1e999999999]", "//", "/* */1", "1 2", "1}{", "{}", "[]",
)  # fmt: skip
_NO_OBJECTS = (
    b"null", b"[]", b"1", b'"x"', b"{", b"}", b"{}{}", b"{} {}", b'{"i": 1}}', b"\xef\xbb\xbf{}", b"\xff", b"\0",
    b'{"t": "\xff"}', b'{"more": "\xff"}', b'{"i": 1,}', b'{"i" 1}', b"{'i': 1}", b'{"i": 1} x', b'{"t": "\0"}',
)  # fmt: skip
_BLANK = (b"", b" ", b"\t", b"\r")


def _line(seed: random.Random, columns: tuple[Column, ...], wild: float) -> bytes:
    if seed.random() < wild / 4:
        return seed.choice(_NO_OBJECTS)
    if seed.random() < wild / 8:
        return seed.choice(_BLANK)
    names = [column.name for column in columns if seed.random() < 0.9]
    members = [(name, seed.choice(_GOOD[name] if seed.random() >= wild / 8 else _BAD)) for name in names]
    if seed.random() < 0.1:
        members.append(("more", seed.choice(_GOOD["more"] if seed.random() >= wild else _BAD)))
    if seed.random() < wild / 8 and members:
        members.append(seed.choice(members))
    seed.shuffle(members)
    blank = seed.choice(("", " "))
    text = "{" + ",".join(f'{blank}"{name}":{blank}{value}' for name, value in members) + "}"
    return text.encode(errors="surrogatepass") + seed.choice((b"", b"", b"\r", b" "))


def _decoded(decoder: JsonDecoder, block: bytes) -> tuple[list[dict[str, Any]], list[RowFailure], int]:
    parts = list(decoder.decode(BytesIO(block)))
    rows = [row for part in parts for row in part.batch.to_pylist()]
    return rows, [failure for part in parts for failure in part.failures], sum(part.records for part in parts)


class _Number(str):
    __slots__ = ()


def _expected(line: bytes, columns: tuple[Column, ...]) -> dict[str, Any] | None:
    """Return the row of a line by Python's parser and the values of texts; None if the line is refused."""
    try:
        found = json.loads(line.decode(), parse_float=_Number, parse_int=_Number, parse_constant=_no_constant)
        if not isinstance(found, dict) or nested_deeply(line.decode()):
            return None
        json.dumps(found, ensure_ascii=False).encode()
        return {column.name: _value(found.get(column.name), str(column.type)) for column in columns}
    except (ValueError, RecursionError):
        return None


def _no_constant(text: str) -> Any:
    raise ValueError(text)


def _value(value: Any, type_: str) -> Any:
    if value is None or (type_ == "boolean" and isinstance(value, bool)):
        return value
    if type_ == "jsonb":
        return _document(value)
    number = type_.startswith(("integer", "bigint", "real", "double", "numeric"))
    texts = not number or type_.startswith("numeric")
    if not isinstance(value, str) or (isinstance(value, _Number) and not number) or (type(value) is str and not texts):
        raise ValueError(value)
    return _in_a_column(str(value), type_)


@cache
def _in_a_column(text: str, type_: str) -> Any:
    return pa.array([value_of(text, parse_type(type_))], arrow_type(parse_type(type_))).to_pylist()[0]


def _document(value: Any) -> str | None:
    """Return a scalar's document; check the scalars of others."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            _document(each)
        return None
    return str(value_of(str(value) if isinstance(value, _Number) else json.dumps(value), JSONB))


@pytest.mark.long
@pytest.mark.parametrize("blocks", [8, pytest.param(48, marks=pytest.mark.soak)])
def test_lines_are_read_as_they_say_in_either_way(blocks: int) -> None:
    seed, lines_seen, at_once = random.Random(9), 0, 0
    for columns in (_COLUMNS, _COLUMNS, _COLUMNS, _JSONB):
        for _ in range(blocks):
            wild = seed.choice((0.0, 0.0, 0.01, 0.2, 1.0))
            lines = [_line(seed, columns, wild) for _ in range(seed.choice((1, 5, 100, 400)))]
            block = b"\n".join(lines) + seed.choice((b"", b"\n"))
            fast, line_by_line = JsonDecoder(columns), JsonDecoder(columns)
            line_by_line._schema = None
            rows, failures, records = _decoded(fast, block)
            assert repr(_decoded(line_by_line, block)) == repr((rows, failures, records))
            whole = [(number, line) for number, line in enumerate(block.split(b"\n"), 1) if line.strip(b" \t\r")]
            assert len(whole) == records == len(rows) + len(failures)
            expected = [(number, line, _expected(line, columns)) for number, line in whole]
            assert [(number, line) for number, line, row in expected if row is None] == [
                (failure.line, failure.raw) for failure in failures
            ]
            good = [row for _, _, row in expected if row is not None]
            assert repr([_plain(row) for row in good]) == repr([_plain(row) for row in rows])
            lines_seen += records
            at_once += fast._schema is not None and not failures
    assert lines_seen > 300 * blocks
    assert at_once > blocks // 3


def test_messages_are_read_alike_all_at_once_and_one_by_one() -> None:
    """Messages may contain line ends anywhere, which do not divide them."""
    seed, seen = random.Random(5), 0
    for columns in (_COLUMNS, _JSONB):
        exact = JsonMessages(columns, whole=False)
        exact._decoder._schema = None
        for count in (3, 60, 150, 150):
            wild = seed.choice((0.0, 0.01, 0.3))
            messages = [_line(seed, columns, wild) for _ in range(count)]
            for place in seed.sample(range(count), count // seed.choice((3, 50))):
                other = (messages[place].replace(b",", b"\n,", 1), messages[place] + b"\n{}", messages[place][:-3], b"")
                messages[place] = seed.choice(other)
            found = JsonMessages(columns, whole=False).decode(messages)
            assert found.batch.num_rows == count
            for place, (message, row) in enumerate(zip(messages, found.batch.to_pylist(), strict=True)):
                alone = exact.decode([message])
                assert found.failures.get(place) == alone.failures.get(0)
                assert alone.failures or repr(alone.batch.to_pylist()) == repr([row])
                seen += not alone.failures
    assert seen > 400


def test_words_that_look_like_exponents_are_no_reason_to_go_line_by_line() -> None:
    line = b'{"d": 0, "r": 0.5, "t": "one-two 7e-12-3", "id": "a0eebc9e-9c0e-4efe-bb6e-6bb9bd380a11", "w": 0}'
    decoder = JsonDecoder(_COLUMNS)
    for end, at_once in ((b'{"d": 7}', True), (b'{"d": 7e-1}', False), (b'{"d": 0.%s1}' % (b"0" * 40), False)):
        block = b"\n".join([line] * 50 + [end])
        assert (decoder._read_with_arrow(_lines(block)) is not None) == at_once


def test_only_numbers_that_are_read_as_zero_are_looked_at_where_these_are_few() -> None:
    decoder = JsonDecoder(_COLUMNS)
    for end, at_once in (
        (b'{"d": 7e-1}', True),
        (b'{"d": 0, "t": "7e-1x"}', True),
        (b'{"d": 7e-400}', False),
        (b'{"r": 1e-46}', False),
        (b'{"d": 0.%s1}' % (b"0" * 400), False),
    ):
        for place in (0, 50):
            lines = [b'{"d": 0.5, "r": 3e-7}'] * 50
            lines.insert(place, end)
            assert (decoder._read_with_arrow(_lines(b"\n".join(lines))) is not None) == at_once


@pytest.mark.parametrize("word", [b"NaN", b"Inf", b"-Infinity"])
def test_a_number_without_an_end_is_found_wherever_it_is(word: bytes) -> None:
    for place in range(_PIECE - 5, _PIECE + 5):
        begin = b'{"t": "In: Nab'.ljust(place - 6, b"N") + b'","x":'
        assert _endless(begin + word + b"}")
        assert not _endless(begin + b'"' + word + b'"}')


@pytest.mark.parametrize("more", ["NaN", "Infinity", "[-Inf]", "[" * 450 + "]" * 450])
def test_members_that_no_column_has_are_those_of_json_among_many_lines(more: str) -> None:
    good = '{"i": 1, "t": "' + "}]" * 300 + ': NaN", "more": [' + "[],{}," * 300 + "[]]}"
    block = "\n".join([good] * 50 + ['{"i": 2, "more": ' + more + "}"] + [good] * 50).encode()
    rows, failures, _ = _decoded(JsonDecoder(_COLUMNS), block)
    assert len(rows) == 100
    assert [failure.line for failure in failures] == [51]


def test_brackets_are_no_reason_to_go_line_by_line() -> None:
    block = b"\n".join([b'{"t": "Info: %s", "more": [%s0]}' % (b"[" * 500, b"[],{}," * 500)] * 50)
    assert JsonDecoder(_COLUMNS)._read_with_arrow(_lines(block)) is not None


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without arrays and objects in jsonb, which `test_jsonb` covers."""
    return {name: None if name == "j" and str(value)[:1] in ("{", "[") else value for name, value in row.items()}


@pytest.mark.parametrize(
    "member",
    ['"r": 1e-46', '"r": 1e300', '"d": 1e-400', '"d": 0.' + "0" * 400 + "1", '"d": 1e400', '"w": 9e37', '"i": 0x1'],
)
def test_a_number_out_of_range_fails_its_line_alone(member: str) -> None:
    lines = ['{"r": 0, "d": 0, "w": 1, "i": 1}'] * 100
    lines[70] = f"{{{member}}}"
    rows, failures, _ = _decoded(JsonDecoder(_COLUMNS), "\n".join(lines).encode())
    assert (len(rows), [failure.line for failure in failures]) == (99, [71])
