"""An unsupported query over the system catalog is an error at its place, and never one of SQLite's."""

from __future__ import annotations

import pytest

from sinkql.errors import SinkqlError
from sinkql.session import Session

_TABLES = "CREATE TABLE u (id bigint); CREATE TABLE w (id bigint);"


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("SHOW SINKS WHERE }", "SQ1001", "}"),
        ("SHOW TABLES WHERE nope(name)", "SQ2210", "nope(name)"),
        ("SHOW COLUMNS FROM u WHERE 1e", "SQ2201", "1e"),
        ("SELECT name, FROM mz_tables", "SQ2201", "FROM"),
        ("SELECT name == 'u' FROM mz_tables", "SQ2211", "=="),
        ("SELECT name:b FROM mz_tables", "SQ1006", "name:b"),
        ("SELECT corr(oid, oid) FROM mz_tables", "SQ2932", "corr(oid, oid)"),
        ("SELECT name FROM mz_tables WHERE name = ANY(name)", "SQ2211", "name"),
        ("SELECT length(name, 2) FROM mz_tables", "SQ2211", "length(name, 2)"),
        ("SELECT name FROM mz_tables UNION SELECT id, name FROM mz_tables", "SQ2221", None),
        ("SELECT 'abc'::char FROM mz_tables", "SQ2223", "char"),
        ('SELECT name::"char" FROM mz_tables', "SQ2223", '"char"'),
    ],
)
def test_what_is_not_there_is_an_error_at_its_place(session: Session, text: str, code: str, place: str | None) -> None:
    session.execute(_TABLES)
    with pytest.raises(SinkqlError) as caught:
        session.execute(text)
    error, span = caught.value, caught.value.span
    assert span is not None
    assert 0 <= span.start <= span.end <= len(text)
    assert (code, place or text) == (error.code, text[span.start : span.end])
    assert "no such" not in error.message
    assert "near " not in error.message


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ("name = ANY(ARRAY['u', 'x'])", ["u"]),
        ("name = ANY('{u,x}')", ["u"]),
        ("name = ANY (ARRAY['u', 'w'])", ["u", "w"]),
        ("left(name, 1) = 'w'", ["w"]),
    ],
)
def test_lists_and_left_are_run(session: Session, condition: str, names: list[str]) -> None:
    session.execute(_TABLES)
    (result,) = session.execute(f"SELECT name FROM mz_tables WHERE {condition} ORDER BY name")
    assert [(name,) for name in names] == list(result.rows)
