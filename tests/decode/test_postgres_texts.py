"""Generated texts of arrays, records, bytea and numbers, and lines of CSV, have the same values as in Postgres 18."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from io import BytesIO
from typing import Any

import psycopg
import pytest

from sinkql.decode.csv import CsvRows
from sinkql.decode.csv_options import Form
from sinkql.decode.text_value import value_of
from sinkql.logical.nested import read_array, read_record
from sinkql.logical.type import BIGINT, BYTEA, DOUBLE, TEXT
from sinkql.physical import Column
from support.postgres import Postgres

pytestmark = pytest.mark.server
_TEXTS = 2000
_KINDS: dict[str, tuple[str, str, tuple[str, ...], str, Callable[[str], Any]]] = {
    "array": ("text[]", "{}", (",", ",", '"', "\\", " ", "a", "b", "1", "NULL", "\n", "\t"), "to_json(v)",
              lambda text: read_array(text, 1)),
    "record": ("pair", "()", (",", ",", '"', '""', "\\", "a", " ", "(", "b"), "json_build_array((v).a, (v).b)",
               lambda text: read_record(text, 2)),
    "bytea": ("bytea", "", ("\\", "\\x", "0f", "A", " ", "\\101", "\\\\", "9", "\n"), "to_json(encode(v, 'hex'))",
              lambda text: value_of(text, BYTEA).hex()),
    "double": ("float8", "", ("1", "0", ".", "e", "-", "+", "9", "5", " ", "e-3"), "to_json(v)",
               lambda text: value_of(text, DOUBLE)),
    "bigint": ("bigint", "", ("1", "0", "x", "_", "o7", "-", "b1", " "), "to_json(v)",
               lambda text: value_of(text, BIGINT)),
}  # fmt: skip


@pytest.fixture(scope="module")
def connection(postgres: Postgres) -> Any:
    name = postgres.database()
    with postgres.connect(name) as found:
        found.execute("CREATE TYPE pair AS (a text, b text)")
        found.execute("CREATE TABLE c (a text, b text, c text)")
        yield found
    postgres.drop(name)


@pytest.mark.parametrize("kind", _KINDS)
def test_texts_have_the_values_that_postgres_reads(kind: str, connection: Any) -> None:
    type_, around, pieces, shown, reader = _KINDS[kind]
    seed = random.Random(kind)
    texts = [f"{around[:1]}{''.join(seed.choices(pieces, k=seed.randrange(1, 8)))}{around[1:]}" for _ in range(_TEXTS)]
    answers = connection.execute(
        f"SELECT CASE WHEN t IS NOT NULL THEN (SELECT {shown}::text FROM (SELECT t::{type_} AS v) AS q) END FROM "
        "(SELECT CASE WHEN pg_input_is_valid(t, %s) THEN t END AS t FROM unnest(%s::text[]) WITH ORDINALITY AS u (t, n)"
        " ORDER BY n) AS p",
        [type_, texts],
    ).fetchall()
    taken = 0
    for text, (answer,) in zip(texts, answers, strict=True):
        expected = None if answer is None else json.loads(answer)
        try:
            found = reader(text)
        except ValueError:
            found = None
        if found is None and kind == "double" and expected is not None:
            assert float(expected) == 0 or abs(float(expected)) < 1e-300, text
            continue
        assert found == (float(expected) if kind == "double" and expected is not None else expected), text
        taken += found is not None
    assert taken > _TEXTS / 20


def test_lines_of_csv_have_the_fields_that_copy_reads(connection: Any) -> None:
    seed, taken = random.Random(9), 0
    columns = tuple(Column(name, TEXT) for name in "abc")
    pieces = (",", ",", ",", '"', '""', "\n", "a", " ", "\\", "1", '"b"')
    for _ in range(150):
        data = "".join(seed.choices(pieces, k=seed.randrange(3, 12))) + "\n"
        try:
            connection.execute("TRUNCATE c")
            with connection.cursor().copy("COPY c FROM STDIN (FORMAT csv)") as copy:
                copy.write(data)
            expected = connection.execute("SELECT * FROM c").fetchall()
        except psycopg.DataError:
            expected = None
        parts = list(CsvRows(columns, Form(), header=False).decode(BytesIO(data.encode())))
        if any(failure.message.startswith("a quote within field") for part in parts for failure in part.failures):
            continue
        failed = any(part.failures for part in parts)
        assert failed is (expected is None), data
        if expected is not None:
            assert [tuple(row.values()) for part in parts for row in part.batch.to_pylist()] == expected
            taken += 1
    assert taken > 8
