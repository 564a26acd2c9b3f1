"""`sinkql up`: sinks of a catalog that others create, change, stop and drop while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkql.session import Session
from support.command import Running, run, start
from support.readers import duckdb_folder

pytestmark = pytest.mark.slow

_ITEMS = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE CLUSTER one (SIZE = 'local[1]');
CREATE CLUSTER two (SIZE = 'local[1]');
CREATE SOURCE n FROM LOAD GENERATOR COUNTER (ROWS PER SECOND 1000);
"""
_SINK = """
CREATE SINK {name} IN CLUSTER one FROM n INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = '{name}')
  ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');
"""


def _full(name: str) -> str:
    return f"materialize.public.{name}"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.chdir(tmp_path)
    session = Session()
    session.execute(_ITEMS + _SINK.format(name="a"))
    return session


@pytest.fixture
def up(session: Session, tmp_path: Path) -> Iterator[Running]:
    found = start("up", folder=tmp_path)
    yield found
    found.kill()


def _whole(folder: Path, name: str) -> int:
    """Return how many rows a table has, having asserted that they are all numbers from 1 on, each once."""
    numbers = duckdb_folder(folder / "lake" / "n" / name)
    assert numbers == [(number,) for number in range(1, len(numbers) + 1)]
    return len(numbers)


def test_sinks_join_stop_start_and_leave_while_others_run(up: Running, session: Session, tmp_path: Path) -> None:
    up.wait_for_commit(_full("a"), 1)
    refused = run("up", "a", "--once", folder=tmp_path)
    assert refused.returncode == 5
    assert "error[SQ5201]" in refused.stderr + refused.stdout
    assert "Spark" not in refused.stdout

    session.execute(_SINK.format(name="b"))
    up.wait_for_commit(_full("b"), 1)
    session.stop("a")
    up.wait_for(lambda event: event == {"event": "stopped", "sink": _full("a"), "why": "stopped"})
    assert run("start", "a", folder=tmp_path).returncode == 0
    up.wait_for(lambda event: event["event"] == "started" and event["sink"] == _full("a"))
    session.execute("DROP SINK b;")
    up.wait_for(lambda event: event == {"event": "stopped", "sink": _full("b"), "why": "dropped"})
    up.wait_for_commit(_full("a"), 2)
    assert up.interrupt() == 0
    assert sum(event["event"] == "spark starting" for event in up.events) == 1
    assert _whole(tmp_path, "a") == up.rows[_full("a")]
    _whole(tmp_path, "b")
