"""Processes with Spark on two hosts in turn: with the catalog, the second one has the state in S3."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sinkql.session import Session
from support.command import run
from support.readers import duckdb_folder
from support.seaweed import SECRET, Seaweed

pytestmark = pytest.mark.slow

_PIPELINE = """
CREATE SECRET key AS '{secret}';
CREATE CONNECTION aws TO AWS (ACCESS KEY ID = 'admin', SECRET ACCESS KEY = SECRET key, ENDPOINT = '{endpoint}',
  REGION = 'us-east-1');
CREATE CLUSTER main (SIZE = 'local[2]', STATE = 's3://data/exec', AWS CONNECTION = aws);
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///{folder}/lake.db',
  WAREHOUSE = '{folder}/lake');
CREATE SOURCE events (id bigint NOT NULL, k bigint) FROM FILES (PATH = '{folder}/in') FORMAT JSON;
CREATE MATERIALIZED VIEW counts IN CLUSTER main AS SELECT k, count(DISTINCT id) AS n FROM events GROUP BY k;
CREATE SINK s IN CLUSTER main FROM counts INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  KEY (k) NOT ENFORCED MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""


@pytest.mark.soak
def test_a_sink_in_spark_continues_on_another_host(server: Seaweed, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    script = _PIPELINE.format(secret=SECRET, endpoint=server.storage["s3.endpoint"], folder=tmp_path)
    (tmp_path / "pipeline.sql").write_text(script)
    for number in range(2):
        rows = ({"id": each % 30_000, "k": each % 7} for each in range(number * 20_000, number * 20_000 + 40_000))
        (tmp_path / "in" / f"{number}.json").write_text("\n".join(map(json.dumps, rows)))
        done = run("--output", "json", "exec", "--once", "pipeline.sql", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        events = [json.loads(line) for line in done.stdout.splitlines()]
        assert not any(each.get("event") == "rebuilding" for each in events)
        assert SECRET not in done.stdout + done.stderr
        if number == 0:
            shutil.rmtree(tmp_path / ".sinkql" / "sinks")
    expected = [(k, len({each % 30_000 for each in range(60_000) if each % 7 == k})) for k in range(7)]
    assert expected == duckdb_folder(tmp_path / "lake" / "n" / "t", "k, n")
    with Session(tmp_path) as session:
        (found,) = session.execute("SELECT sum(fetched_bytes), sum(bytes) FROM mz_internal.mz_state")
        ((fetched, held),) = found.rows
    assert 0 < fetched < held
