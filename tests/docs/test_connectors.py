"""The pages of connectors: options are those of the code, and types are those that real servers' columns get."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.connector_page import faults, filled, options
from sinkql.extension.registry import Registry, discover
from sinkql.session import Session
from support.mariadb import MariaDb, mariadb
from support.postgres import Postgres

pytestmark = pytest.mark.long

_FOLDER = Path(__file__).parents[2] / "docs" / "connectors"
_PAGES = sorted(_FOLDER.glob("*.md"))


@pytest.fixture(scope="module")
def registry() -> Registry:
    return discover()


@pytest.mark.parametrize("path", _PAGES, ids=lambda path: path.stem)
def test_options_are_those_of_the_code(path: Path, registry: Registry, pytestconfig: pytest.Config) -> None:
    text = path.read_text()
    written = filled(text, options(registry))
    if pytestconfig.getoption("--rewrite"):
        path.write_text(written)
    assert written == text
    assert faults(text) == []
