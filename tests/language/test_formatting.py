"""`sinkql fmt` preserves statements and comments, and does not change its own output."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from language.statements_other import statements
from sinkql.cli.main import run_command as run
from sinkql.errors import SinkqlError
from sinkql.parser import parse
from sinkql.parser.read import lexer
from sinkql.printer import to_sql
from sinkql.script.format import format_script
from support.examples import examples
from support.keywords import WORDS

pytestmark = pytest.mark.long

_COMMENTS = st.sampled_from([" -- {}\n", "\n-- {}\n", " /* {} */ ", "\n/* {}\n /* -- */ ; */\n", " /* {} */ -- {}b\n"])


@st.composite
def scripts(draw: st.DrawFn) -> str:
    """Draw statements with comments before, between and after their lexemes."""
    laid_out = [to_sql(each) for each in draw(st.lists(statements, max_size=3))]
    in_one_line = draw(st.booleans())  # only for strings without line breaks
    text = "\n".join(each.replace("\n", " ") if in_one_line and "'" not in each else each for each in laid_out)
    lexemes = list(lexer.scan(text))
    places = sorted({draw(st.integers(0, len(lexemes) - 1)) for _ in range(draw(st.integers(0, 6)))}, reverse=True)
    for number, place in enumerate(places):
        start = lexemes[place].start
        comment = draw(_COMMENTS).format(f"c{number}", f"c{number}")
        text = text[:start] + comment + text[start:]
    return text + draw(st.sampled_from(["", "\n", "\n\n;;\n -- end", " -- end"]))


@examples(100, 1_000)
@given(scripts())
def test_formatting_keeps_statements_and_comments(text: str) -> None:
    formatted = format_script(text, WORDS)
    assert parse(text, WORDS) == parse(formatted, WORDS)
    assert _comments(text) == _comments(formatted)
    assert formatted == format_script(formatted, WORDS)


def _comments(text: str) -> list[str]:
    found, at = [], 0
    for lexeme in lexer.scan(text + "\n;"):
        found += [text[span.start : span.end].rstrip() for span in lexer.comments(text, at, lexeme.start)]
        at = lexeme.end
    return sorted(found)


_ONE_LINE = (
    "CREATE SOURCE s (skip int, b text) FROM FILES (PATH = 'a=skip') FORMAT CSV WITH (POLL = '10s', ON ERROR = SKIP);\n"
)
_LAID_OUT = """\
CREATE SOURCE s (skip int, b text)
  FROM FILES (PATH = 'a=skip')
  FORMAT CSV
  WITH (POLL = '10 whole seconds', ON ERROR = SKIP);
