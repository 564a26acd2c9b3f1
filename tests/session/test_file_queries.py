"""SELECT over files named in the query, in this process."""

from __future__ import annotations

import datetime as dt
import gzip
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from session.script import fails
from sinkql import ast
from sinkql.errors import Span
from sinkql.planner.syntax.file_query import named_files
from sinkql.session import Session

_FUNCTIONS = ("read_csv", "read_json", "read_parquet")


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object) -> None:
        raise AssertionError("Spark is started")

    monkeypatch.setattr("sinkql.runtime.spark.adhoc.AdhocSpark.query", start)


def _rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    return list(session.execute(query + ";")[-1].rows)


def _write(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "a.json").write_text('{"name": "x", "id": 1, "tags": [1]}\n{"name": "y", "id": 2}\n')
    (folder / "data" / "b.json.gz").write_bytes(gzip.compress(b'{"name": "z", "id": 3}\n'))
    (folder / "t.csv").write_bytes(b'\xef\xbb\xbfid,"Full Name"\n1,\xc3\xa9\n2,\n')


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM 'data/a.json'", [("x", 1, "[1]"), ("y", 2, None)]),
        ("SELECT * FROM 'data/*.json' AS d WHERE d.id = 1", [("x", 1, "[1]")]),
        ("SELECT name FROM read_json('data')", [("x",), ("y",), ("z",)]),
        ("SELECT name FROM 'data/b.json.gz'", [("z",)]),
        ("SELECT id, \"Full Name\" FROM 't.csv' ORDER BY id DESC", [(2, None), (1, "é")]),
        ("SELECT count(*) FROM READ_CSV ( 't.csv' )", [(2,)]),
        ("SELECT id FROM 't.csv' UNION ALL SELECT id FROM 'data/a.json'", [(1,), (2,), (1,), (2,)]),
        ("SELECT * FROM (SELECT id FROM 't.csv') AS q LIMIT 1", [(1,)]),
        ("WITH q AS (SELECT id FROM 't.csv') SELECT id FROM q WHERE id > 1", [(2,)]),
    ],
)
def test_a_query_reads_the_files_that_it_names(
    session: Session, folder: Path, query: str, expected: list[tuple[Any, ...]]
) -> None:
    _write(folder)
    assert expected == _rows(session, query)


def test_a_table_and_a_file_of_one_name_are_two(session: Session, folder: Path) -> None:
    _write(folder)
    session.execute("CREATE TABLE t (id bigint); INSERT INTO t VALUES (7);")
    query = "SELECT id FROM t UNION ALL SELECT id FROM 't.csv'"
    assert _rows(session, query) == [(7,), (1,), (2,)]
    assert [row[0] for row in session.execute("SHOW TABLES;")[-1].rows] == ["t"]


def test_types_of_parquet_files(session: Session, folder: Path) -> None:
    day, time = dt.date(2024, 1, 2), dt.datetime(2024, 1, 2, 3, 4, 5, 6)
    columns = {
        "small": pa.array([1, None], pa.int8()),
        "unsigned": pa.array([2**64 - 1, None], pa.uint64()),
        "amount": pa.array([Decimal("1.50"), None]),
        "day": pa.array([day, None]),
        "at": pa.array([time, None], pa.timestamp("us")),
        "word": pa.array(["a", None]).dictionary_encode(),
        "raw": pa.array([b"x", None]),
        "list": pa.array([[1, 2], None]),
    }
    pq.write_table(pa.table(columns), folder / "p.parquet")
    row = (1, Decimal(2**64 - 1), Decimal("1.50"), day, time, "a", b"x", (1, 2))
    assert [row, (None,) * 8] == _rows(session, "SELECT * FROM 'p.parquet'")


def test_a_file_that_is_an_array_gives_its_elements(session: Session, folder: Path) -> None:
    (folder / "a.json").write_text('\n [{"b": 1, "a": "x"},\n {"b": 2}]\n')
    assert _rows(session, "SELECT * FROM 'a.json'") == [(1, "x"), (2, None)]


@pytest.mark.long
def test_a_limit_stops_reading(session: Session, folder: Path) -> None:
    (folder / "a.json").write_text('{"id": 1}\n' * 300_000 + "no JSON\n")
    assert _rows(session, "SELECT id FROM 'a.json' LIMIT 3") == [(1,)] * 3
    error = fails(session, "SELECT count(id) FROM 'a.json';")
    assert (error.code, "a.json:300001" in error.message) == ("SQ3101", True)


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("'none.json'", "SQ2645"),
        ("'none/*.csv'", "SQ2645"),
        ("'a.txt'", "SQ2645"),
        ("read_csv()", "SQ2646"),
        ("read_csv('a.csv', true)", "SQ2646"),
        ("read_json(42)", "SQ2646"),
        ("'pipe.csv'", "SQ3305"),
        ("'link.json'", "SQ3305"),
        ("'bad.json'", "SQ3101"),
        ("'bad.json.gz'", "SQ3102"),
        ("'bad.parquet'", "SQ3102"),
        ("'twice.csv'", "SQ3102"),
    ],
)
def test_what_cannot_be_read_is_an_error_at_its_place(session: Session, folder: Path, place: str, code: str) -> None:
    os.mkfifo(folder / "pipe.csv")
    (folder / "link.json").symlink_to("nowhere")
    for name in ("a.csv", "bad.json", "bad.json.gz", "bad.parquet"):
        (folder / name).write_text('{"a": 1}\n{\n')
    (folder / "twice.csv").write_text("a,a\n1,2\n")
    head = "SELECT * FROM "
    error = fails(session, f"{head}{place};")
    assert (code, False) == (error.code, "sink" in (error.hint or ""))
    assert error.span is not None
    assert error.span.start == len(head)


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        ("SELECT extract(day FROM '2024-01-01'), trim('x' FROM 'y') FROM 'a'", ["a"]),
        ("SELECT 1 WHERE a IS DISTINCT FROM 'x'", []),
        ("SELECT substring('x' FROM 1) FROM t WHERE 'x' IN ('a', 'b')", []),
        ("SELECT 'x', 'y' FROM 'a', 'b' JOIN 'c' ON 'd' = 'e' ORDER BY 'f', 'g'", ["a", "b", "c"]),
        ("SELECT * FROM ('a' CROSS JOIN read_csv('b'))", ["a", "b"]),
        ("SELECT (SELECT max(n) FROM 'a') FROM 'b'", ["a", "b"]),
        ("SELECT read_csv('a'), f(read_json('b')) FROM t", []),
        ("SELECT * FROM t WHERE x = 'a' GROUP BY 'b', 'c' HAVING 'd' = 'e' LIMIT 1", []),
        ("SELECT * FROM 'it''s.csv'", ["it's.csv"]),
    ],
)
def test_only_what_stands_in_from_is_a_file(query: str, paths: list[str]) -> None:
    found = named_files(ast.Query(query, Span(0, len(query))), _FUNCTIONS)
    assert paths == [file.path for file in found]
