"""The tutorials hide nothing: `test_blocks` runs each of their commands and files, in order.

`test_blocks` starts the servers of a page, runs its blocks in one folder, and compares their output. These tests check
that no block of a tutorial is left out, so that a reader who copies each block gets what the page shows.
"""

from __future__ import annotations

import pytest

from docs.blocks import needs_spark, runs
from docs.page_text import Page, pages

pytestmark = pytest.mark.long

_NAMES = ("kafka-to-iceberg", "postgres-to-lake", "change-a-pipeline", "operate")
_PAGES = [page for page in pages() if page.name in {f"tutorials/{name}" for name in _NAMES}]


def test_all_tutorials_are_there() -> None:
    assert {page.name for page in _PAGES} == {f"tutorials/{name}" for name in _NAMES}


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_every_command_runs(page: Page) -> None:
    commands = [block for block in page.blocks if block.language == "sh"]
    assert [page.place(block.line) for block in commands if not runs(block)] == []
    assert needs_spark(page)


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_all_sql_and_python_is_a_file_or_runs_on_a_server(page: Page) -> None:
    """Statements of SinkQL are in scripts, as readers of a tutorial have them, and not in the test's session."""
    given = [block for block in page.blocks if block.language in ("sql", "python")]
    assert [page.place(each.line) for each in given if each.mark("file") is None and each.mark("on") is None] == []


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_it_shows_rows_of_a_table(page: Page) -> None:
    outputs = [block.output.text for block in page.blocks if block.output is not None]
    assert any("rows)" in output or "(1 row)" in output for output in outputs)
    assert all(output.strip() for output in outputs)
