"""A terminal receives no control characters from data, names or messages."""

from __future__ import annotations

import io
import json
import sys
import unicodedata
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinkql.cli.output import Output
from sinkql.errors import Notice, SinkqlError, Span
from sinkql.shell.screen.screen import Screen
from sinkql.shell.screen.table import render
from sinkql.shell.setting import RowFormat, Settings

_TEXTS = st.text(st.characters(categories=("Cc", "Cf", "Cs", "Zl", "Zp", "Ll", "Nd")), max_size=20)
_TURNS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def _obeyed(shown: str) -> set[str]:
    """Return the characters that control a terminal or change the direction of text."""
    bad = {each for each in shown if unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp")} - {"\n", "\t"}
    return bad | {each for each in shown if unicodedata.bidirectional(each) in _TURNS}


@given(name=_TEXTS, value=_TEXTS)
@pytest.mark.parametrize("form", [each for each in get_args(RowFormat) if each != "csv"])
def test_no_row_has_one(form: RowFormat, name: str, value: str) -> None:
    shown = render([name], [[value], [{name: [value]}]], Settings(format=form), width=80, colour=False)
    assert _obeyed(shown) == set()
    if form == "jsonl":
        name, value = (
            text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") for text in (name, value)
        )
        assert [json.loads(line) for line in shown.split("\n") if line] == [{name: value}, {name: {name: [value]}}]


@given(value=_TEXTS)
def test_no_csv_on_a_terminal_has_one_and_a_file_has_the_value(value: str) -> None:
    with pytest.MonkeyPatch().context() as patch:
        out, target = io.StringIO(), io.StringIO()
        patch.setattr(sys, "stdout", out)
        Screen(Settings(format="csv", pager=False), interactive=True).rows(["a"], [[value]])
        Screen(Settings(format="csv"), interactive=True, target=target).rows(["a"], [[value]])
    assert _obeyed(out.getvalue()) == set()
    assert value in target.getvalue()


@given(text=_TEXTS, message=_TEXTS)
def test_no_error_or_notice_has_one(text: str, message: str) -> None:
    sql = f"SELECT '{text}' FROM x"
    error = SinkqlError("SQ2001", message, Span(0, len(sql)), detail=text, hint=text, path="a.sql", text=sql)
    assert _obeyed(error.shown()) == set()
    streams = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch().context() as patch:
        patch.setattr(sys, "stdout", streams[0])
        patch.setattr(sys, "stderr", streams[1])
        for shows in (Output("text"), Screen(Settings(), interactive=False)):
            shows.notice(Notice("SQ2007", message, Span(0, 1), hint=text), path="a.sql", text=sql)
            shows.error(error)
            shows.line(message)
    assert [_obeyed(each.getvalue()) for each in streams] == [set(), set()]


def test_a_caret_stands_under_its_place() -> None:
    sql = "SELECT '\x1b[31m', b"
    error = SinkqlError("SQ2001", "no", Span(sql.index(", b") + 2, len(sql)), text=sql)
    _, line, caret = error.shown().splitlines()
    assert caret.index("^") == line.index(", b") + 2
