"""The examples of the pages run: their SQL in one session, in order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sinkql
from sinkql import ast
from sinkql.errors import SinkqlError
from sinkql.parser import parse
from sinkql.session import Session

pytestmark = pytest.mark.long

_ROOT = Path(__file__).parents[2]
_PAGES = ("README.md", "docs/guide.md", "docs/embedding.md", "docs/cluster.md")
_ELSEWHERE = ("'rest'", "vault(", "'s3://")
"""What the blocks say that need another system: they are compiled, each with those before it, and not run."""


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


def test_the_sql_of_the_guide_runs_in_order(folder: Path) -> None:
    blocks = _blocks("docs/guide.md", "sql")
    assert len(blocks) > 10
    elsewhere = ""
    with Session() as session:
        session.execute("CREATE SECRET catalog_secret AS env_var('CATALOG_SECRET');")
        for block in blocks:
            if any(word in block for word in _ELSEWHERE):
                elsewhere += block
                sinkql.compile(elsewhere)
                continue
            for statement in parse(block):
                session.execute(_planned(statement) or block[statement.span.start : statement.span.end])
        sinks = {row[0] for row in session.execute("SELECT name FROM mz_sinks")[0].rows}
        assert sinks == {"daily_sink", "raw_orders", "audited_sink"}


def test_the_sql_of_the_page_of_clusters_is_planned() -> None:
    blocks = sql_blocks("docs/cluster.md")
    assert len(blocks) == 3
    assert sinkql.compile("".join(blocks)).jobs == ()


def _planned(statement: ast.Statement) -> str | None:
    """Return what plans a statement alone, if running it would start Spark."""
    match statement:
        case ast.Select(query=query) if "mz_" not in query.text:
            return f"EXPLAIN RAW PLAN FOR {query.text}"
        case ast.Insert(query=ast.Query(text=text)) if "SELECT" in text:
            return f"EXPLAIN RAW PLAN FOR {text}"
        case ast.Alter(name=name, action=ast.Publish()):
            return f"EXPLAIN PHYSICAL PLAN FOR SINK {name.text}"
        case _:
            return None


def test_the_pipeline_of_the_readme_compiles(folder: Path) -> None:
    (block,) = _blocks("README.md", "sql")
    assert [job.sink for job in sinkql.compile(block).jobs] == ["materialize.public.daily_sink"]


def test_a_wrong_example_is_found(folder: Path) -> None:
    with pytest.raises(SinkqlError), Session() as session:
        session.execute(_blocks("docs/guide.md", "sql")[-1])
