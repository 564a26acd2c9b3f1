"""Postgres as the reference: the text or the error of an expression for each row of the grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import psycopg

from grid import edges
from sinkql.logical.type import Type, parse_type

Answer = str | None
ERROR = "!"
"""The prefix of an error's answer; its SQLSTATE follows."""
_TYPES = {
    "uint2": "numeric",
    "uint4": "numeric",
    "uint8": "numeric",
    "integer list": "integer[]",
    "map[text=>integer]": "text",
    "record(a integer, b text)": "pair",
    "numeric(38,10)": "numeric",
    "numeric(38,0)": "numeric",
    "numeric(38,10)[]": "numeric[]",
    "numeric(12,2)": "numeric(12,2)",
}
_PREPARED = """
CREATE TYPE pair AS (a integer, b text);
CREATE FUNCTION within(value numeric, most numeric) RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF value < 0 OR value > most OR value = 'NaN' THEN RAISE EXCEPTION 'out of range' USING ERRCODE = '22003'; END IF;
  RETURN value;
END $$;
CREATE FUNCTION uint2(value numeric) RETURNS numeric LANGUAGE sql IMMUTABLE AS 'SELECT within($1, 65535)';
CREATE FUNCTION uint4(value numeric) RETURNS numeric LANGUAGE sql IMMUTABLE AS 'SELECT within($1, 4294967295)';
CREATE FUNCTION uint8(value numeric) RETURNS numeric LANGUAGE sql IMMUTABLE
AS 'SELECT within($1, 18446744073709551615)';
CREATE FUNCTION whole_text(value text) RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF value !~ '^[ \\t\\n\\r\\f\\v]*[+-]?[0-9]+[ \\t\\n\\r\\f\\v]*$' THEN
    RAISE EXCEPTION 'no number' USING ERRCODE = '22P02';
  END IF;
  RETURN value::numeric;
END $$;
-- all digits of a double, where a cast to numeric rounds to 15
CREATE FUNCTION of_double(value double precision) RETURNS numeric LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF abs(value) < 9e18 THEN RETURN value::bigint::numeric; END IF;
  IF value > 0 AND value < 18446744073709551616 THEN
    RETURN (value - 9223372036854775808)::bigint::numeric + 9223372036854775808;
  END IF;
  RAISE EXCEPTION 'out of range' USING ERRCODE = '22003';
END $$;
CREATE FUNCTION bits(sign text, one numeric, other numeric) RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE found numeric := 0; place numeric := 1; x numeric := one; y numeric := other; is_set boolean;
BEGIN
  IF one IS NULL OR other IS NULL THEN RETURN NULL; END IF;
  WHILE x > 0 OR y > 0 LOOP
    is_set := CASE sign WHEN '&' THEN x % 2 + y % 2 = 2 WHEN '|' THEN x % 2 + y % 2 > 0 ELSE x % 2 + y % 2 = 1 END;
    IF is_set THEN found := found + place; END IF;
    x := div(x, 2); y := div(y, 2); place := place * 2;
  END LOOP;
  RETURN found;
END $$;
"""


@dataclass(frozen=True, slots=True)
class Oracle:
    """A database with the grid's rows in table `grid`."""

    connection: psycopg.Connection[Any]

    def answers(self, expression: str, numbers: Sequence[int]) -> list[Answer]:
        """Return the text of an expression, or its error, for each row."""
        wanted = "row_number = ANY (%s)" if len(numbers) < edges.ROWS else "true"
        arguments = [list(numbers)] if len(numbers) < edges.ROWS else []
        shown = expression.replace("%", "%%") if arguments else expression
        query = f"SELECT array_agg(({shown})::text ORDER BY row_number) FROM grid WHERE {wanted}"
        try:
            ((found,),) = self.connection.execute(query, arguments or None).fetchall()
        except psycopg.Error:
            return self._one_by_one(expression, numbers)
        return list(found)

    def fails_at_once(self, expression: str) -> bool:
        """Return whether the expression fails while it is planned, because of a constant."""
        try:
            self.connection.execute(f"EXPLAIN SELECT ({expression})::text FROM grid")
        except psycopg.Error:
            return True
        return False

    def _one_by_one(self, expression: str, numbers: Sequence[int]) -> list[Answer]:
        body = (
            "CREATE OR REPLACE FUNCTION pg_temp.judged(numbers integer[]) RETURNS text[] LANGUAGE plpgsql AS $judged$\n"
            "DECLARE found text[]; one text; n integer;\nBEGIN FOREACH n IN ARRAY numbers LOOP BEGIN\n"
            f"SELECT ({expression})::text INTO one FROM grid WHERE row_number = n;\n"
            f"EXCEPTION WHEN others THEN one := '{ERROR}' || SQLSTATE; END;\n"
            "found := array_append(found, one); END LOOP; RETURN found; END $judged$"
        )
        self.connection.execute(body)
        ((found,),) = self.connection.execute("SELECT pg_temp.judged(%s)", [list(numbers)]).fetchall()
        return list(found)


@contextmanager
def oracle(address: str) -> Iterator[Oracle]:
    """Create the grid in a separate database with Unicode case mapping and byte order, until the block ends."""
    with psycopg.connect(address, autocommit=True) as server:
        server.execute("DROP DATABASE IF EXISTS grid")
        server.execute(
            "CREATE DATABASE grid TEMPLATE template0 LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LOCALE 'C'"
        )
    with psycopg.connect(address, dbname="grid", autocommit=True) as connection:
        connection.execute("SET timezone = 'UTC'; SET max_parallel_workers_per_gather = 0; SET jit = off;")
        connection.execute(_PREPARED)
        _fill(connection)
        yield Oracle(connection)


def _fill(connection: psycopg.Connection[Any]) -> None:
    columns = ", ".join(f"{name} {_TYPES.get(type_, type_)}" for name, type_ in edges.COLUMNS.items())
    connection.execute(f"CREATE TABLE grid (row_number integer PRIMARY KEY, {columns})")
    types = [parse_type(each) for each in edges.COLUMNS.values()]
    with connection.cursor() as cursor, cursor.copy("COPY grid FROM STDIN") as copy:
        for number, row in enumerate(edges.rows()):
            copy.write_row([number, *(literal(each, type_) for each, type_ in zip(row, types, strict=True))])
    connection.execute("ANALYZE grid")


def literal(value: Any, type_: Type) -> str | None:
    """Return a value as a text that Postgres reads."""
    if value is None:
        return None
    if type_.name in ("array", "list"):
        assert type_.element is not None
        return f"{{{','.join(_item(each, type_.element) for each in value)}}}"
    if type_.name == "record":
        return f"({','.join('' if each is None else str(each) for each in value)})"
    if type_.name == "map":
        return str(value)
    match value:
        case bool():
            return "t" if value else "f"
        case bytes():
            return f"\\x{value.hex()}"
        case Decimal():
            return f"{value:f}"
        case float():
            return repr(value)
        case datetime() | date() | time():
            return value.isoformat()
        case _:
            return str(value)


def _item(value: Any, type_: Type) -> str:
    if value is None:
        return "NULL"
    shown = literal(value, type_) or ""
    if type_.name == "array":
        return shown
    escaped = shown.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
