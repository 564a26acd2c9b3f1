"""State of sinks on a cluster lies in the bucket and in folders of executors: what comes out is what comes out here."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.fs
import pytest

from support.command import run
from support.readers import duckdb_rest
from support.seaweed import SECRET, Seaweed
from support.spark_cluster import SparkCluster

pytestmark = pytest.mark.soak

_TURNS, _ROWS, _KEYS, _PARTS = 3, 12_000, 9_000, 97
"""A batch has more rows than the driver does by itself."""
_PIPELINE = """
CREATE SECRET key AS '{secret}';
CREATE CONNECTION aws TO AWS (ACCESS KEY ID = 'admin', SECRET ACCESS KEY = SECRET key, ENDPOINT = '{s3}',
  REGION = 'us-east-1');
CREATE CLUSTER big (MASTER = '{master}', EXECUTORS = 2, CORES = 1, MEMORY = '1g', STATE = 's3://data/state',
  AWS CONNECTION = aws);
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'rest', URL = '{rest}', WAREHOUSE = 'lake',
  CREDENTIAL = 'admin:' || SECRET key);
SET cluster = big;
CREATE SOURCE changes (id bigint NOT NULL, part bigint NOT NULL, x bigint)
  FROM FILES CONNECTION aws (PATH = 's3://data/changes', GLOB = '*.json') FORMAT JSON;
CREATE VIEW latest AS SELECT DISTINCT ON (id) id, part, x FROM changes ORDER BY id, x DESC;
CREATE VIEW sums AS SELECT part, count(*) AS n, sum(x)::bigint AS x FROM latest GROUP BY part;
CREATE MATERIALIZED VIEW a AS SELECT * FROM latest;
CREATE MATERIALIZED VIEW b AS SELECT * FROM sums;
CREATE MATERIALIZED VIEW c AS SELECT l.id, l.x, s.n FROM latest AS l JOIN sums AS s ON s.part = l.part WHERE id % 3 = 0;
CREATE SINK latest_sink FROM a INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'state', TABLE = 'latest')
  USING AWS CONNECTION aws KEY (id) MODE UPSERT WITH (COMMIT INTERVAL = '1s');
CREATE SINK sums_sink FROM b INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'state', TABLE = 'sums')
  USING AWS CONNECTION aws KEY (part) MODE UPSERT WITH (COMMIT INTERVAL = '1s');
CREATE SINK joined_sink FROM c INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'state', TABLE = 'joined')
  USING AWS CONNECTION aws KEY (id) MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""


def _changes(turn: int) -> Iterator[dict[str, int]]:
    for each in range(_ROWS):
        id_ = (each * 7919 + turn * 1000) % _KEYS
        yield {"id": id_, "part": id_ % _PARTS, "x": turn * _ROWS + each}


def test_what_upserts_aggregates_and_joins_keep_is_found_from_batch_to_batch(
    server: Seaweed, cluster: SparkCluster, tmp_path: Path
) -> None:
    storage = pyarrow.fs.S3FileSystem(
        access_key="admin", secret_key=SECRET, endpoint_override=f"127.0.0.1:{server.s3}", scheme="http",
        region="us-east-1",
    )  # fmt: skip
    script = _PIPELINE.format(
        secret=SECRET, s3=server.storage["s3.endpoint"], rest=f"http://127.0.0.1:{server.rest}", master=cluster.url
    )
    (tmp_path / "pipeline.sql").write_text(script)

    def rows(table: str, columns: str) -> list[tuple[Any, ...]]:
        found = duckdb_rest(f"state.{table}", rest_port=server.rest, s3_port=server.s3, secret=SECRET, columns=columns)
        return sorted(found)

    latest: dict[int, int] = {}
    for turn in range(_TURNS):
        changes = list(_changes(turn))
        with storage.open_output_stream(f"data/changes/{turn}.json") as file:
            file.write("\n".join(map(json.dumps, changes)).encode())
        latest |= {each["id"]: each["x"] for each in changes}
        done = run("--output", "json", "exec", "--once", "pipeline.sql", folder=tmp_path)
        assert done.returncode == 0, done.stderr + done.stdout
        count, total = Counter[int](), Counter[int]()
        for id_, x in latest.items():
            count[id_ % _PARTS] += 1
            total[id_ % _PARTS] += x
        assert sorted((id_, id_ % _PARTS, x) for id_, x in latest.items()) == rows("latest", "id, part, x")
        assert sorted((part, n, total[part]) for part, n in count.items()) == rows("sums", "part, n, x")
        joined = ((id_, x, count[id_ % _PARTS]) for id_, x in latest.items() if id_ % 3 == 0)
        assert sorted(joined) == rows("joined", "id, x, n")
