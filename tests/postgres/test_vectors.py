"""Edge values of each type, read from a real server in three ways, equal the server's JSON."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from sinkql.connector_api.cdc import CapturedTable, RowsChanged, TableRows
from sinkql.connectors.postgres.column import binary_as_text
from sinkql.connectors.postgres.type import server_table
from support.postgres import Postgres

from .reading import Reading, tables

pytestmark = pytest.mark.server

TYPES = """
CREATE TYPE mood AS ENUM ('sad', 'it''s "ok"', 'größer');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE DOMAIN cents AS numeric(12, 2);
CREATE TYPE point3 AS (x int, "Y y" numeric, z text[]);
CREATE TYPE line3 AS (a point3, b point3, at timestamptz);
"""
FIT: Mapping[str, list[str]] = {
    "boolean": ["true", "false"],
    "smallint": ["-32768", "32767", "0", "-1"],
    "int": ["-2147483648", "2147483647", "0"],
    "bigint": ["-9223372036854775808", "9223372036854775807", "1"],
    "oid": ["0", "4294967295"],
    "real": ["0", "-0", "1e-45", "3.4028235e38", "NaN", "Infinity", "-Infinity", "0.1"],
    "double precision": ["0", "-0", "5e-324", "1.7976931348623157e308", "NaN", "Infinity", "-Infinity", "0.1"],
    "numeric": [
        "0", "-0.0000000001", "1e27", "9999999999999999999999999999.9999999999",
        "-9999999999999999999999999999.9999999999",
        "0.1000000000", "12345678.9", "100000000", "99999999.9999999999", "1.0000", "0.0001", "10000", "-1e-10",
    ],
    "numeric(5, 2)": ["999.99", "-999.99", "0.01", "0"],
    "numeric(38, 38)": ["0.12345678901234567890123456789012345678", "-0.99999999999999999999999999999999999999"],
    "numeric(38)": ["99999999999999999999999999999999999999", "-1"],
    "numeric(3, -2)": ["12300", "-99900"],
    "date": ["0001-01-01", "9999-12-31", "1970-01-01", "2000-02-29", "1582-10-10"],
    "time": ["00:00", "23:59:59.999999", "12:34:56.5"],
    "time(0)": ["12:34:56"],
    "timestamp": [
        "0001-01-01 00:00", "9999-12-31 23:59:59.999999", "1969-12-31 23:59:59.999999", "2024-01-01 00:00:00.5",
    ],
    "timestamptz": [
        "0001-01-01 00:00+00", "9999-12-31 23:59:59.999999+00", "2024-03-31 02:30+02", "1900-01-01 00:00-05:30",
    ],
    "interval": [
        "0", "1 day", "-1 day 02:03:04.000005", "1 year 2 mons 3 days 04:05:06", "178000000 years", "-178000000 years",
        "1 mon -1 day", "2562047788:00:54.775807", "00:00:00.1",
    ],
    "text": ["", " ", "NULL", "a\\b''c\"d", "😀 größer", "line\nfeed\ttab\r", "\x01\x7f", "null", "{}", "\\N"],
    "varchar(5)": ["", "größe", "a    "],
    "char(3)": ["", "a", "abc"],
    "name": ["x", "größer"],
    "bytea": ["", "\\x00", "\\x00ff7f80", "\\x5c27"],
    "uuid": [
        "00000000-0000-0000-0000-000000000000", "FFFFFFFF-ffff-ffff-ffff-ffffffffffff",
        "a0eebc999c0b4ef8bb6d6bb9bd380a11",
    ],
    "json": ['{"b": 1, "a": [1.50, null, true]}', "1e3", '"\\u00e9"', "null", '{"a": {"a": "\\"}"}}', "[]"],
    "jsonb": ['{"b": 1, "a": [1.50, null, true]}', "1e3", '"\\u00e9"', "null", "123456789012345678901234567890.5"],
    "mood": ["sad", "it's \"ok\"", "größer"],
    "positive": ["1", "2147483647"],
    "cents": ["-9999999999.99", "0.1"],
    "int[]": ["{}", "{1}", "{1,NULL,-3}", "{2147483647}"],
    "int[][]": ["{{1,2},{3,4}}", "{}", "{{NULL}}"],
    "text[]": ["{}", '{"",NULL,"null","a,b","{x}","q\\"q","b\\\\s"}', "{😀}"],
    "numeric(10, 3)[]": ["{1.5,NULL,-9999999.999}"],
    "timestamptz[]": ['{"2024-01-01 00:00+01",NULL}'],
    "boolean[]": ["{t,f,NULL}"],
    "jsonb[]": ['{"{\\"a\\": 1}",NULL}'],
    "mood[]": ['{sad,"größer"}'],
    "point3": ['(1,2.5,"{a,NULL}")', "(,,)", '(-1,0.0000000001,"{}")', '(2,,"{""x y"",""""}")'],
    "point3[]": ['{"(1,2.5,\\"{a}\\")",NULL}', "{}"],
    "line3": ['("(1,2.5,{a})",,"2024-01-01 00:00+00")', '(,"(,,{})",)'],
    "int4range": ["empty", "[1,5)", "(1,5]", "(,)", "[,3]", "[-2147483648,2147483646]", "(1,2)"],
    "int8range": ["[1,9223372036854775806]", "(,5)"],
    "numrange": ["[1.50,2)", "(,0.0000000001]", "empty", "[1,1]", "(1,1)"],
    "daterange": ["[2024-01-01,2024-12-31]", "(,2024-01-01)", "empty"],
    "tsrange": ['["2024-01-01 00:00","2024-01-02 12:30:00.5")', "(,)"],
    "tstzrange": ['["2024-01-01 00:00+01",)', "empty"],
}  # fmt: skip
"""Types, and texts of values that are read exactly."""
UNFIT: Mapping[str, list[str]] = {
    "numeric": ["NaN", "Infinity", "-Infinity", "1e28", "0.00000000001", "1e1000", "1e-1000"],
    "date": ["infinity", "-infinity", "0001-12-31 BC", "10000-01-01", "5874897-12-31"],
    "time": ["24:00"],
    "timestamp": ["infinity", "-infinity", "0044-03-15 00:00 BC", "10000-01-01 00:00", "294276-12-31 23:59:59"],
    "timestamptz": ["infinity", "-infinity", "0044-03-15 00:00+00 BC", "10000-01-01 00:00+00"],
    "interval": ["infinity", "-infinity"],
    "json": ['{"a": 1e999999}', '"\\u0000"'],
    "int[]": ["{{1,2}}", "[0:1]={1,2}"],
    "int[][]": ["{1}", "[2:2][1:1]={{5}}"],
    "date[]": ["{infinity}"],
    "point3": ['(1,NaN,"{}")'],
    "numeric[]": ["{1,NaN}"],
    "numrange": ["(,0.00000000001]", "[1e28,)", "[NaN,NaN]"],
    "daterange": ["[2024-01-01,infinity]"],
    "tsrange": ["[-infinity,2024-01-01)"],
}
"""Types, and texts of values that SinkQL cannot hold: each is a row error."""


