"""DuckDB's equivalents of the vectors return what Postgres returns, and raise where Postgres raises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from duck.expression import FORMS, NoFormError, duck_sql, quoted
from evaluate import wire
from expressions import compare, vectors
from sinkql import logical
from sinkql.connector_api.types import arrow_type
from sinkql.errors import SinkqlError
from sinkql.logical.function import FUNCTIONS
from sinkql.logical.range import SUBTYPES
from sinkql.logical.type import parse_type

pytestmark = pytest.mark.long

_ERROR = {"error": True}
# functions without an equivalent: DuckDB lacks them, or returns other values than Postgres
_WITHOUT = {
    "=(interval,interval)", "<>(interval,interval)", "<(interval,interval)", "<=(interval,interval)",
    ">(interval,interval)", ">=(interval,interval)", "IS NOT DISTINCT FROM(interval,interval)", "<<(integer,integer)",
    "<<(bigint,integer)", ">>(integer,integer)", ">>(bigint,integer)", "-(timestamp,timestamp)",
    "-(timestamptz,timestamptz)", "*(smallint,interval)", "*(integer,interval)", "*(bigint,interval)",
    "exp(double precision)", "degrees(double precision)", "sin(double precision)", "cos(double precision)",
    "tan(double precision)", "power(double precision,double precision)", "factorial(bigint)", "to_hex(integer)",
    "width_bucket(double precision,double precision,double precision,integer)", "div(numeric,numeric)",
    "initcap(text)", "ascii(text)", "btrim(text,text)", "ltrim(text,text)", "rtrim(text,text)", "lpad(text,integer)",
    "lpad(text,integer,text)", "rpad(text,integer)", "rpad(text,integer,text)", "translate(text,text,text)",
    "split_part(text,text,integer)", "overlay(text,text,integer,integer)", "chr(integer)", "md5(bytea)",
    "sha224(bytea)", "sha256(bytea)", "sha384(bytea)", "sha512(bytea)", "encode(bytea,text)", "decode(text,text)",
    "convert_to(text,text)", "convert_from(bytea,text)", "format(any…)", "concat_ws(text,any…)", "LIKE(text,text)",
    "LIKE(text,text,text)", "ILIKE(text,text)", "ILIKE(text,text,text)", "~(text,text)", "~*(text,text)",
    "regexp_count(text,text)", "regexp_count(text,text,integer,text)",
    "regexp_substr(text,text,integer,integer,text,integer)", "regexp_replace(text,text,text)",
    "regexp_replace(text,text,text,text)",
    "substring(text,text)", "REGEXP_MATCH(text,text,integer)", "EXTRACT(text,interval)", "EXTRACT(text,time)",
    "date_part(text,date)", "date_part(text,time)", "date_part(text,timestamp)", "date_part(text,timestamptz)",
    "date_part(text,interval)",
    "date_trunc(text,timestamptz,text)", "date_bin(interval,timestamp,timestamp)",
    "date_bin(interval,timestamptz,timestamptz)", "make_date(integer,integer,integer)",
    "make_timestamp(integer,integer,integer,integer,integer,any)", "to_timestamp(bigint)",
    "to_timestamp(double precision)", "to_char(timestamp,text)", "to_char(timestamptz,text)", "to_char(integer,text)",
    "to_char(bigint,text)", "to_char(numeric,text)", "isfinite(timestamptz)",
    "isfinite(timestamp)", "isfinite(date)", "->(jsonb,text)", "->(jsonb,integer)", "->>(jsonb,text)",
    "->>(jsonb,integer)", "#>>(jsonb,text)", "#>(jsonb,text)", "$exact(text,any…)",
    "$interval(bigint,bigint,bigint)", "?(jsonb,text)", "@>(jsonb,text)", "jsonb_typeof(jsonb)",
    "jsonb_array_length(jsonb)", "to_jsonb(text)", "to_jsonb(integer)", "to_jsonb(smallint)", "to_jsonb(bigint)",
    "to_jsonb(boolean)", "to_jsonb(numeric)", "$key(text)", "$jsonb_array_elements(jsonb)",
    "$jsonb_array_elements_text(jsonb)", "$jsonb_object_keys(jsonb)", "$jsonb_each(jsonb)", "$jsonb_each_text(jsonb)",
    "jsonb_build_object(any…)", "jsonb_build_array()", "jsonb_build_array(any…)",
    "to_date(text,text)", "to_timestamp(text,text)", "[](any,integer)", "ARRAY(any…)", "@>(array,array)",
    "&&(array,array)",
    *(f"{sign} ANY(any,any)" for sign in ("=", "<>", "<", "<=", ">", ">=")), "[:](any,integer,integer)",
    "$held(interval)", "$order(interval)",
    *(f"{name}(any)" for name in ("lower", "upper", "isempty", "lower_inc", "upper_inc", "lower_inf", "upper_inf")),
    *(f"{name}(any,any,text)" for name in SUBTYPES), "@>(any,any)", "&&(any,any)", "$order(any)",
    "ROW(any…)", "MAP(any…)", "->(any,text)", "?(any,text)", ".(any,text)",
    "cardinality(any)", "array_length(any,integer)", "to_char(real,text)", "to_char(double precision,text)",
    "array_append(any,any)", "array_cat(any,any)", "array_position(any,any)", "array_prepend(any,any)",
    "array_remove(any,any)", "array_replace(any,any,any)", "array_to_string(any,text)",
    "array_to_string(any,text,text)", "string_to_array(text,text)", "string_to_array(text,text,text)",
    "regexp_split_to_array(text,text)", "$flat(any)", "$root(numeric)",
    "$single(bigint,any)",
    *(f"$series({each},{each},{each})" for each in ("bigint", "integer")),
    *(f"$series({each},{each},interval)" for each in ("timestamp", "timestamptz")),
}  # fmt: skip
_NARROWER = ("cast-s060", "cast-s061", "cast-s062", "cast-s300", "cast-s301", "cast-s302")
"""Vectors with texts of dates and times; DuckDB's form reads only the ISO format."""


