"""The pipeline of examples/webhook with repeated, signed requests and tasks in Spark; DuckDB reads the tables."""

from __future__ import annotations

import hmac
import json
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sinkql.runtime.local.engine import LocalEngine
from sinkql.runtime.spark.engine import SparkEngine
from sinkql.session import Session
from support.readers import duckdb_folder
from support.running import catch_up, loop_of
from webhook.sending import Sender, capturing, path_of

pytestmark = pytest.mark.spark

_EXAMPLE = Path(__file__).parents[2] / "examples" / "webhook" / "pipeline.sql"


def _send(sender: Sender, key: str, body: str, *, signed: str | None = None) -> int:
    signature = hmac.digest(b"secret", (signed or body).encode(), "sha256").hex()
    headers = {"X-Signature": f"sha256={signature}", "Idempotency-Key": key}
    return sender.send(path_of("events"), body, headers).status


def test_signed_requests_are_the_tables_that_the_example_says(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sender: Sender
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WEBHOOK_KEY", "secret")
    script = _EXAMPLE.read_text().replace("'hex'))\n  );", f"'hex'))\n  )\n  WITH (PORT = {sender.port});")
    with Session() as session:
        session.execute(script)
        (found,) = session.execute("SELECT name, url FROM mz_internal.mz_webhook_sources")
        assert list(map(tuple, found.rows)) == [("events", f"http://127.0.0.1:{sender.port}{path_of('events')}")]
        orders = [json.dumps({"id": number, "customer": "c1", "amount": number / 4}) for number in (1, 2)]
        with capturing(session):
            sender.listening(path_of("events"))
            assert [_send(sender, key, order) for key in ("a", "b", "a") for order in orders[:1]] == [200] * 3
            assert _send(sender, "c", orders[1]) == 200
            assert _send(sender, "d", orders[1], signed=orders[0]) == 400
            for job in session.jobs():
                engine = SparkEngine(lambda: spark, buckets=2) if "orders" in job.sink else LocalEngine(2)
                loop = loop_of(job, session.context(job), session.catalog.registry, engine=engine)
                loop.start(epoch=1, once=True)
                catch_up(loop)
    tables = tmp_path / "lake" / "shop"
    assert [row[0] for row in duckdb_folder(tables / "events", "event_id")] == ["a", "b", "c"]
    assert duckdb_folder(tables / "orders") == [(1, "c1", Decimal("0.25")), (2, "c1", Decimal("0.50"))]
