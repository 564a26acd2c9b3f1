"""The documentation says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import statement_page
from docs.error_page import page
from sinkql.cli.command import cli
from sinkql.connector.options import labels
from sinkql.connectors.aws.plan import AwsOptions
from sinkql.connectors.files.plan import FilesOptions, FilesSourceOptions
from sinkql.connectors.generator.plan import CounterOptions
from sinkql.connectors.iceberg.connection import CatalogOptions
from sinkql.connectors.iceberg.plan import IcebergOptions, TableOptions
from sinkql.planner.cluster import ClusterOptions

_ROOT = Path(__file__).parents[2]


def test_the_page_of_error_codes_is_that_of_the_code(pytestconfig: pytest.Config) -> None:
    path = _ROOT / "docs" / "errors.md"
    if pytestconfig.getoption("--rewrite"):
        path.write_text(page())
    assert page() == path.read_text()


def test_the_page_of_statements_is_what_they_do(
    pytestconfig: pytest.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written, path = statement_page.page(tmp_path), _ROOT / "docs" / "statements.md"
    if pytestconfig.getoption("--rewrite"):
        path.write_text(written)
    assert written == path.read_text()


@pytest.mark.parametrize(
    "options",
    [
        AwsOptions,
        ClusterOptions,
        CounterOptions,
        FilesOptions,
        FilesSourceOptions,
        CatalogOptions,
        IcebergOptions,
        TableOptions,
    ],
)
def test_every_option_is_on_its_page(options: type) -> None:
    text = (_ROOT / "docs" / "options.md").read_text()
    assert [label for label in labels(options) if f"`{label}`" not in text] == []


def test_every_command_is_in_the_readme() -> None:
    text = (_ROOT / "README.md").read_text()
    assert [name for name in cli.commands if f"sinkql {name}" not in text] == []


def test_links_lead_somewhere() -> None:
    broken = [
        f"{path.name}: {link}"
        for path in [*_ROOT.glob("*.md"), *(_ROOT / "docs").glob("*.md"), *(_ROOT / "bench").glob("*.md")]
        for link in re.findall(r"\]\(([^)#]+)", path.read_text())
        if "://" not in link and not (path.parent / link).exists()
    ]
    assert broken == []
