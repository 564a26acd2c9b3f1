"""A query that Postgres's grammar refuses is refused, unless the dialect has the form."""

from __future__ import annotations

import re

import pytest

from language.postgres_grammar import accepted, judged
from sinkql import ast
from sinkql.errors import SinkqlError, Span
from sinkql.planner.syntax import sqlglot_tree

pytestmark = pytest.mark.long

# forms of the dialect, and forms for which the planner names the correct one
_OWN = re.compile(
    r"\b(SHOW|MAP|LIST|TABLE|QUALIFY|OPTIONS|DEFAULT|precision|user|ROLLUP|CUBE|OVERLAPS)\b|=>|FROM\s*\(\s*\w+\s*\)"
    r"|WITH TIES|[<>=] \w+ [<>=]|\bSELECT\s+\*\s+EXCEPT|(coalesce|greatest|least|nullif)\s*\(|\)\s*\[|FROM\s+'"
    r"|\$\d|:\w|\bNOT MATERIALIZED",
    re.IGNORECASE,
)


def test_what_postgres_refuses_is_refused() -> None:
    wrong = [each.text for each in judged() if not each.right and not _OWN.search(each.text)]
    assert len(wrong) > 1_000
    assert [text for text in wrong if accepted(text)] == []


def test_what_postgres_takes_is_still_taken() -> None:
    right = [each.text for each in judged() if each.right]
    assert len(right) > 500
    assert [text for text in right if not accepted(text)] == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("SELECT a:b FROM t", "a:b"),
        ("SELECT a == 1 FROM t", "=="),
        ("SELECT a <=> b FROM t", "<=>"),
        ("SELECT a RLIKE 'x' FROM t", "RLIKE"),
        ("SELECT a > > 1 FROM t", ">"),
        ("SELECT a IS FROM t", "FROM"),
        ("SELECT a FROM t AS", ""),
        ("SELECT a NOT NULL FROM t", "NULL"),
        ("SELECT count(*) FILTER (a > 1) FROM t", "a"),
        ("SELECT a AS 'q' FROM t", "'q'"),
        ("SELECT a, FROM t", "FROM"),
        ("SELECT 1e", "1e"),
        ("SELECT a FROM a..b", "."),
        ("SELECT a FROM t LIMIT 5, 10", ","),
        ("SELECT f(a) 'x' FROM t", "'x'"),
        ("SELECT => a FROM t", "=>"),
    ],
)
def test_mistake_has_its_place(text: str, place: str) -> None:
    before = "  "
    with pytest.raises(SinkqlError) as caught:
        sqlglot_tree.parse(ast.Query(text, Span(len(before), len(before) + len(text))))
    span = caught.value.span
    assert span is not None
    assert (before + text)[span.start : span.end] == place


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a ~ b || c FROM t",
        "SELECT a IS NULL IS NULL FROM t",
        "SELECT a = b < c FROM t",
    ],
)
def test_what_sqlglot_ties_together_otherwise_is_refused(text: str) -> None:
    with pytest.raises(SinkqlError, match="the order of operations here needs parentheses") as caught:
        sqlglot_tree.parse(ast.Query(text, Span(0, len(text))))
    assert caught.value.code == "SQ2215"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("WITH MUTUALLY RECURSIVE x (a int) AS (SELECT a FROM t) SELECT a FROM x", "SQ2924"),
        ("WITH MUTUALLY RECURSIVE (RECURSION LIMIT 10) x (a int) AS (SELECT a FROM t) SELECT a FROM x", "SQ2924"),
        ("SELECT a, count(*) AS n FROM t GROUP BY a OPTIONS (AGGREGATE INPUT GROUP SIZE = 10)", "SQ2933"),
        ("SELECT * FROM (SHOW TABLES)", "SQ2215"),
        ("SELECT x.a FROM t AS x JOIN t AS y USING (a) AS j", "SQ2215"),
    ],
)
def test_what_the_dialect_has_is_no_syntax_error(text: str, code: str) -> None:
    with pytest.raises(SinkqlError) as caught:
        sqlglot_tree.parse(ast.Query(text, Span(0, len(text))))
    assert caught.value.code == code


def test_units_of_intervals_may_be_plural() -> None:
    assert accepted("SELECT at + INTERVAL '30' DAYS AS x FROM t")


@pytest.mark.parametrize("text", ["ALTER (", "DROP IF EXISTS x)", "CREATE TABLE ANALYZE HINTS FOR INDEX i AS SQL)"])
def test_what_begins_as_another_statement_is_an_error_and_nothing_is_logged(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(SinkqlError):
        sqlglot_tree.parse(ast.Query(text, Span(0, len(text))))
    assert caplog.records == []
