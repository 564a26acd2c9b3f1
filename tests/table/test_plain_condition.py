"""Simple conditions and values, which need no engine, evaluate as in DuckDB."""

from __future__ import annotations

import random

import duckdb
import pytest

from sinkql.session import Session

_TYPES = (
    "k int, a int, b bigint, n numeric(10, 2), s text, f double precision, ok boolean, d date, ts timestamp, u uuid"
)
_ROWS = """
(1, 1, 5000000000, 1.50, 'a', 1.5, true, '2024-01-31', '2024-01-31 12:00:00.5', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'),
(2, -1, 0, -0.01, 'B', 'NaN', false, '1999-12-31', '1999-12-31 23:59:59', '00000000-0000-0000-0000-000000000000'),
(3, 0, -1, 0, '', '-Infinity', NULL, NULL, NULL, NULL),
(4, NULL, NULL, NULL, NULL, NULL, NULL, '2024-01-31', '2024-01-31 00:00:00', NULL),
(5, 2, 2, 2.00, 'é', -0.0, true, '2024-02-29', NULL, 'ffffffff-ffff-ffff-ffff-ffffffffffff'),
(6, NULL, 2, 99999999.99, 'it''s', 0, false, NULL, '2024-01-31 12:00:00.500001', NULL)
"""
_LITERALS = {
    "number": ("0", "1", "-1", "2", "1.5", "2.0", "5000000000", "NULL", "'2'"),
    "s": ("'a'", "''", "'é'", "'it''s'", "NULL", "'B' || ''"),
    "f": ("1.5", "'NaN'", "0", "'-Infinity'", "NULL"),
    "d": ("'2024-01-31'", "DATE '1999-12-31'", "NULL"),
    "ts": ("'2024-01-31 12:00:00.5'", "TIMESTAMP '2024-01-31 00:00:00'", "NULL"),
    "u": ("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "NULL"),
}
_NUMBERS = ("a", "b", "n", "a + 1", "b - a", "n + 0.5", "a * 2")


def condition(random_: random.Random, depth: int) -> str:
    if depth and random_.random() < 0.6:
        left, right = condition(random_, depth - 1), condition(random_, depth - 1)
        return random_.choice([f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})"])
    column = random_.choice(["number", "number", "s", "f", "d", "ts", "u", "ok"])
    if column == "ok":
        return random_.choice(["ok", "ok IS NULL", "ok = true", "ok <> false", "false", "NOT ok"])
    value = random_.choice(_NUMBERS) if column == "number" else column
    one, two = random_.choice(_LITERALS[column]), random_.choice(_LITERALS[column])
    compare = random_.choice(["=", "<>", "<", "<=", ">", ">=", "!="])
    return random_.choice(
        [
            f"{value} {compare} {one}",
            f"{one} {compare} {value}" if one != "NULL" else f"{value} IS NOT NULL",
            f"{value} IN ({one}, {two})",
            f"{value} NOT IN ({one}, {two})",
            f"{value} BETWEEN {one} AND {two}",
            f"{value} NOT BETWEEN {one} AND {two}",
            f"{value} IS NULL",
        ]
    )


@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(4))
def test_plain_conditions_hold_where_duckdb_says(session: Session, seed: int) -> None:
    random_ = random.Random(seed)
    session.execute(f"CREATE TABLE t ({_TYPES}); INSERT INTO t VALUES {_ROWS}")
    with duckdb.connect(config={"threads": 1}) as oracle:
        oracle.execute(f"CREATE TABLE t ({_TYPES}); INSERT INTO t VALUES {_ROWS}")
        for _ in range(150):
            query = f"SELECT k FROM t WHERE {condition(random_, 2)} ORDER BY k"
            assert (list(session.execute(query)[0].rows), query) == (oracle.execute(query).fetchall(), query)
        for value in (*_NUMBERS, "s || 'x'", "s || NULL", "-3", "k", "d"):
            query = f"SELECT k, {value} AS v FROM t ORDER BY v DESC, k"
            assert list(session.execute(query)[0].rows) == [
                (key, found) for key, found in oracle.execute(query.replace("DESC", "DESC NULLS FIRST")).fetchall()
            ]
    assert session._spark is None
