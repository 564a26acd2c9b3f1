"""The examples of the pages run: their SQL in one session, in order; their commands have the options they say."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import sinkql
from sinkql import ast
from sinkql.cli.group import cli
from sinkql.errors import SinkqlError
from sinkql.parser import parse
from sinkql.session import Session

pytestmark = pytest.mark.long

_ROOT = Path(__file__).parents[2]
_PAGES = ("README.md", "docs/guide.md", "docs/shell.md", "docs/embedding.md", "docs/cluster.md")
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


def _commands() -> Iterator[str]:
    for page in _PAGES:
        for block in _blocks(page, "sh"):
            for line in block.splitlines():
                command = re.search(r"(?:^|\$\(|\| )(sinkql [^#|>)]+)", line)
                if command is not None:
                    yield command[1].strip()
        yield from re.findall(r"`(sinkql [a-z][^`]*)`", (_ROOT / page).read_text())


@pytest.mark.parametrize("command", sorted(set(_commands())))
def test_the_commands_of_the_pages_are_known(command: str) -> None:
    words = [word for word in shlex.split(command)[1:] if not word.startswith("…")]
    options: list[str] = []
    while words and words[0].startswith("-"):
        options += [words.pop(0), words.pop(0)]
    with cli.make_context("sinkql", [*options, *words], resilient_parsing=True) as context:
        name, found, rest = cli.resolve_command(context, words)
    assert found is not None, name
    if isinstance(found, click.Group) and rest:
        assert rest[0] in found.commands
        found, rest = found.commands[rest[0]], rest[1:]
    known = {option for parameter in found.params for option in parameter.opts}
    assert [word for word in rest if word.startswith("-") and word not in known] == []


def test_a_wrong_example_is_found(folder: Path) -> None:
    with pytest.raises(SinkqlError), Session() as session:
        session.execute(_blocks("docs/guide.md", "sql")[-1])