def test_vectors(postgres: Postgres, postgres_database: str) -> None:
    names = {type_: f"t{number}" for number, type_ in enumerate(dict.fromkeys([*FIT, *UNFIT]))}
    postgres.execute(TYPES, postgres_database)
    for type_, name in names.items():
        postgres.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, v {type_})", postgres_database)
    postgres.execute(
        "CREATE TABLE other (id int PRIMARY KEY, mac macaddr); CREATE PUBLICATION p FOR ALL TABLES", postgres_database
    )
    found = tables(postgres, postgres_database, as_text={"mac"})
    assert not any(binary_as_text(each.type) for each in server_table(found["other"].options).columns if each.as_text)
    other = {"other": found["other"]}
    plain = {name: found[name] for name in names.values()}
    binary, text = (Reading(postgres, postgres_database, of) for of in (plain, plain | other))
    for each in (binary, text):
        each.begin()
    with postgres.connect(postgres_database) as writer:
        for type_, name in names.items():
            values = [None, *FIT.get(type_, ()), *UNFIT.get(type_, ())]
            rows = list(enumerate(values))
            writer.cursor().executemany(f"INSERT INTO {name} VALUES (%s, %s)", rows)
    ways: list[dict[str, list[TableRows]]] = [
        _streamed(binary),
        _streamed(text),
        {name: _copied(binary, table) for name, table in plain.items()},
    ]
    for type_, name in names.items():
        fit = [None, *FIT.get(type_, ())]
        asked = f"SELECT to_json(v)::text, v::text FROM {name} WHERE id < {len(fit)} ORDER BY id"
        expected = postgres.execute("SET TimeZone = 'UTC'; " + asked, postgres_database)
        for way, found_rows in zip(("binary", "text", "copy"), ways, strict=True):
            values = _values(found_rows[name])
            assert len(values) == len(fit), (type_, way)
            for value, (said, shown), literal in zip(values, expected, fit, strict=True):
                assert same(value, said, shown, type_), (type_, way, literal, value, said)
            failed = [error.message for rows in found_rows[name] for error in rows.errors]
            assert len(failed) == len(UNFIT.get(type_, ())), (type_, way, failed)
            assert all(message.startswith('column "v": ') for message in failed)
    assert sum(map(len, [*FIT.values(), *UNFIT.values()])) >= 150
    for each in (binary, text):
        each.stream.close()


