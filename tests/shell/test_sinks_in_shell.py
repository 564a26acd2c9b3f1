"""The life of a sink in the shell: it is created, reported, listed, stopped and started."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shell.tmux import Terminal
from support.readers import duckdb_folder

pytestmark = pytest.mark.slow


def test_a_sink_runs_in_the_background_until_the_shell_is_left(folder: Path, terminal: Terminal) -> None:
    terminal.start("shell")
    terminal.wait_for("^sinkql=>")
    terminal.enter("CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');")
    terminal.wait_for("^CREATE CONNECTION$")
    terminal.enter("CREATE SOURCE counter FROM LOAD GENERATOR COUNTER (TICK INTERVAL = '50ms');")
    terminal.wait_for("^CREATE SOURCE$")
    terminal.enter("CREATE SINK counted FROM counter")
    terminal.enter("INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'demo', TABLE = 'counter')")
    terminal.enter("ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');")
    terminal.wait_for("^CREATE SINK$")
    terminal.wait_for("^sink counted committed its first [0-9,]+ rows?")
    terminal.enter("\\jobs")
    terminal.wait_for(r"^counted +running +\d+")
    terminal.wait_for("1 sink running; [0-9,]+ rows committed")
    terminal.enter("\\stop counted")
    terminal.wait_for("^sink counted ended: stopped")
    terminal.enter("\\start counted")
    terminal.wait_for("1 sink running")
    terminal.keys("C-d")
    screen = terminal.wait_for("^exit=0")
    assert re.search("^Finishing the running batches", screen, re.MULTILINE)
    rows = sorted(row[0] for row in duckdb_folder(folder / "lake" / "demo" / "counter"))
    assert rows == list(range(rows[0], rows[0] + len(rows)))
    assert len(rows) > 1
