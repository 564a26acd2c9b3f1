"""The edge values of each type, and the rows of the grid, which combine the values of all columns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from sinkql import logical
from sinkql.connector_api.types import arrow_type
from sinkql.logical.expression import single
from sinkql.logical.type import parse_type

_WIDE = Context(prec=60)
_INFINITY, _NAN = float("inf"), float("nan")


def _whole(bits: int, *more: int) -> tuple[int | None, ...]:
    most = 2 ** (bits - 1) - 1
    few = (None, 0, 1, -1, most, -most - 1, 2, 7, -7, 12, most - 1, -most, 31, 100, -100, 3)
    return (*few, 5, 10, -3, 9, 23, 25, 127, -128, 4000, 1999, 13, 999, -999, *more)


def _floats(least: float, most: float, tiny: float) -> tuple[float | None, ...]:
    few = (None, 0.0, -0.0, 1.0, -1.0, _NAN, _INFINITY, -_INFINITY, 0.5, -2.5, most, -most, tiny, 1e20, 3.7, 100.0)
    more = (2.0, 1.5, 2.5, -0.5, 1e15, 123456.789, -1e-7, least, 2147483647.5, 32767.5, 9e18, 7.0, 0.1, 12345678.0)
    return (*few, *more, 1e-20, -32768.5)


_TEXTS = (
    None,
    "",
    " ",
    "a",
    "abc",
    "A",
    "aäß😀",
    "a,b,,c",
    "12",
    "%",
    "-7.5",
    "b_b",
    " abc ",
    "xabxab",
    "\\",
    "Ab Cd",
    "😀x😀y",
    "a\nb",
    "true",
    "1e3",
    "2024-02-29",
    "\u00a0x\u2003y",
    "\x0b\x0c\x1c",
    "12:30:15.25",
    "ÄÖ ü",
    "9999999999",
    "2024-11-03 01:30:00",
    "{1,2}",
    "\U0010ffff",
    "İi",
    "é",
    "\\x41ff",
)
_NEEDLES = (
    None,
    "",
    "a",
    "b",
    ",",
    "ab",
    "%",
    "_b%",
    "😀",
    " ",
    "\\",
    "A",
    "abc",
    "x",
    "ß",
    "\\%",
)
_DAYS = (
    None,
    "1970-01-01",
    "2024-02-29",
    "0001-01-01",
    "9999-12-31",
    "2024-11-03",
    "2024-03-31",
    "2000-01-01",
    "1999-12-31",
    "2024-12-30",
    "1900-01-01",
    "2023-01-01",
    "1582-10-10",
    "0099-03-01",
    "2024-10-27",
    "1601-01-01",
    "2001-01-01",
    "1969-12-31",
    "2026-12-28",
    "0100-12-31",
    "9998-01-01",
    "1847-12-01",
    "2100-02-28",
    "2020-02-29",
    "2021-01-03",
    "2024-07-04",
)
# in the repeated hour, in the skipped hour, and when the offset was not in whole minutes
_CLOCKS = (
    "00:00:00",
    "12:34:56.5",
    "00:00:00",
    "23:59:59.999999",
    "01:30:00",
    "02:30:00",
    "00:00:00.000001",
    "23:59:59.999999",
    "05:30:00",
    "06:30:00",
    "00:00:01",
    "12:00:00",
    "00:30:00",
    "01:00:00",
    "00:59:59.999999",
    "02:00:00",
    "03:00:00",
    "23:59:59.5",
    "07:08:09.123456",
    "13:00:00",
    "00:00:00",
    "10:20:30",
    "01:30:00",
    "04:05:06.789",
    "11:59:59",
    "20:15:00",
)
_NOW = tuple(
    None if day is None else datetime.fromisoformat(f"{day} {clock}") for day, clock in zip(_DAYS, _CLOCKS, strict=True)
)
_INSTANTS = (
    *_NOW,
    *map(
        datetime.fromisoformat,
        (
            "2024-11-03 05:30:00",
            "2024-11-03 06:30:00",
            "2024-10-27 00:30:00",
            "2024-10-27 01:30:00",
            "2024-03-10 07:00:00",
            "2024-03-31 01:00:00",
        ),
    ),
)
_LOCAL = (
    *_NOW,
    *map(
        datetime.fromisoformat,
        (
            "2024-11-03 01:59:59.999999",
            "2024-10-27 02:30:00",
            "2024-10-27 03:00:00",
            "2024-03-10 02:30:00",
            "2024-03-31 02:00:00",
            "2024-11-03 02:00:00",
        ),
    ),
)
_NUMERICS = (
    None,
    "0",
    "1",
    "-1",
    "0.5",
    "-2.5",
    "9999999999999999999999999999.9999999999",
    "-9999999999999999999999999999.9999999999",
    "0.0000000001",
    "-0.0000000001",
    "100",
    "3.7",
    "123456.789",
    "7",
    "2",
    "1e20",
    "0.07",
    "17246671",
    "1e27",
    "32767.5",
    "-32768.5",
    "2147483647.5",
    "9223372036854775807",
    "9223372036854775807.5",
    "0.00005",
    "1.005",
    "-12",
    "25",
    "1e10",
    "12345678901234567890.1234567891",
)
_UUIDS = (
    None,
    "00000000-0000-0000-0000-000000000000",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
)
_JSONS = (
    None,
    "null",
    "true",
    "0",
    "-1.50",
    '"a"',
    '""',
    "[]",
    "{}",
    '{"a": 1}',
    '{"a": null}',
    "[1, null]",
    '["a", 2.50]',
    '{"a": {"b": [1, {"c": null}]}}',
    '{"b": 1, "n": 1.50, "aa": 2}',
    "[[1], {}]",
    '"ä😀"',
    "12345678901234567890",
    '{"a": "x\\ny"}',
    '{"a": [0, 1]}',
    "1000",
    '"1"',
)
_INTERVALS = (
    None,
    "00:00:00",
    "1 day",
    "-1 days",
    "24:00:00",
    "1 mon",
    "30 days",
    "1 year 2 mons 3 days 04:05:06.789",
    "-00:00:00.000001",
    "-1 years -2 mons +3 days -04:05:06",
    "100 years",
    "00:30:00",
    "23:59:59.999999",
)
_BYTES = (None, b"", b"\x00", b"a", b"abc", b"\xff\x00\xfe", "ä😀".encode(), b"\x80", b"\\x41")


def _items(*given: Any) -> tuple[Any, ...]:
    return (None, (), *given)


VALUES: dict[str, tuple[str, Sequence[Any]]] = {
    "p": ("boolean", (None, True, False)),
    "h": ("smallint", _whole(16, 32766)),
    "i": ("integer", _whole(32, 32768, -32769, 65536)),
    "l": ("bigint", _whole(64, 2147483648, -2147483649, 2**53 + 1)),
    "v": ("uint2", (None, 0, 1, 2, 7, 65535, 65534, 255, 32768, 100)),
    "w": ("uint4", (None, 0, 1, 2, 7, 4294967295, 4294967294, 65536, 2147483648, 100)),
    "x": ("uint8", (None, 0, 1, 2, 7, 18446744073709551615, 18446744073709551614, 4294967296, 9223372036854775808, 9)),
    "n": ("numeric(38,10)", tuple(None if each is None else Decimal(each) for each in _NUMERICS)),
    "m": (
        "numeric(12,2)",
        tuple(
            None if each is None else Decimal(each)
            for each in (
                None,
                "0",
                "1",
                "-1",
                "0.01",
                "9999999999.99",
                "-9999999999.99",
                "2.50",
                "-2.50",
                "0.07",
                "100",
                "3.33",
            )
        ),
    ),
    "f": (
        "numeric(38,0)",
        tuple(
            None if each is None else Decimal(each)
            for each in (None, "0", "1", "-1", "9" * 38, "-" + "9" * 38, "7", "123456789012345678901234567890")
        ),
    ),
    "r": (
        "real",
        tuple(
            None if each is None else single(each)
            for each in _floats(1.1754943508222875e-38, 3.4028234663852886e38, 1e-45)
        ),
    ),
    "d": ("double precision", _floats(2.2250738585072014e-308, 1.7976931348623157e308, 5e-324)),
    "s": ("text", _TEXTS),
    "b": ("bytea", _BYTES),
    "u": ("date", tuple(None if each is None else date.fromisoformat(each) for each in _DAYS)),
    "c": ("time", (None, *map(time.fromisoformat, (*sorted(set(_CLOCKS)),)))),
    "t": ("timestamp", _LOCAL),
    "z": ("timestamptz", tuple(None if each is None else each.replace(tzinfo=UTC) for each in _INSTANTS)),
    "y": ("interval", _INTERVALS),
    "g": ("uuid", _UUIDS),
    "j": ("jsonb", _JSONS),
    "ri": ("int4range", (None, "empty", "(,)", "[1,5)", "[3,8)", "[-2147483648,7)", "(,1)", "[5,)", "[1,2147483647)")),
    "rl": ("int8range", (None, "empty", "(,)", "[1,5)", "[3,8)", "(,1)", "[5,)", "[1,9223372036854775807)")),
    "rn": ("numrange", (None, "empty", "(,)", "[1.5,2)", "(1.5,2]", "(,1]", "[2,)", "(0.1,1.5]")),
    "ru": ("daterange", (None, "empty", "(,)", "[2024-01-01,2024-02-01)", "[0001-01-01,9999-12-31)", "(,2024-01-01)")),
    "rt": (
        "tsrange",
        (
            None,
            "empty",
            "(,)",
            '["2024-01-01 00:00:00","2024-02-01 00:00:00")',
            '("2024-01-15 12:00:00.5",)',
            '(,"2024-01-15 12:00:00.5"]',
        ),
    ),
    "rz": (
        "tstzrange",
        (None, "empty", "(,)", '["2024-01-01 00:00:00+00","2024-02-01 00:00:00+00")', '("2024-01-15 12:00:00.5+00",)'),
    ),
    "ai": ("integer[]", _items((1,), (None,), (1, None, 3), (2147483647, -2147483648), (3, 2, 1), (1, 1, 2))),
    "al": ("bigint[]", _items((1,), (None,), (1, None, 3), (2**63 - 1, -(2**63)))),
    "as": (
        "text[]",
        _items(("",), ("a",), (None,), ("a", None, "b"), ("a,b", "NULL", '"'), ("😀", "a", "a"), ("A", " ")),
    ),
    "ad": ("double precision[]", _items((0.0,), (-0.0, _NAN), (None, _INFINITY), (1.5, -1.5))),
    "an": ("numeric(38,10)[]", _items((Decimal("1.5"),), (None, Decimal("0")), (Decimal("0.1"), Decimal("7")))),
    "ap": ("boolean[]", _items((True,), (None, False))),
    "au": ("date[]", _items((date(2024, 2, 29),), (None, date(1, 1, 1), date(9999, 12, 31)))),
    "at": ("timestamp[]", _items((datetime(2024, 2, 29, 12),), (None, datetime(1, 1, 1)))),
    "am": ("integer[][]", _items(((1, 2), (3, 4)), ((1,),), ((None, 2, 3),))),
    "li": ("integer list", _items((1,), (None,), (3, 2, 1))),
    "q": ("map[text=>integer]", _items((("a", 1),), (("", None), ("b", 2)))),
    "k": ("record(a integer, b text)", (None, (1, "x"), (None, None), (None, "y"))),
}
"""The type and the values of a column by its code; a second column has only the first sixteen values."""
SECOND: dict[str, Sequence[Any]] = {"s": _NEEDLES}
"""The values of a second and a third column, if they differ from the first column's."""
ACROSS, DOWN = 32, 16
ROWS = ACROSS * DOWN
PLACES = 3
COLUMNS: dict[str, str] = {f"{code}{place}": type_ for code, (type_, _) in VALUES.items() for place in range(PLACES)}