def test_functions_without_a_form_are_these() -> None:
    assert set(FUNCTIONS) - set(FORMS) == _WITHOUT
    assert set(FORMS) <= set(FUNCTIONS)


def test_vectors_give_in_duckdb_what_postgres_gives() -> None:
    wrong: list[str] = []
    right = 0
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET timezone = 'UTC'")
        for vector in vectors.load():
            if vector["status"] != "exact" or vector.get("mode") in ("query", "group"):
                continue
            plan = vectors.planned(vector)
            if isinstance(plan, SinkqlError):
                continue
            try:
                sql = _sql(plan.relation)
            except NoFormError:
                continue
            for index, value in _values(connection, sql, vector).items():
                if _right(vector, index, value, plan.relation.shape.columns[-1].type.name):
                    right += 1
                else:
                    about = f"{vector['id']} {vector['sql']} over {vector['rows'][index]}"
                    wrong.append(f"{about}: expected {vector['expected'][index]!r}, got {value!r}")
    assert not wrong, "\n".join(wrong)
    assert right > 1_500


def _sql(relation: logical.Relation) -> str:
    match relation:
        case logical.Get():
            return "rows"
        case logical.Project():
            (*_, output) = relation.outputs
            value = duck_sql(output.expression)
            if output.expression.type.name in ("date", "timestamp", "timestamptz"):  # Python's times have fewer years
                value = f"regexp_replace(CAST({value} AS VARCHAR), '[+]00$', '')"
            return f"(SELECT {value} AS {quoted(output.name)} FROM {_sql(relation.input)})"
        case _:
            raise NoFormError


def _values(connection: duckdb.DuckDBPyConnection, sql: str, vector: dict[str, Any]) -> dict[int, Any]:
    """Return the value of each row, or the exception that it raises. Rows that should raise run alone."""
    types = {name: parse_type(type_) for name, type_ in vector["columns"].items()}
    rows: dict[int, list[Any]] = {}
    for index, row in enumerate(vector["rows"]):
        try:
            rows[index] = [wire.value(text, type_) for text, type_ in zip(row, types.values(), strict=True)]
        except ValueError:
            continue  # a time before Python's first year
    alone = {index for index in rows if vector["expected"][index] == _ERROR or index in vector.get("may_error", ())}
    together = [index for index in rows if index not in alone]
    found: dict[int, Any] = {}
    if together:
        results = _run(connection, sql, types, [rows[index] for index in together])
        if isinstance(results, duckdb.Error):
            alone |= set(together)
        else:
            found = dict(zip(together, results, strict=True))
    for index in alone:
        results = _run(connection, sql, types, [rows[index]])
        found[index] = results if isinstance(results, duckdb.Error) else results[0]
    return found


def _run(
    connection: duckdb.DuckDBPyConnection, sql: str, types: dict[str, logical.Type], rows: Sequence[Sequence[Any]]
) -> list[Any] | duckdb.Error:
    columns = zip(*rows, strict=True)
    arrays = {
        name: pa.array(column, arrow_type(type_)) for (name, type_), column in zip(types.items(), columns, strict=True)
    }
    connection.register("rows", pa.table(arrays))
    try:
        return connection.execute(f"FROM {sql}").to_arrow_table().column(0).to_pylist()
    except duckdb.Error as error:
        return error
    finally:
        connection.unregister("rows")


def _right(vector: dict[str, Any], index: int, value: Any, type_: str) -> bool:
    expected = vector["expected"][index]
    if isinstance(value, duckdb.Error):
        return expected == _ERROR or index in vector.get("may_error", ()) or vector["id"] in _NARROWER
    if isinstance(value, str) and "(BC)" in value:
        value = value.replace(" (BC)", "").replace("0001-", "0000-", 1)  # as `compare.equal` writes the expected text
    return expected != _ERROR and compare.equal(wire.shown(value), expected, type_, vector.get("compare"))
