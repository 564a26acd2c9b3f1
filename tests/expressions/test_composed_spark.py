"""Nested expressions keep their meaning in Spark: precedence, repeated operands and constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from expressions import batch, vectors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
_COLUMNS = {
    "a": "integer", "b": "integer", "n": "numeric(38,10)", "m": "numeric(12,2)", "f": "double precision", "s": "text",
    "p": "boolean",
    "x": "timestamp", "z": "timestamptz", "d": "date", "j": "jsonb",
}  # fmt: skip
_ROW = (
    "7", "2", "1.5", "2.25", "0.5", "it's a\\b@0c", "t",
    "2024-02-29 12:34:56.5", "2024-02-29 23:30:00+00", "2024-01-31",
    '{"k@1": "v", "q": {"r": [1, 2]}}',
)  # fmt: skip
_CASES = (
    ("a - (b - 1)", 6), ("a - b - 1", 4), ("-a % 4", -3), ("-(a % 4)", -3), ("a / b * b", 6), ("a / (b * b)", 1),
    ("(a + b) * (a - b)", 45), ("NOT (p AND a > 9)", True), ("p OR a > 9 AND a < 0", True),
    ("(p OR a > 9) AND a < 0", False), ("NOT a IS NULL", True), ("(a = 7) = p", True), ("a = 7 IS NOT NULL", True),
    ("a IN (1, b + 5)", True), ("NOT a BETWEEN b AND b * 4", False), ("s LIKE '%''s%\\\\b%'", True),
    ("s ~ 'b@0c$'", True), ("s = 'it''s a\\b@0c'", True), ("replace(s, '@0', '@1')", "it's a\\b@1c"),
    ("s || '-' || a", "it's a\\b@0c-7"), ("j ->> 'k@1'", "v"), ("j -> 'q' -> 'r' ->> 1", "2"),
    ("to_char(x, '\"@0\"YYYY')", "@02024"),
    ("f + f + f + f + f + f + f + f", 4.0), ("(f + 1) * (f + 1) / (f + 1)", 1.5),
    ("power(f + 1.5, 2) + sqrt(f * 8)", 6.0), ("trunc(f * 3 + f * 3 + f / 4)", 3.0), ("a * m + n", "17.2500000000"),
    ("round(n / 7, 3)", "0.214"), ("coalesce(NULL, m, 1)", "2.25"), ("nullif(1.5, 2.5)", "1.5"),
    ("CASE a WHEN 7 THEN n ELSE 0 END", "1.5000000000"), ("greatest(a, n, f)", 7.0),
    ("extract(epoch FROM x - (x - INTERVAL '1 day 00:00:01'))", "86401.000000"),
    ("date_trunc('day', z AT TIME ZONE 'Europe/Berlin')::text", "2024-03-01 00:00:00"),
    ("(d + INTERVAL '1 month')::date::text", "2024-02-29"), ("d + 1 - d", 1),
    ("x BETWEEN '2024-02-01' AND '2024-03-01'", True), ("left(upper(s), a - b)", "IT'S "),
    ("left(s, -b)", "it's a\\b@"),
    ("substring(s FROM b FOR b + 1)", "t's"), ("CASE WHEN b > 5 THEN a / (b - 2) ELSE -1 END", -1),
    ("(a > 3)::integer + 1", 2),
)  # fmt: skip


@pytest.mark.share(2)
@pytest.mark.parametrize("local", [False, True], ids=["compiled", "folded"])
def test_composed_expressions_mean_what_they_say(spark: SparkSession, local: bool) -> None:
    rows = batch.rows(_COLUMNS, [_ROW])
    if not local:  # Spark evaluates this relation at run time, not while it plans
        rows = f"(SELECT v.* FROM range(1) CROSS JOIN {rows} AS v)"
    select = ", ".join(f"{text} AS x{place}" for place, (text, _) in enumerate(_CASES))
    relation = vectors.query(f"SELECT {select} FROM t", vectors.table(_COLUMNS)).relation
    found = spark.sql(batch.sql(relation, rows)).collect()[0]
    wrong = [
        f"{text}: expected {expected!r}, got {value!r}"
        for (text, expected), value in zip(_CASES, found, strict=True)
        if (str(value) if isinstance(expected, str) else value) != expected
    ]
    assert not wrong, "\n".join(wrong)


def test_error_in_a_nested_form_is_raised(spark: SparkSession) -> None:
    relation = vectors.query("SELECT (s || '1')::integer IS NULL AS x FROM t", vectors.table(_COLUMNS)).relation
    with pytest.raises(PySparkException, match="CAST_INVALID_INPUT"):
        spark.sql(batch.sql(relation, batch.rows(_COLUMNS, [_ROW]))).collect()