def _streamed(reading: Reading) -> dict[str, list[TableRows]]:
    found: dict[str, list[TableRows]] = {}
    for each in reading.read():
        if isinstance(each, RowsChanged):
            for name, parts in each.tables.items():
                found.setdefault(name, []).extend(parts)
    return found


def _copied(reading: Reading, table: CapturedTable) -> list[TableRows]:
    with reading.stream.chunk(table) as chunk:
        return list(chunk.read(None, 1 << 20).rows)


def _values(parts: list[TableRows]) -> list[Any]:
    """Return the values of the inserted rows; a row whose long value does not fit deletes the row with its key."""
    for each in parts:
        each.rows.validate(full=True)
    return [row["v"] for each in parts for row in each.rows.to_pylist() if row["$diff"] > 0]


def same(value: Any, said: str | None, shown: str | None, type_: str) -> bool:
    """Return whether a value equals the JSON and the text that the server has for it."""
    if value is None or shown is None:
        return value is None and shown is None
    if type_ in ("json", "jsonb"):
        return bool(json.loads(value, parse_float=Decimal) == json.loads(shown, parse_float=Decimal))
    if type_ == "interval" or type_.startswith("char("):
        return bool(value == shown)  # the server's text of a char has no trailing blanks
    if type_.endswith("range"):
        return bool(_range(value, type_) == _range(shown, type_))
    assert said is not None
    return _equal(value, json.loads(said, parse_float=Decimal, parse_int=Decimal))


def _range(text: str, type_: str) -> Any:
    if text == "empty":
        return text
    lower, upper = text[1:-1].replace('"', "").split(",")
    bounds = [each and (Decimal(each) if type_ == "numrange" else each) for each in (lower, upper)]
    return text[0], *bounds, text[-1]


def _equal(value: Any, said: Any) -> bool:
    match value:
        case None | bool():
            return value is said
        case dict():
            return value.keys() == said.keys() and all(_equal(value[each], said[each]) for each in value)
        case list():
            return len(value) == len(said) and all(map(_equal, value, said))
        case float():
            number = float(said)
            same = math.isnan(value) and math.isnan(number)
            return (
                same
                or (value == number and math.copysign(1, value) == math.copysign(1, number))
                or _single(value, said)
            )
        case int() | Decimal():
            return bool(value == Decimal(said))
        case datetime():
            return bool(value == datetime.fromisoformat(said))
        case date() | time():
            return bool(value == type(value).fromisoformat(said))
        case bytes():
            return bool("\\x" + value.hex() == said)
        case str() if isinstance(said, dict | list | Decimal):
            return bool(json.loads(value, parse_float=Decimal, parse_int=Decimal) == said)
        case _:
            return bool(value == said)


def _single(value: float, said: Any) -> bool:
    """Return whether a real equals the server's number, which has fewer digits."""
    return struct.pack("f", value) == struct.pack("f", float(said))
