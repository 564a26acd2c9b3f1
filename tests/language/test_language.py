"""Printed statements parse to the same statement; no text makes the parser fail except with a coded error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from language.statements import soups
from language.statements_other import statements
from sinkql import ast
from sinkql.errors import SinkqlError, Span
from sinkql.parser import parse
from sinkql.printer import to_sql
from sinkql.script.split import finished
from support.examples import examples
from support.keywords import WORDS

pytestmark = pytest.mark.long


@examples(100, 1_000)
@given(statements)
def test_printed_statement_parses_to_itself(statement: ast.Statement) -> None:
    printed = to_sql(statement)
    assert (statement,) == parse(printed, WORDS)
    assert printed == to_sql(parse(printed, WORDS)[0])
    assert finished(printed)


@examples(100, 1_000)
@given(statements, st.data())
def test_redacted_statement_parses(statement: ast.Statement, data: st.DataObject) -> None:
    printed = to_sql(statement, redacted=WORDS)
    assert printed == to_sql(parse(printed, WORDS)[0], redacted=WORDS)


@examples(100, 1_000)
@given(st.one_of(st.text(max_size=40), soups))
@example("\ud800")
@example("CREATE SECRET s AS E'\\U00110000'")
def test_any_text_parses_or_gets_a_coded_error(text: str) -> None:
    check(text)


@examples(100, 1_000)
@given(statements, st.data())
def test_damaged_statement_parses_or_gets_a_coded_error(statement: ast.Statement, data: st.DataObject) -> None:
    printed = to_sql(statement)
    start = data.draw(st.integers(0, len(printed)))
    end = data.draw(st.integers(start, min(len(printed), start + 10)))
    check(printed[:start] + data.draw(soups) + printed[end:])


def check(text: str) -> None:
    error = _error(text)
    if error is None:
        return
    assert error.code.startswith(("SQ10", "SQ29"))
    assert error.span is not None
    assert 0 <= error.span.start <= error.span.end <= len(text)
    assert error.code in error.within(path="x.sql", text=text).shown()


def _error(text: str) -> SinkqlError | None:
    try:
        parse(text, WORDS)
    except SinkqlError as error:
        return error
    return None


@pytest.mark.parametrize("opening", ["(", "[", "MAP['a' => ", "1 + (", "CASE WHEN (", "/*"])
@pytest.mark.parametrize("count", [50, 101, 100_000])
def test_nesting_never_runs_out_of_stack(opening: str, count: int) -> None:
    check(f"CREATE CLUSTER c (X = {opening * count}")
    check(f"SELECT {opening * count}")


def test_long_lists_never_run_out_of_stack() -> None:
    many = 5_000
    parse(f"DROP SINK {', '.join('s' for _ in range(many))}", WORDS)
    parse(f"CREATE SECRET s AS {' || '.join(repr('x') for _ in range(many))}", WORDS)


def test_input_that_ends_too_early_is_blamed_behind_its_last_character() -> None:
    error = _error("CREATE SINK s   \n\n  ")
    assert error is not None
    assert error.span == Span(13, 13)


def test_importing_the_parser_builds_no_tables() -> None:
    program = "import sinkql.parser, sinkql.parser.read.automaton as g; print(g._tables.cache_info().currsize)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "0\n"


def test_tables_of_the_grammar_are_kept_for_the_next_process(tmp_path: Path) -> None:
    def parsed() -> None:
        program = "from sinkql.parser import parse; parse('SELECT 1')"
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
        subprocess.run([sys.executable, "-c", program], env=environment, check=True)

    parsed()
    (kept,) = (tmp_path / "sinkql").iterdir()
    written_at = kept.stat().st_mtime_ns
    parsed()
    assert written_at == kept.stat().st_mtime_ns
    kept.write_bytes(kept.read_bytes()[:100])
    parsed()
    assert [kept] == list((tmp_path / "sinkql").iterdir())
    assert kept.stat().st_size > 100


def test_empty_statements_are_left_out() -> None:
    assert not parse(" ; -- nothing\n ;; /* at /* all */ */", WORDS)


@pytest.mark.parametrize(("character", "shown"), [("\0", "U+0000"), ("\ud800", "U+D800")])
@pytest.mark.parametrize("around", ["SET a = '{}';", 'SET "{}" = 1;', "SELECT 1 -- {}", "{}"])
def test_character_that_no_text_may_hold_is_refused(character: str, shown: str, around: str) -> None:
    error = _error(around.format(character))
    assert error is not None
    assert (error.code, error.message) == ("SQ1016", f"invalid character {shown}")
    assert error.span == Span(around.index("{"), around.index("{") + 1)
