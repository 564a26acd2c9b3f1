"""Topics of a real broker become tables that DuckDB reads."""

from __future__ import annotations

import gc
import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from kafka.pipeline import Pipeline
from sinkql.connector_api.stream import Limit, Size
from sinkql.connectors.kafka import reader as reader_module
from sinkql.connectors.kafka.client import Client
from sinkql.connectors.kafka.consumer import Range, messages
from sinkql.connectors.kafka.reader import KafkaReader
from sinkql.errors import SinkqlError
from support.kafka import Kafka
from support.patience import PATIENCE_S
from support.readers import sorted_rows
from support.running import MemoryControl

pytestmark = pytest.mark.server


def test_messages_become_rows(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic(2)
    broker.send(topic, '{"id": 1, "name": "a"}', '{"id": 2}')
    broker.send(topic, '{"id": 3, "name": "c"}', partition=1)
    pipeline.source("s", "(id bigint, name text)", topic, "FORMAT JSON")
    pipeline.sink("s")
    pipeline.drain("s")
    assert pipeline.rows("s") == [(1, "a"), (2, None), (3, "c")]
    broker.send(topic, '{"id": 4}')
    pipeline.drain("s")
    assert pipeline.rows("s") == [(1, "a"), (2, None), (3, "c"), (4, None)]


def test_exposed_progress_is_that_of_the_sink_that_is_furthest_behind(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic(partitions=2)
    pipeline.source("s", "", topic, "FORMAT TEXT EXPOSE PROGRESS AS p")
    pipeline.run("CREATE MATERIALIZED VIEW w AS SELECT text FROM s;")

    def progress(query: str = "SELECT * FROM p") -> list[tuple[Any, ...]]:
        (result,) = pipeline.session.execute(query)
        return list(result.rows)

    def read(relation: str) -> None:
        checkpoint, job = pipeline.drain(relation).checkpoint, pipeline.job(relation)
        assert checkpoint is not None
        pipeline.session.catalog.control.committed(job.sink_id, rows=0, size=0, offsets=checkpoint.end, epoch=1)

    broker.send(topic, "a", "b", partition=0)
    assert progress() == []
    for relation in ("s", "w"):
        pipeline.sink(relation)
        read(relation)
    broker.send(topic, "c", partition=1)
    read("s")
    assert progress() == [(0, Decimal(2)), (1, Decimal(0))]
    read("w")
    assert progress() == [(0, Decimal(2)), (1, Decimal(1))]
    assert progress('SELECT sum("offset") AS n FROM p WHERE partition > 0') == [(Decimal(1),)]
    assert progress("SHOW SUBSOURCES ON s") == [("p", "progress")]
    pipeline.run("ALTER SOURCE s RENAME TO t; DROP SINK s_sink; DROP SINK w_sink; DROP MATERIALIZED VIEW w;")
    assert progress() == []
    pipeline.run("DROP SOURCE t;")  # drops its progress subsource, too
    assert progress("SELECT name FROM mz_sources") == []


def test_the_size_of_a_batch_is_its_offsets_and_a_guess_until_messages_were_weighed(
    broker: Kafka, pipeline: Pipeline
) -> None:
    topic = broker.topic(2)
    broker.send(topic, *["x" * 1000] * 500)
    broker.send(topic, *["x" * 1000] * 300, partition=1)
    pipeline.source("s", "", topic, "FORMAT TEXT")
    pipeline.sink("s")
    (reader,) = pipeline.loop("s").readers.values()
    start = reader.initial(at_end=False)
    assert Size(800, 800 * 250) == reader.size(reader.splits(start, reader.latest(start, Limit(1 << 20))))
    broker.send(topic, *["x" * 1000] * 5000, partition=1)
    weighed = reader.size(reader.splits(start, reader.latest(start, Limit(1 << 20))))
    assert weighed is not None
    assert weighed.rows == 5800
    assert 1000 * 5800 <= weighed.bytes <= 1100 * 5800
    assert Size(0, 0) == reader.size([])


def test_large_messages_bound_a_batch_by_their_bytes(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic(2)
    for partition in range(2):
        broker.send(topic, *["x" * 10_000] * 2500, partition=partition)
    pipeline.source("s", "", topic, "FORMAT TEXT")
    pipeline.sink("s")
    (reader,) = pipeline.loop("s").readers.values()
    assert isinstance(reader, KafkaReader)
    start = reader.initial(at_end=False)
    assert reader.latest(start, Limit(5000))["partitions"] == {"0": 2500, "1": 2500}
    assert reader.latest(start, Limit(5000, 1_000_000))["partitions"] == {"0": 50, "1": 50}
    assert reader.latest(start, Limit(30, 1_000_000))["partitions"] == {"0": 15, "1": 15}
    whole = Range("s", topic, 0, 0, 2500, "sinkql")
    sizes = [sum(map(len, found)) for found in messages(reader.client, whole)]
    assert sum(sizes) == 25_000_000
    assert max(sizes[1:]) <= 8 << 20


def test_what_is_weighed_of_a_topic_ends_where_its_partition_does_and_may_have_gaps(
    broker: Kafka, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "_UNWEIGHED_ROWS", 16)
    short, sparse = broker.topic(2), broker.topic(1)
    for partition in range(2):
        broker.send(short, *["x" * 10_000] * 20, partition=partition)
    producer = broker.producer(transactional_id="given-up")
    producer.begin_transaction()
    for _ in range(49):
        producer.produce(sparse, "x" * 10_000, partition=0)
    producer.flush(PATIENCE_S)
    producer.abort_transaction(PATIENCE_S)  # writes a control record, the 50th
    broker.send(sparse, *["x" * 10_000] * 50)
    broker.settle(sparse)
    for topic, name, found in ((short, "short", {"0": 5, "1": 5}), (sparse, "sparse", {"0": 20})):
        pipeline.source(name, "", topic, "FORMAT TEXT")
        pipeline.sink(name)
        (reader,) = pipeline.loop(name).readers.values()
        assert reader.latest(reader.initial(at_end=False), Limit(1000, 100_000))["partitions"] == found


def test_garbage_is_looked_for_after_a_range_that_nobody_read_to_its_end(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    broker.send(topic, "a", "b")
    client = Client.of("k", {"brokers": [broker.address], "protocol": "PLAINTEXT"}, lambda _: "")
    whole = Range("s", topic, 0, 0, 2, "sinkql")
    begun: list[Any] = [messages(client, whole)]
    assert next(begun[0])
    assert not gc.isenabled()
    begun.append(begun)
    del begun  # leaves a cycle, as an error and its frame do
    assert sum(map(len, messages(client, whole))) == 2
    assert gc.isenabled()


def test_the_parts_of_a_message_become_columns(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic(2, retention_ms="-1")  # the messages have old timestamps
    broker.send(topic, "a", partition=1, key="k", timestamp=1_700_000_000_123, headers=[("x", b"1"), ("x", b"\xff")])
    broker.send(topic, "b", timestamp=1000, headers=[("y", "ü".encode()), ("x", None)])
    include = "PARTITION, OFFSET, TIMESTAMP, HEADERS, HEADER 'x' AS x BYTES, HEADER 'y' AS y"
    pipeline.source("s", "", topic, f"KEY FORMAT TEXT VALUE FORMAT TEXT INCLUDE KEY AS k, {include}")
    pipeline.sink("s")
    pipeline.drain("s")
    moment = datetime(2023, 11, 14, 22, 13, 20, 123000)
    headers = [{"key": "y", "value": "ü".encode()}, {"key": "x", "value": None}]
    assert pipeline.rows("s") == sorted_rows(
        [
            ("k", "a", 1, 0, moment, [{"key": "x", "value": b"1"}, {"key": "x", "value": b"\xff"}], b"\xff", None),
            (None, "b", 0, 0, datetime(1970, 1, 1, 0, 0, 1), headers, None, "ü"),
        ]
    )


def test_a_header_that_is_no_text_fails_its_message_alone(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    broker.send(topic, "a", headers=[("y", b"\xff")])
    broker.send(topic, "b", headers=[("y", b"ok")])
    broker.send(topic, "c", headers=[("y", b"a\0")])
    pipeline.source("s", "", topic, "FORMAT TEXT INCLUDE HEADER 'y' AS y WITH (ON ERROR = SKIP)")
    pipeline.sink("s")
    pipeline.drain("s")
    assert pipeline.rows("s") == [("b", "ok")]


def test_headers_whose_names_are_no_text_fail_their_message_alone(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    broker.send_raw(topic, b"\xff")
    broker.send_raw(topic, b"ok")
    for name, include in (("s", "HEADERS"), ("one", "HEADER 'ok' AS ok, HEADER 'x' AS x")):
        pipeline.source(name, "", topic, f"FORMAT TEXT INCLUDE {include} WITH (ON ERROR = DEAD LETTER)")
        pipeline.sink(name)
        pipeline.drain(name)
        wrong = [("the name of a header is not UTF-8", True)]
        assert pipeline.rows(f"{name}__errors", "message, about LIKE '%\"headers\": null%'") == wrong
    assert pipeline.rows("s") == [("x", [{"key": "ok", "value": b"v"}])]
    assert pipeline.rows("one") == [("x", "v", None)]


def test_a_time_that_does_not_count_milliseconds_fails_its_message_alone(broker: Kafka, pipeline: Pipeline) -> None:
    """Brokers accept these times if message.timestamp.after.max.ms allows them, as its default long did."""
    topic = broker.topic(message_timestamp_after_max_ms=str(2**63 - 1))
    micros, most = 1_700_000_000_000_000, 2**63 - 1
    for at in (micros, 1_700_000_000_000, most):
        broker.send(topic, "x", timestamp=at)
    pipeline.source("s", "", topic, "FORMAT TEXT INCLUDE TIMESTAMP WITH (ON ERROR = DEAD LETTER)")
    pipeline.sink("s")
    pipeline.drain("s")
    assert pipeline.rows("s") == [("x", datetime(2023, 11, 14, 22, 13, 20))]
    assert pipeline.rows("s__errors", "message, about") == [
        (f"timestamp {at}: it is outside of the years 1 to 9999", json.dumps({"timestamp": at}))
        for at in (micros, most)
    ]


def test_messages_without_a_value_are_rows_of_nulls(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    broker.send(topic, '{"id": 1}', None, '{"id": 2}', key="k")
    pipeline.source("s", "(id bigint)", topic, "KEY FORMAT TEXT VALUE FORMAT JSON INCLUDE KEY")
    pipeline.sink("s")
    pipeline.drain("s")
    assert pipeline.rows("s") == [("k", None), ("k", 1), ("k", 2)]
    pipeline.source("strict", "(id bigint NOT NULL)", topic, "FORMAT JSON WITH (ON ERROR = SKIP)")
    pipeline.sink("strict")
    pipeline.drain("strict")
    assert pipeline.rows("strict") == [(1,), (2,)]


def test_the_last_value_of_a_key_is_its_row(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    for key, value in (
        ("1", '{"name": "a"}'),
        ("2", '{"name": "b"}'),
        ("1", '{"name": "c"}'),
        ("3", "{}"),
        ("2", None),
    ):
        broker.send(topic, value, key=key)
    columns = "(id bigint, name text, PRIMARY KEY (id) NOT ENFORCED)"
    pipeline.source("s", columns, topic, "KEY FORMAT TEXT VALUE FORMAT JSON ENVELOPE UPSERT")
    pipeline.sink("s", "KEY (id) MODE UPSERT")
    pipeline.drain("s")
    assert pipeline.rows("s") == [(1, "c"), (3, None)]
    broker.send(topic, None, key="1")
    broker.send(topic, None, key="9")
    broker.send(topic, '{"name": "d"}', key="2")
    pipeline.drain("s")
    assert pipeline.rows("s") == [(2, "d"), (3, None)]


def test_keys_of_json_and_their_own_column(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    for key, value in (('{"b": 1, "a": "x"}', "p"), ('{"a": "x", "b": 2}', "q"), ('{"a":"x","b":1}', "r")):
        broker.send(topic, value, key=key)
    columns = "(v text, a text, b bigint, PRIMARY KEY (b, a) NOT ENFORCED)"
    pipeline.source("s", columns, topic, "KEY FORMAT JSON VALUE FORMAT TEXT ENVELOPE UPSERT")
    pipeline.sink("s", "KEY (b, a) MODE UPSERT")
    pipeline.drain("s")
    assert pipeline.rows("s") == [("q", "x", 2), ("r", "x", 1)]
    pipeline.source("own", "", topic, "KEY FORMAT JSON VALUE FORMAT TEXT ENVELOPE UPSERT")
    pipeline.sink("own", "KEY (key) MODE UPSERT")
    pipeline.drain("own")
    assert pipeline.rows("own") == [('{"a": "x", "b": 1}', "r"), ('{"a": "x", "b": 2}', "q")]


def test_a_value_that_does_not_decode_is_told_in_its_row(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    for key, value in (("a", "1"), ("b", "x"), ("c", None), ("a", "y"), ("d", "2")):
        broker.send(topic, value, key=key)
    upsert = "KEY FORMAT TEXT VALUE FORMAT TEXT ENVELOPE UPSERT (VALUE DECODING ERRORS = INLINE)"
    pipeline.source("s", "(key text, n bigint, PRIMARY KEY (key) NOT ENFORCED)", topic, upsert)
    pipeline.sink("s", "KEY (key) MODE UPSERT")
    pipeline.drain("s")
    assert pipeline.rows("s", "key, n, error.description") == [
        ("a", None, '"y" is not a bigint'),
        ("b", None, '"x" is not a bigint'),
        ("d", 2, None),
    ]


def test_a_message_that_does_not_decode_stops_the_sink_at_its_place(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    broker.send(topic, *(str(each) for each in range(500)), "x", "7")
    pipeline.source("s", "(n bigint)", topic, "FORMAT TEXT")
    pipeline.sink("s")
    with pytest.raises(SinkqlError, match=f"SQ3101.*\n?.*at {topic}/0/500"):
        pipeline.drain("s")
    pipeline.source("skipping", "(n bigint)", topic, "FORMAT TEXT WITH (ON ERROR = SKIP)")
    pipeline.sink("skipping")
    control = pipeline.drain("skipping").report.control
    assert pipeline.rows("skipping", "count(*), sum(n)") == [(501, sum(range(500)) + 7)]
    assert isinstance(control, MemoryControl)
    assert sum(each["counts"]["failed"] for each in control.commits) == 1


def test_a_key_that_is_missing_or_wrong_is_a_message_that_fails(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    for key, value in ((None, "a"), ("x", "b"), ("1", "c"), ("x", None)):
        broker.send(topic, value, key=key)
    columns = "(id bigint, v text, PRIMARY KEY (id) NOT ENFORCED)"
    upsert = "KEY FORMAT TEXT VALUE FORMAT TEXT ENVELOPE UPSERT"
    pipeline.source("s", columns, topic, f"{upsert} WITH (ON ERROR = SKIP)")
    pipeline.sink("s", "KEY (id) MODE UPSERT")
    control = pipeline.drain("s").report.control
    assert pipeline.rows("s") == [(1, "c")]
    assert isinstance(control, MemoryControl)
    assert sum(each["counts"]["failed"] for each in control.commits) == 3


def test_a_batch_takes_of_all_partitions_alike(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic(3)
    for partition, count in enumerate((1, 10, 100)):
        broker.send(topic, *["x"] * count, partition=partition)
    pipeline.source("s", "", topic, "FORMAT TEXT")
    pipeline.sink("s")
    (reader,) = pipeline.loop("s").readers.values()
    start = reader.initial(at_end=False)
    ends = [reader.latest(start, Limit(rows))["partitions"] for rows in (1, 3, 30, 1000)]
    assert ends == [
        {"0": 0, "1": 0, "2": 1},
        {"0": 1, "1": 1, "2": 1},
        {"0": 1, "1": 10, "2": 19},
        {"0": 1, "1": 10, "2": 100},
    ]
    until = reader.target(start)
    broker.send(topic, "y")
    found = reader.latest(start, Limit(1000), until)
    assert {name: each for name, each in found.items() if name != "last"} == until
    assert {each: told[0] for each, told in found["last"].items()} == {"0": 0, "1": 9, "2": 99}