def _value(code: str, place: int, row: int) -> Any:
    found = _given(code, place, row)
    scale = parse_type(VALUES[code][0]).scale
    return found if found is None or scale is None else found.quantize(Decimal(1).scaleb(-scale), context=_WIDE)


def _given(code: str, place: int, row: int) -> Any:
    values = VALUES[code][1] if place == 0 else SECOND.get(code, VALUES[code][1])
    across, down = row % ACROSS, row // ACROSS
    if place == 0:
        return values[across % len(values)]
    few = values[:DOWN]
    return few[(down if place == 1 else 3 * across + 5 * down + across // DOWN) % len(few)]


def rows() -> list[tuple[Any, ...]]:
    """Return the rows: each value of a first column with each of a second one, and varying values of a third."""
    places = [(code, place) for code in VALUES for place in range(PLACES)]
    return [tuple(_value(code, place, row) for code, place in places) for row in range(ROWS)]


def table() -> pa.Table:
    """Return the rows as an Arrow table, with their numbers in `row_number`."""
    columns = zip(*rows(), strict=True)
    arrays = [
        pa.array(_listed(each, type_), arrow_type(parse_type(type_)))
        for each, type_ in zip(columns, COLUMNS.values(), strict=True)
    ]
    return pa.table([pa.array(range(ROWS), pa.int32()), *arrays], names=["row_number", *COLUMNS])


def _listed(values: Sequence[Any], type_: str) -> list[Any]:
    """Return values in Arrow's form: maps as pairs, and records as dictionaries."""
    found = parse_type(type_)
    if found.name == "record":
        names = [each.name for each in found.fields]
        return [None if each is None else dict(zip(names, each, strict=True)) for each in values]
    if found.name == "map":
        return [None if each is None else [{"key": key, "value": value} for key, value in each] for each in values]
    return list(values)


def columns() -> tuple[logical.Column, ...]:
    """Return the columns for the planner."""
    return tuple(logical.Column(name, parse_type(type_)) for name, type_ in COLUMNS.items())
