"""Text that is nested too deeply, too long or not text at all is a coded error or accepted, never another exception."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given

from language.statements_other import statements
from sinkql import ast
from sinkql.cli.main import run_command
from sinkql.errors import SinkqlError
from sinkql.parser import parse
from sinkql.printer import to_sql
from sinkql.program import compile_text
from sinkql.script.split import finished
from sinkql.session import Session
from support.examples import examples

pytestmark = pytest.mark.long

DEEP = 6_000
LONG = 100_000
VIEW = "CREATE SOURCE n FROM LOAD GENERATOR COUNTER; CREATE VIEW v AS SELECT {} FROM n;"

NESTED = {
    "brackets": "(" * DEEP + "1" + ")" * DEEP,
    "subscripts": "a" + "[" * DEEP + "1" + "]" * DEEP,
    "functions": "f(" * DEEP + "1" + ")" * DEEP,
    "comments": "/*" * DEEP + "*/" * DEEP + "1",
    "case": "CASE WHEN a THEN " * DEEP + "1" + " END" * DEEP,
    "not": "NOT " * DEEP + "true",
    "minus": "- " * DEEP + "1",
    "subqueries": "(SELECT " * DEEP + "1" + ")" * DEEP,
    "allowed subqueries": "(SELECT " * 99 + "1" + ")" * 99,
    "exists": "EXISTS (SELECT " * DEEP + "1" + ")" * DEEP,
    "concatenation": " || ".join(["'a'"] * DEEP),
    "sums": " + ".join(["1"] * DEEP),
    "casts": "1" + "::int" * DEEP,
    "fields": "a" + ".a" * DEEP,
    "arrays": "1::int" + "[]" * DEEP,
    "in": "1 IN " * DEEP + "(1)",
    "is": "true" + " IS TRUE" * DEEP,
    "time zones": "a" + " AT TIME ZONE 'u'" * DEEP,
    "intervals": "INTERVAL " * DEEP + "'1'",
}
LISTS = {
    "and": "SELECT 1 WHERE " + " AND ".join(["true"] * LONG),
    "columns of a query": "SELECT " + ", ".join(f"1 AS c{number}" for number in range(LONG)),
    "string": f"SELECT '{'x' * 5_000_000}'",
    "name": "SELECT " + "x" * 5_000_000,
    "quoted name": f'SELECT "{"x" * 5_000_000}"',
    "number": "SELECT " + "1" * LONG,
    "columns of a table": f"CREATE TABLE t ({', '.join(f'c{number} int' for number in range(LONG))})",
    "columns of a source": f"CREATE SOURCE s ({', '.join(f'c{number} int' for number in range(LONG))})"
    " FROM FILES (PATH = 'x') FORMAT JSON",
    "options": f"CREATE CLUSTER c ({', '.join(f'O{number} = 1' for number in range(LONG))})",
    "label": f"CREATE CLUSTER c ({'WORD ' * LONG} = 1)",
    "name of many parts": "DROP SINK " + ".".join(["s"] * LONG),
    "assignments": "UPDATE t SET " + ", ".join(f"c{number} = 1" for number in range(LONG)),
    "modes": "BEGIN " + "READ ONLY " * LONG,
    "constraints": f"CREATE TABLE t (a int {'NOT NULL ' * LONG})",
    "types": f"CREATE TABLE t (a {'map[text=>' * DEEP}int{']' * DEEP})",
    "array of arrays": f"CREATE TABLE t (a int{'[]' * LONG})",
    "value in brackets": f"CREATE CLUSTER c (X = {'(' * DEEP}",
    "semicolons": ";" * 1_000_000,
    "garbage": "foo bar ( ] 1 'x' " * 170_000,
    "garbage in a sink": "CREATE SINK " + "a b , " * 330_000,
    "quotes": "SELECT " + "'" * 1_000_001,
    "dollars": "SELECT " + "$a$" * 333_333,
    "comments": "/*" * 500_000,
    "strings that go on": "SELECT " + "'a'\n" * LONG,
    "statements that never end": "CREATE SINK s " * 30_000,
}
TOO_LONG = ("columns of a table", "garbage", "modes")
ODD = ["", "\0", "\ud800", "a\udfffb", '"\ud800"', "SELECT 'a\0'", "\ufeff", "\ufeff\ufeff", "\x1b[31m", "$", "'", "\\"]


@pytest.mark.share(4)
@pytest.mark.parametrize("name", NESTED)
def test_nesting_is_refused_or_compiles(name: str) -> None:
    coded(compile_text, VIEW.format(NESTED[name]))


def test_nesting_is_refused_by_whoever_runs_it(tmp_path: Path) -> None:
    with Session(tmp_path / "catalog.db") as session:
        for expression in (NESTED["not"], NESTED["casts"], NESTED["allowed subqueries"], NESTED["arrays"]):
            coded(session.execute, f"SELECT ({expression}) FROM mz_sinks")
        assert session.execute("SELECT name FROM mz_sinks")[0].rows == ()


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Yield a catalog with some items.

    Its query makes the planner set Python's recursion limit before Hypothesis reads it.
    """
    with Session(tmp_path_factory.mktemp("catalog") / "catalog.db") as session:
        session.execute(VIEW.format("1 AS one") + "CREATE TABLE a (a int); INSERT INTO a VALUES (1);")
        yield session


