"""Strings inside queries are read as in other statements, and as Postgres reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkql import ast
from sinkql.errors import SinkqlError, Span
from sinkql.planner.syntax import sqlglot_tree
from sinkql.session import Session

_STRINGS = (
    ("'a'\n'b'", "ab"),
    ("'a'\n  'b'\n\t'c'", "abc"),
    ("'it''s'\r\n''''", "it's'"),
    (r"E'a\n'" + "\n" + r"'b\t'", "a\nb\t"),
    (r"'a\n'" + "\n" + r"'b\t'", r"a\nb\t"),
    ("$$it's$$", "it's"),
    ("$q$a$$b$q$", "a$$b"),
    (r"E'\u00e9\\'", "é\\"),
)


@pytest.mark.parametrize(("written", "value"), _STRINGS)
def test_a_string_in_a_query_has_its_value(written: str, value: str, tmp_path: Path) -> None:
    with Session(tmp_path / "catalog.db") as session:
        session.execute("CREATE TABLE t (a text);")
        session.execute(f"CREATE VIEW v AS SELECT {written} AS s FROM t WHERE a = {written}")
        rows = session.execute(f"SELECT {written} AS s FROM mz_tables WHERE name = 't' AND {written} = {written}")[
            0
        ].rows
        assert ((value,),) == rows
    text = f"SELECT {written} AS s"
    found = sqlglot_tree.parse(ast.Query(text, Span(0, len(text))))
    assert value == sqlglot_tree.string_value(found, found.tree.expressions[0].unalias())


@pytest.mark.parametrize("between", [" ", "/* \n */", "\t"])
def test_strings_of_one_line_are_two(between: str, tmp_path: Path) -> None:
    text = f"CREATE VIEW v AS SELECT 'a'{between}'b' AS s FROM t"
    with Session(tmp_path / "catalog.db") as session:
        session.execute("CREATE TABLE t (a text);")
        with pytest.raises(SinkqlError) as refused:
            session.execute(text)
    place = text.index("'b'")
    assert ("SQ2201", Span(place, place + 3)) == (refused.value.code, refused.value.span)


@pytest.mark.parametrize("written", ["X'6162'", "B'01'"])
def test_hex_and_bit_strings_are_not_supported_yet(written: str, tmp_path: Path) -> None:
    with Session(tmp_path / "catalog.db") as session:
        session.execute("CREATE TABLE t (a text);")
        with pytest.raises(SinkqlError, match="strings are not supported yet") as refused:
            session.execute(f"CREATE VIEW v AS SELECT {written} AS s FROM t")
        assert refused.value.hint
