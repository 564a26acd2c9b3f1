"""The menu of the line editor: its entries at the cursor, from the grammar, the catalog and the working folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from sinkql.session import Session
from sinkql.shell.command.command_list import BY_NAME
from sinkql.shell.editor.completer import SqlCompleter
from sinkql.shell.setting import Settings


def _menu(session: Session, text: str) -> dict[str, str]:
    """Return the menu's entries after a text, with their descriptions."""
    completer = SqlCompleter(session, Settings(), BY_NAME)
    found = completer.get_completions(Document(text, len(text)), CompleteEvent(completion_requested=True))
    return {each.text: each.display_meta_text for each in found}


def test_columns_of_all_relations_are_offered_before_the_query_says_which_it_reads(session: Session) -> None:
    found = _menu(session, "SELECT ")
    assert found["placed_at"] == "timestamp of orders"
    assert found["day"] == "timestamp of daily"
    assert _menu(session, "SELECT cus") == {"customer": "bigint of daily"}  # once, although both relations have it
    assert set(_menu(session, "SELECT orders.")) == {"id", "customer", "placed_at"}
    assert "day" not in _menu(session, "SELECT  FROM orders WHERE ")


def test_a_name_with_a_dot_in_it_is_one_name(session: Session) -> None:
    session.execute('CREATE VIEW "a.b" AS SELECT id AS "of a.b" FROM orders')
    assert _menu(session, "SELECT ")['"of a.b"'] == 'bigint of "a.b"'
    assert '"of a.b"' in _menu(session, 'SELECT 1 FROM "a.b" WHERE ')
    assert '"a.b"' in _menu(session, "SELECT 1 FROM public.")


@pytest.fixture
def files(folder: Path) -> None:
    (folder / "data" / "o'clock").mkdir(parents=True)
    (folder / "data" / ".hidden").touch()
    (folder / "data" / "a.json").touch()


@pytest.mark.usefixtures("files")
def test_files_and_folders_are_offered_where_an_option_takes_a_path(session: Session) -> None:
    start = "CREATE SOURCE s FROM FILES (PATH = "
    assert _menu(session, f"{start}'da") == {"'data/": "folder"}
    assert _menu(session, f"{start}'data/") == {"'data/a.json'": "file", "'data/o''clock/": "folder"}
    assert _menu(session, f"{start}'data/.h") == {"'data/.hidden'": "file"}
    assert "'data/" in _menu(session, start)
    assert _menu(session, f"{start}'nowhere/") == {}
    lake = "CREATE CONNECTION c TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'da"
    assert _menu(session, lake) == {"'data/": "folder"}
    assert _menu(session, "CREATE SOURCE s FROM FILES (GLOB = 'da") == {}
