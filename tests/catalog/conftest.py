"""The address of a catalog, in a file, in Postgres, and through a connection pooler. The same holds for all of them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkql.catalog.address import Address
from sinkql.catalog.secret.cipher import KEY_VARIABLE
from support.catalog import server_address
from support.pgbouncer import pgbouncer

_POOLED = {"session": 40, "transaction": 2}
"""The number of server connections of a pooler, by its pool mode."""


@pytest.fixture(
    params=[
        "file",
        pytest.param("server", marks=pytest.mark.server),
        *(pytest.param(mode, marks=[pytest.mark.server, pytest.mark.soak]) for mode in _POOLED),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Address]:
    if request.param == "file":
        yield tmp_path / ".sinkql" / "catalog.db"
        return
    monkeypatch.setenv(KEY_VARIABLE, b64encode(bytes(32)).decode())
    server = request.getfixturevalue("postgres")
    if request.param == "server":
        yield server_address(server, tmp_path / ".sinkql")
        return
    with pgbouncer(server, request.param, size=_POOLED[request.param]) as port:
        yield server_address(server, tmp_path / ".sinkql", port=port)
