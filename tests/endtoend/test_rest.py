"""A pipeline from a real S3 into a real REST catalog: OAuth2, static keys, secret references, changed secrets."""

from __future__ import annotations

import json
from pathlib import Path

import boto3
import pytest

from sinkql.session import Session
from support.command import start
from support.readers import Rows, duckdb_rest
from support.seaweed import SECRET, Seaweed, seaweed

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
CREATE SOURCE events (id bigint, kind text, amount numeric(12, 2))
  FROM FILES CONNECTION aws (PATH = 's3://data/in') FORMAT JSON;
CREATE MATERIALIZED VIEW totals AS
SELECT kind, count(*) AS events, sum(amount) AS amount FROM events GROUP BY kind;
CREATE SINK raw FROM events
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE 'shop', TABLE 'events')
  USING AWS CONNECTION aws ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');
CREATE SINK totals_sink FROM totals
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE 'shop', TABLE 'totals')
  USING AWS CONNECTION aws KEY (kind) ENFORCED ENVELOPE UPSERT WITH (COMMIT INTERVAL = '1s');

CREATE SECRET token AS '{secret}';
CREATE SECRET key AS '{secret}';
CREATE CONNECTION aws_2 TO AWS (
  ACCESS KEY ID = 'admin', SECRET ACCESS KEY = SECRET key,
  ENDPOINT = 'http://127.0.0.1:{s3}', REGION = 'us-east-1'
);
CREATE CONNECTION lake_2 TO ICEBERG CATALOG (
  CATALOG TYPE = 'REST', URL = 'http://127.0.0.1:{rest}', CREDENTIAL = 'admin:' || SECRET token, WAREHOUSE = 'lake'
);
CREATE SOURCE n FROM LOAD GENERATOR COUNTER (ROWS PER SECOND 100);
CREATE SINK k FROM n INTO ICEBERG CATALOG CONNECTION lake_2 (NAMESPACE 'shop', TABLE 'numbers')
  USING AWS CONNECTION aws_2 ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');
"""
_RAW, _TOTALS, _NUMBERS = (f"materialize.public.{name}" for name in ("raw", "totals_sink", "k"))


@pytest.mark.soak
def test_a_pipeline_into_a_rest_catalog_continues_where_it_stopped_and_takes_the_new_value_of_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CATALOG_SECRET", SECRET)
    (tmp_path / "storage.key").write_text(SECRET)
    with seaweed(tmp_path / "server") as server, Session() as session:
        session.execute(_PIPELINE.format(s3=server.s3, rest=server.rest, secret=SECRET))
        up = start("up", folder=tmp_path)
        try:
            _write(server, 0)
            up.wait_for_rows({_RAW: 50, _TOTALS: 3, _NUMBERS: 1})
            for secret in ("token", "key"):
                # The server refuses the wrong value, which shows that the sink uses the secret.
                session.execute(f"ALTER SECRET {secret} AS 'none of the server''s';")
                refused = up.wait_for_end()
                assert refused["sink"] == _NUMBERS
                assert refused["error"]["code"] == {"token": "SQ4202", "key": "SQ4302"}[secret]
                session.execute(f"ALTER SECRET {secret} AS '{SECRET}';")
                up.wait_for(lambda event: event["event"] == "committed" and event["sink"] == _NUMBERS and event["rows"])
            session.stop("totals_sink")
            up.wait_for(lambda event: event == {"event": "stopped", "sink": _TOTALS, "why": "stopped"})
            _write(server, 50)
            session.start("totals_sink")
            up.wait_for_rows({_RAW: 100, _TOTALS: 6})
            assert up.interrupt() == 0
        finally:
            up.kill()
        assert _read(server, "shop.events", "id") == [(i,) for i in range(100)]
        totals = [(f"k{kind}", len(range(kind, 100, 3)), sum(range(kind, 100, 3))) for kind in range(3)]
        assert _read(server, "shop.totals", "kind, events, (amount * 4)::bigint") == totals
        numbers = _read(server, "shop.numbers", "counter")
        assert numbers == [(number,) for number in range(1, len(numbers) + 1)]
        assert SECRET not in "".join(up.errors + up.printed)


def _write(server: Seaweed, first: int) -> None:
    rows = [{"id": i, "kind": f"k{i % 3}", "amount": i / 4} for i in range(first, first + 50)]
    data = "".join(json.dumps(row) + "\n" for row in rows)
    client = boto3.client(
        "s3",
        endpoint_url=server.storage["s3.endpoint"],
        aws_access_key_id=server.user,
        aws_secret_access_key=server.secret,
        region_name="us-east-1",
    )
    client.put_object(Bucket="data", Key=f"in/{first}.json", Body=data.encode())


def _read(server: Seaweed, table: str, columns: str) -> Rows:
    return duckdb_rest(table, rest_port=server.rest, s3_port=server.s3, secret=SECRET, columns=columns)
