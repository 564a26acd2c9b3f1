"""The generated pages say what the code does; `pytest tests/docs --rewrite` writes them."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest
from click_man.core import write_man_pages

import sinkql
import sinkql.testing
from docs import (
    cli_page,
    error_page,
    function_page,
    option_page,
    python_page,
    shell_page,
    statement_page,
    system_page,
)
from docs.function_examples import CLOCK, ROWS, alike, in_postgres, public_names, read, results
from sinkql.cli.main import cli
from sinkql.connector_api.option_help import option_help
from sinkql.connector_api.registry import discover
from support.postgres import Postgres

pytestmark = pytest.mark.long

_ROOT = Path(__file__).parents[2]
_DOCS = _ROOT / "docs"


def _check(pages: dict[str, str], config: pytest.Config, folder: str = "", root: Path = _DOCS) -> None:
    """Compare pages with their files, or write them. Another page in `folder` fails, or is deleted."""
    kind = "*.md" if root == _DOCS else "*.1"
    stale = {str(path.relative_to(root)) for path in (root / folder).glob(kind)} - pages.keys() if folder else set()
    if config.getoption("--rewrite"):
        for name, text in pages.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        for name in stale:
            (root / name).unlink()
        return
    assert sorted(stale) == []
    differs = [n for n, text in pages.items() if not (root / n).exists() or (root / n).read_text() != text]
    assert differs == [], "run pytest tests/docs --rewrite"


@pytest.mark.filterwarnings("ignore:.*make_default_short_help")
def test_the_manual_pages_are_the_help_of_the_commands(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    version = re.escape(sinkql.__version__)
    released = re.search(rf"^## {version}, (.+)$", (_ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released is not None, "the changelog has no date of this version"
    write_man_pages("sinkql", cli, version=sinkql.__version__, target_dir=str(tmp_path), date=released[1])
    pages = {f"man/{path.name}": path.read_text() for path in tmp_path.iterdir()}
    assert {"man/sinkql.1", "man/sinkql-exec.1", "man/sinkql-catalog-backup.1"} <= pages.keys()
    _check(pages, pytestconfig, "man", _ROOT)


def test_the_pages_of_errors_are_those_of_the_codes(pytestconfig: pytest.Config) -> None:
    _check(error_page.pages(), pytestconfig, "errors")


def test_the_pages_of_statements_are_what_they_do(
    pytestconfig: pytest.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _check(statement_page.pages(tmp_path), pytestconfig)


def test_the_pages_of_functions_are_those_of_the_help(pytestconfig: pytest.Config) -> None:
    _check(function_page.pages(), pytestconfig, "functions")


def test_every_public_function_has_help_and_no_other() -> None:
    _, helps = read()
    assert {each.name for each in helps} == public_names()


def test_every_example_gives_the_same_in_postgres(postgres: Postgres) -> None:
    _, helps = read()
    wrong = []
    with psycopg.connect(postgres.address(), autocommit=True) as connection:
        connection.execute("SET timezone = 'UTC'")
        connection.execute("CREATE TEMP TABLE t (id integer PRIMARY KEY, n integer, s text)")
        connection.cursor().executemany("INSERT INTO t VALUES (%s, %s, %s)", ROWS)
        for each in helps:
            if each.page == CLOCK or each.postgres is False:
                continue
            for example in each.examples:
                ours, theirs = results()[each.name, example].text, in_postgres(each, example, connection)
                if not alike(ours, theirs):
                    wrong.append(f"{each.name}: {example}: {ours}, in Postgres {theirs}")
    assert wrong == []


def test_the_type_of_an_example_is_one_of_its_forms() -> None:
    known = {"boolean", "integer", "text", "date", "timestamp", "timestamptz", "interval", "jsonb", "bytea"}
    wrong = []
    for each in read()[1]:
        gives = {form.rpartition(" → ")[2] for form in each.forms}
        calls = [example for example in each.examples if example.startswith(f"{each.name}(") and each.page != CLOCK]
        types = {results()[each.name, example].type for example in calls} - {""}
        wrong += [f"{each.name}: {type_}" for type_ in types - gives if gives <= known]
    assert wrong == []


def test_the_page_of_the_command_line_has_all_commands(pytestconfig: pytest.Config) -> None:
    _check(cli_page.pages(), pytestconfig)


def test_every_variable_of_the_page_is_one_of_the_code() -> None:
    text = "".join(path.read_text("utf-8") for path in (_DOCS.parent / "sinkql").rglob("*.py"))
    other = {"TMPDIR", "HADOOP_USER_NAME"}  # read by Python, and by Hadoop
    assert sorted(name for name in cli_page.variables() - other if name not in text) == []


def test_the_page_of_options_is_that_of_the_connectors(pytestconfig: pytest.Config) -> None:
    _check(option_page.pages(), pytestconfig)


def test_the_help_on_an_option_is_short() -> None:
    registry = discover()
    found: list[type | None] = [each.options for each in registry.connections.values()]
    found += [part for kind in registry.sources.values() for part in (kind.options, kind.with_options)]
    found += [part for each in registry.sinks.values() for part in (each.options, each.with_options)]
    options = [option for each in found if each is not None for option in option_help(each)]
    assert sorted({each.help for each in options if len(each.help.split()) > 15}) == []


def test_the_page_of_the_system_catalog_has_all_relations(pytestconfig: pytest.Config) -> None:
    _check(system_page.pages(), pytestconfig)


def test_every_system_relation_and_column_has_a_text() -> None:
    assert system_page.missing() == []


def test_the_page_of_the_shell_has_all_commands(pytestconfig: pytest.Config) -> None:
    _check(shell_page.pages(), pytestconfig)


def test_the_page_of_python_has_all_public_names(pytestconfig: pytest.Config) -> None:
    _check(python_page.pages(), pytestconfig)
    page = (_DOCS / "reference" / "python.md").read_text()
    public = {f"sinkql.{name}" for name in sinkql.__all__ if not name.startswith("_")}
    public |= {f"sinkql.testing.{name}" for name in sinkql.testing.__all__}
    assert sorted(name for name in public if f"### {name}\n" not in page) == []
