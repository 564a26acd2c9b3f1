"""Rows in every format."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal

import pytest

from sinkql.shell.screen.table import render
from sinkql.shell.setting import FORMATS, RowFormat, Settings

_COLUMNS = ("name", "n", "amount", "at")
_ROWS = [("a|b", 1, Decimal("1.50"), datetime(2026, 1, 2, 3, 4, 5)), (None, 20, None, None)]
_SHOWN: dict[RowFormat, str] = {
    "table": """\
name    n   amount   at
────────────────────────────────────────
a|b     1     1.50   2026-01-02 03:04:05
NULL   20     NULL   NULL
(2 rows)
""",
    "vertical": """\
─ row 1 ────────────────────────────────
name    a|b
n       1
amount  1.50
at      2026-01-02 03:04:05
─ row 2 ────────────────────────────────
name    NULL
n       20
amount  NULL
at      NULL
""",
    "csv": """\
name,n,amount,at
a|b,1,1.50,2026-01-02 03:04:05
,20,,
""",
    "json": """\
[
  {"name": "a|b", "n": 1, "amount": "1.50", "at": "2026-01-02 03:04:05"},
  {"name": null, "n": 20, "amount": null, "at": null}
]
""",
    "jsonl": """\
{"name": "a|b", "n": 1, "amount": "1.50", "at": "2026-01-02 03:04:05"}
{"name": null, "n": 20, "amount": null, "at": null}
""",
    "markdown": """\
| name | n | amount | at |
|---|---:|---:|---|
| a\\|b | 1 | 1.50 | 2026-01-02 03:04:05 |
|  | 20 |  |  |
""",
}


def _render(format: RowFormat, width: int = 80) -> str:  # noqa: A002 the setting's name
    return render(_COLUMNS, _ROWS, Settings(format=format), width=width, colour=False)


@pytest.mark.parametrize("format", FORMATS)
def test_rows_look_so(format: RowFormat) -> None:  # noqa: A002 the setting's name
    assert _SHOWN[format] == _render(format)


def test_json_is_json() -> None:
    assert json.loads(_render("json")) == [json.loads(line) for line in _render("jsonl").splitlines()]


def test_a_table_that_does_not_fit_is_shown_one_value_a_line() -> None:
    assert _render("table", width=30).startswith("─ row 1")


def test_no_rows_are_told() -> None:
    for format_ in ("table", "vertical"):
        assert "(0 rows)" in render(("a",), [], Settings(format=format_), width=80, colour=False)
    assert render(("a",), [], Settings(format="json"), width=80, colour=False) == "[]\n"


def test_a_value_of_many_lines_stays_in_its_column() -> None:
    text = render(("sql", "n"), [("a\n  b\n\nc", 1)], Settings(), width=80, colour=False)
    assert text.splitlines() == ["sql   n", "───────", "a     1", "  b", "", "c", "(1 row)"]
