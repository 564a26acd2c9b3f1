"""A place for a catalog, in a file and in Postgres, also through a pooler: what holds for one holds for the others."""

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
"""How many connections a pooler has for all, by what a client has one for."""


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
