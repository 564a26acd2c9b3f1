"""The quickstart example as a newcomer runs it: the rows, the printed lines that read them, and a second run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.command import run
from support.readers import connect, duckdb_folder

pytestmark = pytest.mark.slow

_SUMMARY = """
SELECT user_id, date_trunc('hour', event_timestamp) AS hour, count(*), count(DISTINCT session_id), max(event_timestamp)
FROM read_json('{}/events/*.json', columns = {{user_id: 'BIGINT', session_id: 'VARCHAR', event_timestamp: 'TIMESTAMP'}})
GROUP BY ALL ORDER BY ALL
"""


def test_the_demo_and_a_second_run_give_right_tables_and_lines_that_read_them(tmp_path: Path) -> None:
    demo = run("demo", "--folder", ".", folder=tmp_path)
    assert demo.returncode == 0, demo.stderr
    expected = connect().execute(_SUMMARY.format(tmp_path)).fetchall()
    tables = tmp_path / "lake" / "analytics"
    assert expected == duckdb_folder(tables / "user_activity")
    assert len(duckdb_folder(tables / "events")) == 120
    assert all(str(value) in demo.stdout for value in expected[0])

    lines = [line.partition(": ") for line in demo.stdout.splitlines() if line.startswith(("DuckDB:", "PyIceberg:"))]
    assert sorted(reader for reader, _, _ in lines) == ["DuckDB", "DuckDB", "PyIceberg", "PyIceberg"]
    for reader, _, line in lines:
        if reader == "DuckDB":
            assert len(connect().execute(line).fetchall()) == 10
        else:
            done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, cwd="/", check=True)
            assert done.stdout.count("user_id") == 10

    again = run("exec", "--once", "pipeline.sql", folder=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "already exists" in again.stderr
    assert expected == duckdb_folder(tables / "user_activity")
    assert len(duckdb_folder(tables / "events")) == 120

    status = run("--output", "json", "status", folder=tmp_path)
    assert '"status": "stopped"' in status.stdout
