"""A place for a catalog, once in a file and once in Postgres: what holds for one holds for the other."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

from sinkql.catalog.address import Address
from sinkql.catalog.secret.cipher import KEY_VARIABLE
from support.catalog import server_address


@pytest.fixture(params=["file", pytest.param("server", marks=pytest.mark.server)])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Address:
    if request.param == "file":
        return tmp_path / ".sinkql" / "catalog.db"
    monkeypatch.setenv(KEY_VARIABLE, b64encode(bytes(32)).decode())
    return server_address(request.getfixturevalue("postgres"), tmp_path / ".sinkql")
