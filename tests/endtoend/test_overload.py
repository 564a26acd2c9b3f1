"""A machine under eight times its load: a run takes its time, and commits everything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command import run
from support.leftover import left, marked
from support.overload import overloaded
from support.readers import duckdb_folder

pytestmark = pytest.mark.slow

_PIPELINE = """
CREATE CLUSTER c (SIZE = 'local[1]');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s (n bigint NOT NULL) FROM FILES (PATH = 'in', GLOB = '*.csv') FORMAT CSV WITH HEADER;
CREATE SINK raw IN CLUSTER c FROM s
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'raw') ENVELOPE NONE
  WITH (COMMIT INTERVAL = '1s');
CREATE MATERIALIZED VIEW odd AS SELECT n FROM s WHERE n % 2 = 1;
CREATE SINK odd_sink IN CLUSTER c FROM odd
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'odd') ENVELOPE NONE
  WITH (COMMIT INTERVAL = '1s');
"""


def test_a_run_under_eight_times_the_load_commits_everything(tmp_path: Path) -> None:
    (tmp_path / "pipeline.sql").write_text(_PIPELINE)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("n\n" + "".join(f"{n}\n" for n in range(1000)))
    mark = marked()
    with overloaded(mark, times=8):
        ended = run("--output", "json", "exec", "--once", "pipeline.sql", folder=tmp_path, environment=mark)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [event["why"] for event in events if event.get("event") == "stopped"] == ["caught up", "caught up"]
    assert duckdb_folder(tmp_path / "lake" / "n" / "raw") == [(n,) for n in range(1000)]
    assert duckdb_folder(tmp_path / "lake" / "n" / "odd") == [(n,) for n in range(1, 1000, 2)]
    assert left(mark) == []
