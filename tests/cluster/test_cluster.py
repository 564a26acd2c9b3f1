"""Sinks on a Spark cluster whose machines share nothing but the network and S3."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.fs
import pytest

from support.command import run
from support.readers import duckdb_rest
from support.seaweed import SECRET, Seaweed
from support.spark_cluster import SparkCluster

pytestmark = pytest.mark.slow

_FILES, _ROWS = 8, 20_000
_PIPELINE = """
CREATE SECRET key AS '{secret}';
CREATE CONNECTION aws TO AWS (ACCESS KEY ID = 'admin', SECRET ACCESS KEY = SECRET key, ENDPOINT = '{s3}',
  REGION = 'us-east-1');
CREATE CLUSTER big (MASTER = '{master}', EXECUTORS = 2, CORES = 1, MEMORY = '1g', STATE = 's3://data/state',
  AWS CONNECTION = aws);
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'rest', URL = '{rest}', WAREHOUSE = 'lake',
  CREDENTIAL = 'admin:' || SECRET key);
CREATE SOURCE events (id bigint NOT NULL, name text)
  FROM FILES CONNECTION aws (PATH = 's3://data/in', GLOB = '*.json') FORMAT JSON;
CREATE SINK s IN CLUSTER big FROM events INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  USING AWS CONNECTION aws MODE APPEND WITH (COMMIT INTERVAL = '1s');
"""


def test_files_in_s3_become_a_table_in_s3(server: Seaweed, cluster: SparkCluster, tmp_path: Path) -> None:
    storage = pyarrow.fs.S3FileSystem(
        access_key="admin",
        secret_key=SECRET,
        endpoint_override=f"127.0.0.1:{server.s3}",
        scheme="http",
        region="us-east-1",
    )
    for number in range(_FILES):
        rows = ({"id": number * _ROWS + each, "name": f"name {each}"} for each in range(_ROWS))
        with storage.open_output_stream(f"data/in/{number}.json") as file:
            file.write("\n".join(map(json.dumps, rows)).encode())
    script = _PIPELINE.format(
        secret=SECRET, s3=server.storage["s3.endpoint"], rest=f"http://127.0.0.1:{server.rest}", master=cluster.url
    )
    (tmp_path / "pipeline.sql").write_text(script)
    done = run("--output", "json", "exec", "--once", "pipeline.sql", folder=tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    expected = [(each, f"name {each % _ROWS}") for each in range(_FILES * _ROWS)]
    found = duckdb_rest("n.t", rest_port=server.rest, s3_port=server.s3, secret=SECRET, columns="id, name")
    assert expected == found
    written = storage.get_file_info(pyarrow.fs.FileSelector("lake/n/t/data", recursive=True))
    assert [each for each in written if "-t" not in each.path] == []  # by tasks, not by the driver
