"""Two hosts share a catalog in Postgres: the second one takes over the pipeline of the first and drops it."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sinkql.catalog.address import VARIABLE
from sinkql.catalog.secret.cipher import KEY_VARIABLE
from support.catalog import server_url
from support.command import Running, run, start
from support.postgres import Postgres
from support.postgres import postgres as new_server
from support.readers import duckdb_folder

pytestmark = [pytest.mark.slow, pytest.mark.server]

_NAME = "materialize.public.s"
_SCRIPT = """
CREATE SECRET IF NOT EXISTS unused AS 'canary-9';
CREATE CONNECTION IF NOT EXISTS lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = '{lake}');
CREATE CLUSTER IF NOT EXISTS one (SIZE = 'local[1]');
CREATE SOURCE IF NOT EXISTS n FROM LOAD GENERATOR COUNTER (ROWS PER SECOND 200);
CREATE SINK IF NOT EXISTS s IN CLUSTER one FROM n INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'a', TABLE = 's')
  ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');
"""


class Host:
    """A host with a home and a working folder, in which its commands run."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder / "work"
        self.folder.mkdir(parents=True)
        self.environment = {VARIABLE: url, "HOME": str(folder), KEY_VARIABLE: "A" * 43 + "="}

    def up(self, *arguments: str) -> Running:
        return start("up", *arguments, folder=self.folder, environment=self.environment)

    def run(self, *arguments: str) -> Sequence[dict[str, Any]]:
        done = run("--output", "json", *arguments, folder=self.folder, environment=self.environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def status(self) -> str:
        (row,) = self.run("status")
        return str(row["status"])


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with new_server() as found:
        yield found


@pytest.mark.soak
def test_a_pipeline_moves_from_one_host_to_the_other(server: Postgres, tmp_path: Path) -> None:
    url = server_url(server, Path(".sinkql"))
    one, other = Host(tmp_path / "one", url), Host(tmp_path / "other", url)
    lake = tmp_path / "lake"
    (one.folder / "pipeline.sql").write_text(_SCRIPT.format(lake=lake))
    first = start("exec", "pipeline.sql", folder=one.folder, environment=one.environment)
    try:
        first.wait_for_commit(_NAME, 1)
        assert other.status() == "running"
        server.restart(signal.SIGQUIT)  # processes reconnect to the restarted server
        first.wait_for_commit(_NAME, first.commits[_NAME] + 2)
        second = other.up("--takeover")
        try:
            second.wait_for_commit(_NAME, 1)
            assert first.end() == 5
            assert one.status() == "running"
            one.run("stop", "s")
            second.wait_for(lambda event: event.get("event") == "stopped" and event.get("why") == "stopped")
            assert (one.status(), second.interrupt()) == ("stopped", 0)
        finally:
            second.kill()
    finally:
        first.kill()
    rows = [counter for (counter,) in duckdb_folder(lake / "a" / "s")]
    assert len(rows) > 200
    assert rows == list(range(1, len(rows) + 1))
    assert [(each / ".sinkql" / "catalog.db").exists() for each in (one.folder, other.folder)] == [False, False]
    (other.folder / "drop.sql").write_text("DROP SINK s;")
    other.run("exec", "drop.sql")
    assert one.run("status") == []
