"""The pipeline of examples/kafka_to_iceberg with a real broker and Spark; DuckDB reads its table."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sinkql.runtime.local.engine import LocalEngine
from sinkql.runtime.spark.engine import SparkEngine
from sinkql.session import Session
from support.kafka import Kafka
from support.readers import duckdb_folder
from support.running import drain, loop_of

pytestmark = [pytest.mark.spark, pytest.mark.server]

_EXAMPLE = Path(__file__).parents[2] / "examples" / "kafka_to_iceberg" / "pipeline.sql"


def _order(number: int, country: str, amount: float) -> str:
    order = {"id": number, "country": country, "amount": amount, "ordered_at": "2026-03-01T12:00:00Z"}
    return json.dumps({**order, "customer": "c1"})


def test_topics_are_the_tables_that_the_example_says(
    broker: Kafka, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    orders, customers = broker.topic(2), broker.topic(cleanup_policy="compact")
    broker.send(orders, _order(1, "SE", 12.5), "{", _order(2, "DE", 1.25))
    broker.send(orders, _order(3, "SE", 0.5), partition=1)
    for key, name in (("c1", "Ann"), ("c2", "Bob"), ("c1", "Anna")):
        broker.send(customers, json.dumps({"name": name}), key=key)
    script = _EXAMPLE.read_text()
    script = script.replace("localhost:9092", broker.address)
    script = script.replace("TOPIC 'orders'", f"TOPIC '{orders}'").replace("TOPIC 'customers'", f"TOPIC '{customers}'")
    with Session() as session:
        session.execute(script)
        for turn in (1, 2):
            for job in session.jobs():
                engine = SparkEngine(lambda: spark, buckets=2) if turn == 1 else LocalEngine(2)
                loop = loop_of(job, session.context(job), session.catalog.registry, engine=engine)
                loop.start(epoch=turn, once=True)
                drain(loop)
            if turn == 1:
                broker.send(customers, None, key="c2")
                broker.send(orders, _order(4, "SE", 100))
    tables = tmp_path / "lake" / "shop"
    assert duckdb_folder(tables / "sales") == [("DE", 1, Decimal("1.25")), ("SE", 3, Decimal("113.00"))]
    assert duckdb_folder(tables / "customers") == [("c1", "Anna", None)]
    assert duckdb_folder(tables / "orders", 'id, partition, "offset"') == [(1, 0, 0), (2, 0, 2), (3, 1, 0), (4, 0, 3)]
