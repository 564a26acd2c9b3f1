"""How a run ends: by a signal, from another process, and although a part of it no longer answers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command import Running, run, start
from support.readers import duckdb_folder

pytestmark = pytest.mark.slow

_PIPELINE = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s FROM LOAD GENERATOR COUNTER (ROWS PER SECOND 1000);
CREATE SINK k FROM s INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');
"""
_SINK = "materialize.public.k"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "pipeline.sql").write_text(_PIPELINE)
    found = start("exec", "pipeline.sql", folder=tmp_path)
    yield found
    found.kill()


def test_a_stuck_source_process_does_not_keep_a_run_from_stopping(running: Running, tmp_path: Path) -> None:
    running.wait_for_commit(_SINK, 1)
    (ready,) = tmp_path.rglob("queries/*/ready")
    os.kill(int(ready.read_text()), signal.SIGSTOP)
    assert running.interrupt(signal.SIGTERM) == 0


def test_another_process_is_refused_and_can_stop_a_sink(running: Running, tmp_path: Path) -> None:
    running.wait_for_commit(_SINK, 2)
    refused = run("exec", "pipeline.sql", folder=tmp_path)
    assert refused.returncode == 5
    assert "error[SQ5201]" in refused.stderr + refused.stdout
    assert run("stop", "k", folder=tmp_path).returncode == 0
    assert running.end() == 0
    numbers = duckdb_folder(tmp_path / "lake" / "n" / "t")
    assert numbers == [(number,) for number in range(1, len(numbers) + 1)]
