"""A session on a new catalog, in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkql.session import Session


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.chdir(tmp_path)
    return Session()
