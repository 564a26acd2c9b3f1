"""A catalog file as the first version wrote it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest


@pytest.fixture
def v1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file of version 1 with items of every kind that it knew; the key of its secrets is set."""
    monkeypatch.setenv("SINKQL_CATALOG_KEY", "00" * 32)
    path = tmp_path / "v1" / "catalog.db"
    path.parent.mkdir()
    path.touch(mode=0o600)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(Path(__file__).with_name("v1.sql").read_text())
    return path
