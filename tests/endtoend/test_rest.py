"""A whole pipeline into a real REST catalog and S3 store: OAuth2, static keys, secrets that are referred to."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import pytest

from sinkql.session import Session
from support.command import run, start
from support.readers import duckdb_rest
from support.seaweed import SECRET, seaweed

pytestmark = pytest.mark.slow

_PIPELINE = """
CREATE SECRET catalog_secret AS env_var('CATALOG_SECRET');
CREATE SECRET storage_key AS file('storage.key');
CREATE CONNECTION aws TO AWS (
  ACCESS KEY ID = 'admin', SECRET ACCESS KEY = SECRET storage_key,
  ENDPOINT = 'http://127.0.0.1:{s3}', REGION = 'us-east-1'
);
CREATE CONNECTION lake TO ICEBERG CATALOG (
  CATALOG TYPE = 'REST', URL = 'http://127.0.0.1:{rest}',
  CREDENTIAL = 'admin:' || SECRET catalog_secret, WAREHOUSE = 'lake'
);
CREATE SOURCE events (id bigint, kind text, amount numeric(12, 2)) FROM FILES (PATH = 'in') FORMAT JSON;
CREATE MATERIALIZED VIEW totals AS
SELECT kind, count(*) AS events, sum(amount) AS amount FROM events GROUP BY kind;
CREATE SINK raw FROM events
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE 'shop', TABLE 'events')
  USING AWS CONNECTION aws ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');
CREATE SINK totals_sink FROM totals
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE 'shop', TABLE 'totals')
  USING AWS CONNECTION aws KEY (kind) ENFORCED ENVELOPE UPSERT WITH (COMMIT INTERVAL = '1s');
"""


def test_a_pipeline_into_a_rest_catalog_goes_on_where_it_stopped(tmp_path: Path) -> None:
    with seaweed(tmp_path / "server") as server:
        (tmp_path / "in").mkdir()
        (tmp_path / "storage.key").write_text(SECRET)
        (tmp_path / "pipeline.sql").write_text(_PIPELINE.format(s3=server.s3, rest=server.rest))
        expected: dict[str, tuple[int, int]] = {}
        for part in range(2):
            rows = [{"id": i, "kind": f"k{i % 3}", "amount": i / 4} for i in range(part * 50, part * 50 + 50)]
            (tmp_path / "in" / f"{part}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
            done = run(
                "exec", "--once", "pipeline.sql", folder=tmp_path, environment=os.environ | {"CATALOG_SECRET": SECRET}
            )
            assert done.returncode == 0, done.stderr + done.stdout
            assert SECRET not in done.stdout + done.stderr
            for i in range(part * 50, part * 50 + 50):
                count, quarters = expected.get(f"k{i % 3}", (0, 0))
                expected[f"k{i % 3}"] = (count + 1, quarters + i)
            read = partial(duckdb_rest, rest_port=server.rest, s3_port=server.s3, secret=SECRET)
            ids = read("shop.events", columns="id")
            assert ids == [(i,) for i in range(part * 50 + 50)]
            totals = read("shop.totals", columns="kind, events, (amount * 4)::bigint")
            assert totals == sorted((kind, count, quarters) for kind, (count, quarters) in expected.items())


_ROTATED = """
CREATE SECRET token AS '{secret}';
CREATE SECRET storage_key AS '{secret}';
CREATE CONNECTION aws TO AWS (
  ACCESS KEY ID = 'admin', SECRET ACCESS KEY = SECRET storage_key,
  ENDPOINT = 'http://127.0.0.1:{s3}', REGION = 'us-east-1'
);
CREATE CONNECTION lake TO ICEBERG CATALOG (
  CATALOG TYPE = 'REST', URL = 'http://127.0.0.1:{rest}', CREDENTIAL = 'admin:' || SECRET token, WAREHOUSE = 'lake'
);
CREATE SOURCE n FROM LOAD GENERATOR COUNTER (ROWS PER SECOND 100);
CREATE SINK k FROM n INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE 'shop', TABLE 'numbers')
  USING AWS CONNECTION aws ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');
"""


def test_a_running_sink_takes_the_new_value_of_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with seaweed(tmp_path / "server") as server:
        session = Session()
        session.execute(_ROTATED.format(s3=server.s3, rest=server.rest, secret=SECRET))
        up = start("up", folder=tmp_path)
        try:
            up.wait_for_commit("materialize.public.k", 1)
            for secret in ("token", "storage_key"):
                # The server refuses this value, so that it shows who has it; and who has the right one again.
                session.execute(f"ALTER SECRET {secret} AS 'none of the server''s';")
                refused = up.wait_for(lambda event: event["event"] in ("stopped", "stalled"))
                assert refused["error"]["code"] == {"token": "SQ4202", "storage_key": "SQ4302"}[secret]
                session.execute(f"ALTER SECRET {secret} AS '{SECRET}';")
                up.wait_for(lambda event: event["event"] == "committed" and event["rows"] > 0)
            assert up.interrupt() == 0
        finally:
            up.kill()
        numbers = duckdb_rest(
            "shop.numbers", rest_port=server.rest, s3_port=server.s3, secret=SECRET, columns="counter"
        )
        assert numbers == [(number,) for number in range(1, len(numbers) + 1)]
        assert SECRET not in "".join(up.errors)
