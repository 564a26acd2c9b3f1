"""Servers with certificates of a private authority: each hint names the variables that make them trusted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkql.errors import SinkqlError
from sinkql.session import Session
from support.authority import authority
from support.patience import PATIENCE_S
from support.proxy import proxy
from support.readers import duckdb_rest
from support.running import drain, loop_of
from support.seaweed import SECRET, Seaweed

pytestmark = pytest.mark.server

_SECRET = f"CREATE SECRET s AS '{SECRET}';"
_AWS = (
    "CREATE CONNECTION aws TO AWS (ACCESS KEY ID = 'admin', SECRET ACCESS KEY = SECRET s, REGION = 'us-east-1', "
    "ENDPOINT = 'https://127.0.0.1:{}');"
)
_LAKE = (
    "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'rest', URL = 'https://127.0.0.1:{}', "
    "CREDENTIAL = 'admin:' || SECRET s, WAREHOUSE = 'lake');"
)
_PROGRAM = """
import sys
from iceberg.test_private_authority import commit
from sinkql.session import Session

with Session(sys.argv[1]) as session:
    commit(session)
"""
_VARIABLES = ("REQUESTS_CA_BUNDLE", "AWS_CA_BUNDLE", "SSL_CERT_FILE")


@pytest.fixture
def ports(server: Seaweed, tmp_path: Path) -> Iterator[tuple[Path, int, int]]:
    trusted, identity = authority(tmp_path)
    with proxy(server.rest, identity=identity) as (rest, _), proxy(server.s3, identity=identity) as (s3, _):
        yield trusted, rest, s3


def test_what_the_hints_name_makes_servers_trusted(
    server: Seaweed, ports: tuple[Path, int, int], tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in _VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    trusted, rest, s3 = ports
    with Session(tmp_path / "catalog.db") as session:
        session.execute(_SECRET + _AWS.format(s3))
        for statement, code in (("VALIDATE CONNECTION aws;", "SQ4227"), (_LAKE.format(rest), "SQ4209")):
            _set(monkeypatch, _refused(session, statement, code), trusted)
            session.execute(statement)
        monkeypatch.delenv("SSL_CERT_FILE")  # as if the connection had not been validated
        session.execute(
            "CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO = 3, ROWS PER SECOND = 1000);"
            f"CREATE SINK k FROM n INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = '{name}') "
            "USING AWS CONNECTION aws ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');"
        )
        with pytest.raises(SinkqlError) as caught:
            commit(session)
        assert caught.value.code == "SQ4227"
        _set(monkeypatch, caught.value, trusted)
    # A process reads SSL_CERT_FILE when it opens its first bucket.
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, tmp_path / "catalog.db"],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = duckdb_rest(f"shop.{name}", rest_port=server.rest, s3_port=server.s3, secret=SECRET)
    assert found == [(1,), (2,), (3,)]


def _refused(session: Session, statement: str, code: str) -> SinkqlError:
    with pytest.raises(SinkqlError) as caught:
        session.execute(statement)
    assert caught.value.code == code
    assert caught.value.retryable
    return caught.value


def _set(monkeypatch: pytest.MonkeyPatch, error: SinkqlError, trusted: Path) -> None:
    """Follow the error's hint."""
    named = re.findall(r"\b[A-Z_]+_(?:BUNDLE|FILE)\b", error.hint or "")
    assert named
    for variable in named:
        monkeypatch.setenv(variable, str(trusted))


def commit(session: Session) -> None:
    """Commit the rows of the only sink without Spark."""
    (job,) = session.jobs()
    loop = loop_of(job, session.context(job), session.catalog.registry)
    loop.start(epoch=1, once=True)
    drain(loop)