@examples(60, 1_000)
@given(statements)
def test_any_statement_compiles_or_gets_a_coded_error(catalog: Session, statement: ast.Statement) -> None:
    coded(compile_text, to_sql(statement))


@examples(40, 500)
@given(statements.filter(lambda each: not isinstance(each, ast.CreateConnection | ast.CreateSink)))
def test_any_statement_runs_or_gets_a_coded_error(catalog: Session, statement: ast.Statement) -> None:
    coded(catalog.execute, to_sql(statement))


@pytest.mark.share(8)
@pytest.mark.parametrize("name", [name for name in LISTS if name not in TOO_LONG])
def test_length_is_refused_or_parses(name: str) -> None:
    coded(parse, LISTS[name])


@pytest.mark.parametrize("name", ["string", "number"])
def test_long_query_is_refused_or_compiles(name: str) -> None:
    coded(compile_text, VIEW.format(LISTS[name].removeprefix("SELECT ")))


@pytest.mark.share(3)
@pytest.mark.parametrize("name", TOO_LONG)
def test_too_long_statement_is_refused(name: str) -> None:
    with pytest.raises(SinkqlError, match="the statement has more than") as raised:
        parse(LISTS[name])
    assert raised.value.code == "SQ1029"


def test_too_long_query_is_refused(tmp_path: Path) -> None:
    condition = "true AND " * LONG + "true"
    with pytest.raises(SinkqlError, match="the query has more than 200,000 words") as raised:
        compile_text(VIEW.replace("FROM n", "FROM n WHERE " + condition).format("1"))
    assert raised.value.code == "SQ1029"
    condition = "name IN (" + "'a', " * 5_000 + "'a')"
    with pytest.raises(SinkqlError, match="the query has more than 10,000 words") as raised:
        Session(tmp_path / "catalog.db").execute("SELECT name FROM mz_sinks WHERE " + condition)
    assert raised.value.code == "SQ1029"


@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize("around", ["{}", "SELECT {}", "CREATE SECRET s AS {}", "SET {} = 1", "-- {}"])
def test_odd_characters_are_refused_or_read(text: str, around: str, tmp_path: Path) -> None:
    written = around.format(text)
    for read in (parse, finished, compile_text, Session(tmp_path / "catalog.db").execute):
        coded(read, written)


def test_byte_order_mark_begins_a_script() -> None:
    assert parse("\ufeffSHOW SINKS;") == parse("SHOW SINKS;")


@pytest.mark.parametrize("content", [b"SELECT '\xff';", b"\xff\xfeS\0", b"\x80" * 1000])
def test_file_that_is_no_utf_8_is_refused(content: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.sql"
    file.write_bytes(content)
    assert run_command(["compile", str(file)]) == 1
    assert "SQ1010" in capfd.readouterr().err


def coded(run: Callable[[str], object], text: str) -> None:
    """Run a function; any exception but a coded error fails the test."""
    with suppress(SinkqlError):
        run(text)
