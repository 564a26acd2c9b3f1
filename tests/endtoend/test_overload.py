"""A run on a heavily overloaded machine takes longer, but gives up nothing and commits everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command import start
from support.leftover import left, marked
from support.overload import overloaded
from support.readers import duckdb_folder

pytestmark = [pytest.mark.slow, pytest.mark.soak]

_PIPELINE = """
CREATE CLUSTER c (SIZE = 'local[1]', EXECUTION = SPARK);
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s (n bigint NOT NULL) FROM FILES (PATH = 'in', GLOB = '*.csv') FORMAT CSV WITH HEADER;
CREATE MATERIALIZED VIEW odd AS SELECT n FROM s WHERE n % 2 = 1;
CREATE SINK odd_sink IN CLUSTER c FROM odd
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'odd') ENVELOPE NONE
  WITH (COMMIT INTERVAL = '1s');
"""


@pytest.mark.parametrize("times", [4, 8])
def test_a_sink_under_so_many_times_the_load_commits_everything(tmp_path: Path, times: int) -> None:
    (tmp_path / "pipeline.sql").write_text(_PIPELINE)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("n\n" + "".join(f"{n}\n" for n in range(1000)))
    mark = marked()
    running = start("exec", "--once", "pipeline.sql", folder=tmp_path, environment=mark)
    try:
        # The overload begins after Spark's start. The next wait, for Spark's Python processes, has a limit.
        running.wait_for(lambda event: event.get("event") == "spark started")
        with overloaded(mark, times=times):
            ended = running.wait_for_end()
            assert ended.get("why") == "caught up", ended
            assert running.end() == 0
    finally:
        running.kill()
    assert duckdb_folder(tmp_path / "lake" / "n" / "odd") == [(n,) for n in range(1, 1000, 2)]
    assert left(mark) == []
