"""`sinkql exec` runs two sinks: one of them fails, is repaired, and starts again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command import Running, run, start
from support.readers import duckdb_folder

pytestmark = pytest.mark.slow

_SCRIPT = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE n FROM LOAD GENERATOR COUNTER (ROWS PER SECOND 10);
CREATE SOURCE f (id bigint) FROM FILES (PATH = 'in') FORMAT JSON;
CREATE SINK numbers FROM n INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'numbers')
  ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');
CREATE SINK files FROM f INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'files')
  ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');
"""
_FILES = "materialize.public.files"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": "one"}\n')
    (tmp_path / "script.sql").write_text(_SCRIPT)
    found = start("exec", "script.sql", folder=tmp_path)
    try:
        yield found
    finally:
        found.kill()


def test_a_sink_that_failed_runs_again_once_it_is_started(running: Running, tmp_path: Path) -> None:
    failed = running.wait_for(lambda event: event["event"] == "stopped")
    assert (failed["sink"], failed["why"]) == (_FILES, "failed")
    (tmp_path / "in" / "a.json").unlink()
    (tmp_path / "in" / "b.json").write_text('{"id": 1}\n')
    assert run("start", "files", folder=tmp_path).returncode == 0
    running.wait_for_commit(_FILES, 1)
    assert running.interrupt() == 0
    assert duckdb_folder(tmp_path / "lake" / "n" / "files") == [(1,)]
