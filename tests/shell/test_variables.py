"""Variables in SQL: their substitution, and the position of an error in the user's text."""

from __future__ import annotations

import pytest

from sinkql.errors import SinkqlError, Span
from sinkql.script.variable import substitute


def test_a_value_stands_as_it_is_as_a_string_and_as_a_name() -> None:
    values = {"v": "it's", "n": 'a"b', "t": "orders"}
    assert substitute("SELECT :'v', :\"n\" FROM :t;", values).text == "SELECT 'it''s', \"a\"\"b\" FROM orders;"


def test_casts_strings_comments_and_names_are_left_alone() -> None:
    text = "SELECT a::text, ':v', \":v\", $$:v$$ /* :v */ -- :v\n, b[1:2], MAP['a' => 1]"
    assert substitute(text, {}).text == text
    assert substitute("SELECT ':v", {}).text == "SELECT ':v"


def test_a_variable_that_is_not_set_is_an_error_where_it_stands() -> None:
    with pytest.raises(SinkqlError) as raised:
        substitute("SELECT :tabel", {"table": "x"})
    assert (raised.value.code, raised.value.span, raised.value.hint) == ("SQ4033", Span(7, 13), "Did you mean :table?")


def test_spans_of_the_new_text_are_found_in_the_old_one() -> None:
    old = "SELECT :a, x, :b FROM t"
    new = substitute(old, {"a": "first", "b": "2"})
    for part, expected in (
        ("first", ":a"),
        ("irs", ":a"),
        ("x", "x"),
        ("2", ":b"),
        ("FROM", "FROM"),
        ("t, x", ":a, x"),
    ):
        start = new.text.index(part)
        span = new.original(Span(start, start + len(part)))
        assert old[span.start : span.end] == expected
    assert new.original(Span(len(new.text), len(new.text))) == Span(len(old), len(old))
