"""A shell in a real terminal, over a catalog with a connection, a source, a view and a sink."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from shell.tmux import Terminal
from sinkql.session import Session
from support.programs import need

ITEMS = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE orders (id bigint NOT NULL, customer bigint, placed_at timestamp)
  FROM FILES (PATH = 'orders') FORMAT JSON;
CREATE MATERIALIZED VIEW daily AS
SELECT customer, date_trunc('day', placed_at) AS day, count(*) AS orders
FROM orders
GROUP BY customer, date_trunc('day', placed_at);
CREATE SINK daily_sink FROM daily
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'daily')
  KEY (customer, day)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');
"""


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a catalog of the items, for copying."""
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "orders").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with Session() as session:
            session.execute(ITEMS)
    return folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def session(folder: Path, prepared: Path) -> Iterator[Session]:
    """Open a copy of the catalog with the items."""
    shutil.copytree(prepared, folder, dirs_exist_ok=True)
    with Session() as session:
        yield session


@pytest.fixture
def terminal(folder: Path) -> Iterator[Terminal]:
    need("tmux")
    terminal = Terminal(folder)
    yield terminal
    terminal.close()


@pytest.fixture
def shell(session: Session, terminal: Terminal) -> Terminal:
    """Return a terminal in which the shell waits for input."""
    need("less")
    terminal.start("shell", environment={"PAGER": "less -S", "EDITOR": "sed -i s/one/two/"})
    terminal.wait_for("^sinkql=>")
    return terminal
