"""Columns read as text have the same text in the initial snapshot and in the stream: the output function's."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from postgres.test_vectors import FIT, TYPES
from support.postgres import Postgres

from .reading import Reading, tables

pytestmark = pytest.mark.server

_MORE = """
CREATE FUNCTION odd_in(cstring) RETURNS odd LANGUAGE internal IMMUTABLE STRICT AS 'int4in';
CREATE FUNCTION odd_out(odd) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
CREATE TYPE odd (INPUT = odd_in, OUTPUT = odd_out, LIKE = int4);
CREATE FUNCTION odd_text(odd) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'a cast, and no output'::text $$;
CREATE CAST (odd AS text) WITH FUNCTION odd_text(odd);
CREATE DOMAIN host AS inet;
CREATE DOMAIN code AS char(4);
CREATE DOMAIN doc AS jsonb;
CREATE DOMAIN whole_doc AS doc CHECK (VALUE IS NOT NULL OR TRUE);
CREATE TYPE pair AS (host inet, flag boolean, code char(3), doc jsonb);
CREATE TYPE odd_range AS RANGE (SUBTYPE = text);
"""
_OWN = ("odd", "odd[]", "host", "host[]", "code", "doc", "whole_doc", "pair", "pair[]", "odd_range")
_UNWRITTEN = {"pg_node_tree", "pg_ndistinct", "pg_dependencies", "pg_mcv_list", "pg_brin_bloom_summary",
              "pg_brin_minmax_multi_summary", "gtsvector", "xml"}  # fmt: skip
"""Types whose values cannot be written, and a type that this server is built without."""


def _literals(chance: random.Random) -> Mapping[str, Sequence[str]]:
    """Return texts of values by type; some of them are random."""
    number, octet = chance.randrange(-(2**31), 2**31), chance.randrange(256)
    word = "".join(chance.choices("ab 'É\\\"{},(", k=chance.randrange(1, 9)))
    doc = f'{{"b": {number}.50, "a": [1e2, null, true, "\\u00e9"]}}'
    box = f"({number % 97},1.5),(0.1,{octet})"
    return {
        "bool": ["t", "f"], "bytea": ["", f"\\x{octet:02x}00ff"], "char": ["", "x"], "name": [word],
        "int8": [str(number << 20)], "int2": [str(octet)], "int2vector": ["", "1 -2"], "int4": [str(number)],
        "regproc": ["now"], "text": ["", word], "oid": ["4294967295"], "tid": ["(0,1)"], "xid": ["4294967295"],
        "cid": ["7"], "oidvector": ["1 2"], "json": [doc, " 1 "], "jsonb": [doc, "null", '"x"', "1.0", "[]"],
        "jsonpath": ["$.a[*] ? (@ > 1)"], "point": ["(1.5,-0)"], "lseg": [f"[{box}]"], "path": [f"[{box}]", f"({box})"],
        "box": [box], "polygon": [f"({box})"], "line": ["{1,-1,0.1}"], "circle": ["<(0.1,2),3>"],
        "float4": ["0.1", "-0", "NaN", "-Infinity", "1e-45", repr(number / 7)],
        "float8": ["0.1", "-0", "NaN", "Infinity", "5e-324", repr(number / 7)], "money": ["-1234.5"],
        "macaddr": ["08:00:2b:01:02:03"], "macaddr8": ["08:00:2b:01:02:03:04:05"],
        "inet": ["10.0.0.5", f"192.168.{octet}.1/24", "::1", "2001:db8::/32"], "cidr": ["10.0.0.0/8", "::/0"],
        "aclitem": ["postgres=r/postgres"], "bpchar": ["", "ab ", word], "varchar": [word, "a  "],
        "date": ["infinity", "0044-03-15 BC", "2024-02-29"], "time": ["24:00", "12:34:56.5"],
        "timestamp": ["-infinity", "2024-01-01 00:00:00.5"],
        "timestamptz": ["2024-03-31 02:30+02", "1900-01-01 00:00-05:30"],
        "interval": ["1 year -2 mons 03:04:05.6", "infinity", "-1 day"], "timetz": ["12:00+05:30"],
        "bit": ["1"], "varbit": ["", f"{octet:b}"], "numeric": ["NaN", "-Infinity", "1.50", f"{number}e30", "0.000"],
        "refcursor": [word], "regprocedure": ["now()"], "regoper": ["||/"], "regoperator": ["+(integer,integer)"],
        "regclass": ["pg_class", "a_table", "1"], "regcollation": ['"C"'], "regtype": ["int4", "odd"],
        "regrole": ["postgres"],
        "regnamespace": ["public"], "regdatabase": ["postgres"], "uuid": ["A0EEBC999c0b4ef8bb6d6bb9bd380a11"],
        "pg_lsn": ["16/B374D848"], "tsvector": ["'a':1A 'b b':2", ""], "tsquery": ["'a' & !'b'"],
        "regconfig": ["english"], "regdictionary": ["simple"], "txid_snapshot": ["10:20:10,14"],
        "pg_snapshot": ["10:20:10,14"], "xid8": ["42"],
        "int4range": ["(1,5]", "empty"], "int8range": ["[1,)"], "numrange": ["[1.50,2)"],
        "tsrange": ['["2024-01-01 00:00",)'], "tstzrange": ['["2024-01-01 00:00+01",)'], "daterange": ["(,2024-01-01]"],
        "int4multirange": ["{(1,5],[9,)}"], "int8multirange": ["{}"], "nummultirange": ["{[1.50,2)}"],
        "tsmultirange": ["{}"], "tstzmultirange": ['{["2024-01-01 00:00+01",)}'], "datemultirange": ["{}"],
        "odd": [str(number)], "odd[]": [f"{{{number},NULL}}"], "host": ["10.0.0.5"], "host[]": ["{10.0.0.5,NULL,::1}"],
        "code": ["ab", ""], "doc": [doc], "whole_doc": [doc], "pair": ['(10.0.0.5,t,ab,"{""a"": 1.0}")', "(,,,)"],
        "pair[]": ['{"(10.0.0.5,f,,)",NULL}'], "odd_range": ["[a,b)"],
    }  # fmt: skip


@pytest.mark.parametrize("seed", [1])
def test_text_of_any_type_is_that_of_its_output_function(postgres: Postgres, postgres_database: str, seed: int) -> None:
    postgres.execute(TYPES + _MORE + "CREATE TABLE a_table (id int)", postgres_database)
    written = _literals(random.Random(seed))
    there = postgres.execute(
        "SELECT typname FROM pg_type WHERE typtype IN ('b', 'r', 'm') AND typcategory <> 'A' "
        "AND typnamespace = 'pg_catalog'::regnamespace",
        postgres_database,
    )
    plain = {name for (name,) in there} - _UNWRITTEN
    assert plain <= written.keys(), "some types of the server have no values here"
    types = {f'pg_catalog."{each}"': written[each] for each in sorted(plain)}
    types |= {f'pg_catalog."{each}"[]': [] for each in sorted(plain)}
    types |= (
        {each: written[each] for each in _OWN} | dict(FIT) | {"char(5)": ["ab", ""], "bit(3)": ["101"], "mood": ["sad"]}
    )
    columns = ", ".join(f"c{number} {type_}" for number, type_ in enumerate(types))
    postgres.execute(f"CREATE TABLE t (id int PRIMARY KEY, {columns}); ALTER TABLE t REPLICA IDENTITY FULL; "
                     "CREATE PUBLICATION p FOR TABLE t",
                     postgres_database)  # fmt: skip
    names = [f"c{number}" for number in range(len(types))]
    reading = Reading(postgres, postgres_database, tables(postgres, postgres_database, as_text=names))
    reading.begin()
    with postgres.connect(postgres_database) as writer:
        count = max(map(len, types.values()))
        for row in range(count):
            values = [each[row] if row < len(each) else None for each in types.values()]
            writer.execute(f"INSERT INTO t VALUES ({row}{', %s' * len(values)})", values)
        for number, type_ in enumerate(types):
            if type_.startswith("pg_catalog") and type_.endswith("[]"):
                element = names[list(types).index(type_.removesuffix("[]"))]
                writer.execute(f"UPDATE t SET c{number} = ARRAY[{element}, NULL]")
    streamed: dict[int, dict[str, Any]] = {}
    for each in reading.changes("t"):
        streamed |= {row["id"]: row for row in each.rows.to_pylist()}
    with reading.stream.chunk(reading.tables["t"]) as chunk:
        copied = {row["id"]: row for rows in chunk.read(None, 1 << 20).rows for row in rows.rows.to_pylist()}
    shown = {}
    for name in names:  # COPY writes a value with its output function
        found = postgres.execute(
            f"SET TimeZone = 'UTC'; SELECT id, CASE WHEN num_nulls({name}) = 0 THEN concat({name}) END FROM t",
            postgres_database,
        )
        shown[name] = dict(found)
    for type_, name in zip(types, names, strict=True):
        assert shown[name] == {row: each[name] for row, each in copied.items()}, type_
        assert shown[name] == {row: each[name] for row, each in streamed.items()}, type_
    reading.stream.close()


def test_a_key_that_is_read_as_text_is_read_part_by_part(postgres: Postgres, postgres_database: str) -> None:
    postgres.execute(
        "CREATE TABLE t (ip inet, c char(5), v jsonb, PRIMARY KEY (ip, c)); CREATE PUBLICATION p FOR TABLE t; "
        "INSERT INTO t SELECT ('10.0.0.' || n % 250)::inet, n % 7, '{\"a\": 1.0}' FROM generate_series(1, 1000) AS n",
        postgres_database,
    )
    reading = Reading(postgres, postgres_database, tables(postgres, postgres_database, as_text=("ip", "c", "v")))
    found: list[dict[str, Any]] = []
    after = None
    with reading.stream.chunk(reading.tables["t"]) as chunk:
        while after is not None or not found:
            part = chunk.read(after, 100_000)
            found += [row for rows in part.rows for row in rows.rows.to_pylist()]
            after = part.last
    expected = postgres.execute("SELECT host(ip), rpad(c, 5), '{\"a\": 1.0}' FROM t", postgres_database)
    assert sorted((row["ip"], row["c"], row["v"]) for row in found) == sorted(expected)
    reading.stream.close()


def test_char_has_no_blanks_in_any_way_of_reading(postgres: Postgres, postgres_database: str) -> None:
    postgres.execute(
        "CREATE DOMAIN code AS char(4); CREATE TYPE pair AS (a char(3), b text); CREATE TABLE t (id char(3) PRIMARY "
        "KEY, c char(5), d code, e char(3)[], f pair); CREATE TABLE other (id int PRIMARY KEY, mac macaddr); "
        "CREATE PUBLICATION p FOR ALL TABLES",
        postgres_database,
    )
    row = {"id": "k", "c": "ab", "d": "é", "e": ["x", None, ""], "f": {"a": "z", "b": "w "}}
    found = tables(postgres, postgres_database, as_text=("mac",))
    for of in (("t",), ("t", "other")):  # as binary, and as text
        reading = Reading(postgres, postgres_database, {name: found[name] for name in of})
        reading.begin()
        postgres.execute("INSERT INTO t VALUES ('k', 'ab', 'é', '{x,NULL,\"\"}', '(z,\"w \")')", postgres_database)
        postgres.execute("UPDATE t SET c = 'ab '", postgres_database)
        postgres.execute("UPDATE t SET id = 'l '; UPDATE t SET id = 'k'", postgres_database)
        streamed = [each for rows in reading.changes("t") for each in rows.rows.to_pylist()]
        assert [(each["id"], each["$diff"]) for each in streamed] == [
            ("k", 1), ("k", 1), ("k", -1), ("l", 1), ("l", -1), ("k", 1),
        ]  # fmt: skip
        with reading.stream.chunk(found["t"]) as chunk:
            copied = [each for rows in chunk.read(None, 1 << 20).rows for each in rows.rows.to_pylist()]
        for each in (streamed[-1], copied[0]):
            assert row == {name: each[name] for name in row}, of
        postgres.execute("DELETE FROM t", postgres_database)
        reading.stream.close()
