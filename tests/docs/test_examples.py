"""Find the examples of pages for other tests; the pipeline in the README compiles."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sinkql

pytestmark = pytest.mark.long

_ROOT = Path(__file__).parents[2]


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (_ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def sql_blocks(page: str) -> list[str]:
    """Return the SQL examples of a page."""
    return _blocks(page, "sql")


def python_blocks(page: str, heading: str) -> list[str]:
    """Return the Python examples under a heading of a page."""
    text = (_ROOT / page).read_text()
    (part,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"^```python\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders").mkdir()
    return tmp_path


def test_the_pipeline_of_the_readme_compiles(folder: Path) -> None:
    (block,) = _blocks("README.md", "sql")
    assert [job.sink for job in sinkql.compile(block).jobs] == ["materialize.public.daily_sink"]
