"""The Python of docs/embedding.md runs, each example in a folder of its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from docs.test_examples import python_blocks, sql_blocks
from support.readers import duckdb_folder

_ROWS = """
{"id": 1, "customer": 7, "amount": 10.5, "placed_at": "2026-01-01T08:00:00"}
{"id": 2, "customer": 7, "amount": 4.5, "placed_at": "2026-01-01T20:00:00"}
"""
_VIEW = re.compile(r"CREATE MATERIALIZED VIEW .*?;", re.DOTALL)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (pipeline,) = sql_blocks("README.md")
    view = _VIEW.search(pipeline)
    assert view is not None
    (tmp_path / "pipeline.sql").write_text(pipeline)
    (tmp_path / "views.sql").write_text(view[0])
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "1.json").write_text(_ROWS.lstrip())
    return tmp_path


def _run(heading: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for block in python_blocks("docs/embedding.md", heading):
        exec(block, found)
    return found


@pytest.mark.slow
def test_the_script_commits_and_its_sink_has_stopped(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run("A script")
    printed = capsys.readouterr().out
    assert "'status': 'stopped'" in printed
    assert [row[2:] for row in duckdb_folder(folder / "lake" / "shop" / "daily")] == [(2, 15)]


@pytest.mark.slow
def test_the_service_commits(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run("An asyncio service")
    assert capsys.readouterr().out == "the first rows are in the table\n"
    assert [row[2:] for row in duckdb_folder(folder / "lake" / "shop" / "daily")] == [(2, 15)]


def test_the_notebook_shows_rows_and_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    result = _run("A notebook")["result"]
    assert list(result.df()["item"]) == ["tea", "rice"]
    assert "1 | SELECT itm FROM prices\n           ^^^" in capsys.readouterr().out


def test_the_test_passes_and_would_fail_for_another_view(folder: Path) -> None:
    test = _run("A test of a pipeline")["test_revenue_is_summed_by_day"]
    test(folder)
    (folder / "views.sql").write_text((folder / "views.sql").read_text().replace("sum(amount)", "max(amount)"))
    (folder / "other").mkdir()
    with pytest.raises(AssertionError):
        test(folder / "other")