"""


@pytest.mark.parametrize(
    ("text", "formatted"),
    [
        ("", ""),
        (" ;; ", ""),
        ("-- only this", "-- only this\n"),
        (
            "CREATE CLUSTER -- here\na (ACCESS DELEGATION) FEATURES (START OFFSET)",
            "CREATE CLUSTER -- here\n    a (ACCESS DELEGATION) FEATURES (START OFFSET);\n",
        ),
        ("show sinks", "SHOW SINKS;\n"),
        ("show sinks;show views;", "SHOW SINKS;\nSHOW VIEWS;\n"),
        ("\n\nshow sinks;\n\n\n\nshow views;\n\n", "SHOW SINKS;\n\nSHOW VIEWS;\n"),
        ("-- a\n\n-- b\nshow sinks; -- c", "-- a\n\n-- b\nSHOW SINKS; -- c\n"),
        ("create secret s as 'hunter2'", "CREATE SECRET s AS 'hunter2';\n"),
        ("create secret s\nas 'hunter2'", "CREATE SECRET s\n  AS 'hunter2';\n"),
        (_ONE_LINE, _ONE_LINE),
        (_ONE_LINE.replace("10s", "10 whole seconds"), _LAID_OUT),
        (_LAID_OUT, _LAID_OUT),
        ("create view v as /* why */ select  1", "CREATE VIEW v AS /* why */ select  1;\n"),
        ("comment on table t is E'a\\nb'", "COMMENT ON TABLE t IS 'a\nb';\n"),
        ('alter sink k set (on error = "skip")', "ALTER SINK k SET (ON ERROR = SKIP);\n"),
        ("drop sink a; -- of skip", "DROP SINK a; -- of skip\n"),
        ("drop sink a, -- first\n b", "DROP SINK a, -- first\n    b;\n"),
        ("drop sink\n  -- both\n  a, b;", "DROP SINK\n    -- both\n    a, b;\n"),
        ("select  1 ,\n /* x */ 2 -- y\n", "select  1 ,\n /* x */ 2; -- y\n"),
        ("show sinks -- why\n;", "SHOW SINKS -- why\n;\n"),
        ("create view v as -- why\n select  1", "CREATE VIEW v\n  AS -- why\n      select  1;\n"),
        ("\ufeffshow sinks;\r\n\r\nshow views;\r\n", "SHOW SINKS;\n\nSHOW VIEWS;\n"),
    ],
)
def test_canonical_form(text: str, formatted: str) -> None:
    assert formatted == format_script(text, WORDS)
    assert formatted == format_script(formatted, WORDS)


def test_script_that_does_not_parse_is_left_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.sql"
    file.write_text("show sinks; creat secret s as 'hunter22';")
    assert run(["fmt", str(file)]) == 1
    assert file.read_text() == "show sinks; creat secret s as 'hunter22';"
    assert "hunter22" not in "".join(capfd.readouterr())
    with pytest.raises(SinkqlError):
        format_script(file.read_text(), WORDS)


def test_check_and_diff_change_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    wrong, right = tmp_path / "wrong.sql", tmp_path / "right.sql"
    wrong.write_text("show sinks;\n")
    right.write_text("SHOW SINKS;\n")
    assert run(["fmt", "--check", str(right)]) == 0
    assert run(["fmt", "--check", str(wrong), str(right)]) == 1
    assert capfd.readouterr().out == f"{wrong}\n"
    assert run(["fmt", "--diff", str(wrong)]) == 0
    assert "-show sinks;\n+SHOW SINKS;\n" in capfd.readouterr().out
    assert wrong.read_text() == "show sinks;\n"
    assert run(["fmt", str(wrong), str(right)]) == 0
    assert wrong.read_text() == right.read_text()
    assert capfd.readouterr().out == f"{wrong}\n"


_VARIABLES = """\
create connection lake to iceberg catalog (warehouse = :'warehouse', catalog type = :'type'); -- :'none'
create cluster :name (size = :'size', memory = :memory);
create materialized view :"view" as select id, ':x' as x, :'label'::text as y from orders where id > :lowest limit :n;
"""
_FORMATTED_VARIABLES = """\
CREATE CONNECTION lake TO ICEBERG CATALOG (WAREHOUSE = :'warehouse', CATALOG TYPE = :'type'); -- :'none'
CREATE CLUSTER :name (SIZE = :'size', MEMORY = :memory);
CREATE MATERIALIZED VIEW :"view" AS select id, ':x' as x, :'label'::text as y from orders where id > :lowest limit :n;
"""


def test_variables_stay() -> None:
    assert format_script(_VARIABLES, WORDS) == _FORMATTED_VARIABLES
    assert format_script(_FORMATTED_VARIABLES, WORDS) == _FORMATTED_VARIABLES


def test_an_error_shows_a_variable_as_it_is_written() -> None:
    text = "CREATE CLUSTER :name (SIZE = :'size' :other);"
    with pytest.raises(SinkqlError) as raised:
        format_script(text, WORDS)
    error = raised.value
    assert error.code.startswith("SQ1")
    assert error.span is not None
    assert text[error.span.start : error.span.end] == ":other"
    assert ":other" in error.message


def test_a_text_with_private_characters_has_no_stand_ins() -> None:
    with pytest.raises(SinkqlError):
        format_script("CREATE CLUSTER :name (SIZE = '\ue000\uf8ff');", WORDS)
