"""The Python examples on the pages about embedding and tests run, each in a separate folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sinkql
from docs.test_examples import python_blocks, sql_blocks
from support.readers import duckdb_folder

pytestmark = pytest.mark.long

_ROWS = """
{"id": 1, "customer": 7, "amount": 10.5, "placed_at": "2026-01-01T08:00:00"}
{"id": 2, "customer": 7, "amount": 4.5, "placed_at": "2026-01-01T20:00:00"}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (pipeline,) = sql_blocks("README.md")
    (tmp_path / "pipeline.sql").write_text(pipeline.replace("INTERVAL = '10s'", "INTERVAL = '1s'"))
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "1.json").write_text(_ROWS.lstrip())
    return tmp_path


def _run(heading: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for block in python_blocks("docs/how-to/embed.md", heading):
        exec(block, found)
    return found


@pytest.mark.slow
def test_the_script_commits_and_its_sink_has_stopped(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run("A script")
    assert capsys.readouterr().out == "((7, 2, Decimal('15.00')),)\n"
    with sinkql.connect() as session:
        columns, (sink,) = session.status()
    assert sink[columns.index("status")] == "stopped"
    assert [row[2:] for row in duckdb_folder(folder / "lake" / "shop" / "daily")] == [(2, 15)]


@pytest.mark.slow
def test_the_service_commits(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run("An asyncio service")
    assert capsys.readouterr().out == "the table is up to date\n"
    assert [row[2:] for row in duckdb_folder(folder / "lake" / "shop" / "daily")] == [(2, 15)]


def test_the_notebook_shows_rows_and_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    result = _run("A notebook")["result"]
    assert list(result.df()["item"]) == ["tea", "rice"]
    assert "1 | SELECT itm FROM prices\n           ^^^" in capsys.readouterr().out


@pytest.mark.soak  # in each run, the page of the tutorial runs them too
def test_the_tests_pass(folder: Path, pytester: pytest.Pytester) -> None:
    _ran(pytester, (folder / "pipeline.sql").read_text()).assert_outcomes(passed=2)


@pytest.mark.soak
def test_the_tests_would_fail_for_another_view(folder: Path, pytester: pytest.Pytester) -> None:
    ran = _ran(pytester, (folder / "pipeline.sql").read_text().replace("sum(amount)", "max(amount)"))
    ran.assert_outcomes(passed=1, failed=1)
    ran.stdout.fnmatch_lines(["E*1 row missing (-), 1 row not expected (+), 0 as expected"])


def _ran(pytester: pytest.Pytester, pipeline: str) -> pytest.RunResult:
    (text,) = python_blocks("docs/tutorials/test-a-pipeline.md", "2. The test")
    (pytester.path / "pipeline.sql").write_text(pipeline)
    pytester.makepyfile(text)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider")
