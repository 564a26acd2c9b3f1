"""Case conversion, words and case-insensitive patterns are as in Postgres for every character, in both engines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from unicodedata import ucd_3_2_0

import psycopg
import pytest
from psycopg import sql

from expressions import vectors
from sinkql import evaluate, logical
from sinkql.logical import letter_case
from sinkql.lowering.spark.expression import spark_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.postgres import Postgres

_COLUMNS = {"s": "text"}
_TRIED = (
    "upper(s)",
    "lower(s)",
    "initcap('a' || s || 'b')",
    "initcap(s || 'B')",
    "s ILIKE upper(replace(s, '\\', ''))",
    "s ILIKE 'ǆ'",
    "s ~ '\\w'",
    "s ~ '[\\w-]'",
    "s ~* 'k'",
    "s ~* '[^-ſß]'",
    "s ~* '[a-zα-ω]'",
    "regexp_replace(s, '[iǆ]', 'x', 'gi')",
)
_SHARE, _ALL = "i < 131072 AND (i < 12288 OR i % 11 = 0)", "true"
"""After the first 12,288 characters, most are in long runs without upper and lower case."""
_LATER = {*map(chr, range(0x363, 0x370)), "\u0f82", "\u0f83"}
"""Combining marks that are parts of words since Unicode 14 or later."""


@pytest.fixture(scope="module")
def oracle(postgres: Postgres) -> Iterator[psycopg.Connection[Any]]:
    """Create a database with Unicode's case mappings and the order of bytes."""
    with postgres.connect() as server:
        server.execute("DROP DATABASE IF EXISTS letters")
        server.execute(
            "CREATE DATABASE letters TEMPLATE template0 LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LOCALE 'C'"
        )
    with psycopg.connect(postgres.address(), dbname="letters", autocommit=True) as connection:
        yield connection


def _expressions() -> list[logical.Expression]:
    return [vectors.expression(each, _COLUMNS) for each in _TRIED]


def _expected(oracle: psycopg.Connection[Any], which: str) -> list[tuple[Any, ...]]:
    shown = ", ".join(_TRIED)
    characters = f"generate_series(1, 1114111) AS i WHERE {which} AND i NOT BETWEEN 55296 AND 57343"
    return oracle.execute(sql.SQL(f"SELECT s, {shown} FROM (SELECT chr(i) AS s FROM {characters}) AS t")).fetchall()


@pytest.mark.server
def test_characters_are_those_of_postgres_here(oracle: psycopg.Connection[Any]) -> None:
    functions = [evaluate.function_of(each, list(_COLUMNS)) for each in _expressions()]
    computed = [(place, function) for place, function in enumerate(functions) if function is not None]
    assert len(computed) > 2
    rows = _expected(oracle, _SHARE)
    for place, function in computed:
        wrong = [row[0] for row in rows if letter_case.is_known_letter(row[0]) and function(row[:1]) != row[place + 1]]
        assert wrong == [], _TRIED[place]


def _java_knows(character: str) -> bool:
    """Return whether every supported Java knows the character from its version of Unicode."""
    return ucd_3_2_0.category(character) != "Cn" and letter_case.is_known_letter(character) and character not in _LATER


def _hold_in_spark(oracle: psycopg.Connection[Any], spark: SparkSession, which: str) -> None:
    rows = _expected(oracle, which)
    given = spark.createDataFrame([(row[0],) for row in rows], "s string")
    found = given.selectExpr("s", *(spark_sql(each) for each in _expressions())).toArrow()
    for place, name in enumerate(_TRIED, 1):
        pairs = zip(rows, found.column(place).to_pylist(), strict=True)
        assert [row[0] for row, value in pairs if row[place] != value and _java_knows(row[0])] == [], name


@pytest.mark.spark
@pytest.mark.server
def test_characters_are_those_of_postgres_in_spark(oracle: psycopg.Connection[Any], spark: SparkSession) -> None:
    _hold_in_spark(oracle, spark, _SHARE)


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.server
def test_all_characters_are_those_of_postgres_in_spark(oracle: psycopg.Connection[Any], spark: SparkSession) -> None:
    _hold_in_spark(oracle, spark, _ALL)
