"""Results of statements as Arrow tables and pandas frames, and errors whose text is complete."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from sinkql import SinkqlError
from sinkql.session import Session

_TABLE = "CREATE TABLE t (id bigint, n numeric(10, 2), at timestamptz, word text);"


def test_rows_are_an_arrow_table_of_the_types_of_the_query(session: Session) -> None:
    session.execute(_TABLE)
    (empty,) = session.execute("SELECT * FROM t")
    session.execute("INSERT INTO t VALUES (1, 2.5, '2024-01-02T03:04:05Z', 'a'), (2, NULL, NULL, NULL)")
    (found,) = session.execute("SELECT * FROM t ORDER BY id")
    wanted = pa.schema(
        {"id": pa.int64(), "n": pa.decimal128(10, 2), "at": pa.timestamp("us", "UTC"), "word": pa.string()}
    )
    assert (empty.arrow().schema, empty.arrow().num_rows) == (wanted, 0)
    assert found.arrow().schema == wanted
    assert found.arrow().to_pydict()["n"] == [Decimal("2.50"), None]
    assert list(found.df()["id"]) == [1, 2]


def test_two_columns_of_one_name_and_what_show_lists_are_tables_too(session: Session) -> None:
    session.execute(_TABLE)
    (twice,) = session.execute("SELECT 1 AS a, 'x' AS a")
    assert [column.to_pylist() for column in twice.arrow().columns] == [[1], ["x"]]
    (tables,) = session.execute("SHOW TABLES")
    assert tables.arrow().column("name").to_pylist() == ["t"]
    (created,) = session.execute("CREATE SCHEMA s")
    assert created.arrow().num_columns == 0


def test_the_text_of_an_error_has_its_place_and_hint(session: Session) -> None:
    session.execute(_TABLE)
    with pytest.raises(SinkqlError) as raised:
        session.execute("SELECT id\nFROM tt", path="a.sql")
    assert str(raised.value).splitlines() == [
        'a.sql:2:6: error[SQ2202]: relation "tt" does not exist',
        "2 | FROM tt",
        "         ^^",
        "hint: Did you mean t?",
    ]


def test_jobs_run_without_a_word_about_what_is_left_out(session: Session) -> None:
    assert session.run([]) == 0
