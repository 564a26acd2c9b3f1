"""A running pipeline that commits every 200 milliseconds has each message of a topic once."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command import start
from support.kafka import Kafka
from support.readers import duckdb_folder

pytestmark = pytest.mark.server

_SQL = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE CONNECTION kafka TO KAFKA (BROKER '{address}', SECURITY PROTOCOL = 'PLAINTEXT');
CREATE SOURCE s (id bigint NOT NULL, name text) FROM KAFKA CONNECTION kafka (TOPIC '{topic}') FORMAT JSON;
CREATE SINK k FROM s INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  ENVELOPE NONE WITH (COMMIT INTERVAL = '200ms');
"""
_WAVES, _ROWS = 6, 7


def test_each_message_is_in_the_table_once(broker: Kafka, tmp_path: Path) -> None:
    topic = broker.topic(2)
    (tmp_path / "pipeline.sql").write_text(_SQL.format(address=broker.address, topic=topic))
    running = start("exec", "pipeline.sql", folder=tmp_path)
    try:
        for wave in range(_WAVES):
            for number in range(wave * _ROWS, (wave + 1) * _ROWS):
                broker.send(topic, f'{{"id": {number}, "name": "n{number}"}}', partition=number % 2)
            running.wait_for_rows({"materialize.public.k": (wave + 1) * _ROWS})
        assert running.interrupt() == 0
    finally:
        running.kill()
    expected = [(number, f"n{number}") for number in range(_WAVES * _ROWS)]
    assert duckdb_folder(tmp_path / "lake" / "n" / "t") == expected
    assert running.commits["materialize.public.k"] >= _WAVES
    assert "spark started" not in {event["event"] for event in running.events}
