"""Sinks into topics: a consumer reads the rows of the relation."""

from __future__ import annotations

import json
import random
import struct
from datetime import UTC, date, datetime, time
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

import fastavro
import pytest

from kafka.pipeline import Pipeline
from kafka.sinking import committed, folded, topic_sink
from sinkql.errors import SinkqlError
from support.registry import StubRegistry, stub_registry
from support.running import drain

pytestmark = pytest.mark.server

_VIEW = """
CREATE SOURCE numbers FROM LOAD GENERATOR COUNTER (UP TO 100, ROWS PER SECOND 100000);
CREATE MATERIALIZED VIEW counts AS SELECT counter % 7 AS rest, count(*) AS n, sum(counter) AS total
  FROM numbers GROUP BY counter % 7;
"""


def test_upsert_writes_the_row_of_each_key(pipeline: Pipeline) -> None:
    pipeline.run(_VIEW)
    topic_sink(pipeline, "counts", "upserts", "KEY (rest) FORMAT JSON ENVELOPE UPSERT", ", TOPIC PARTITION COUNT 2")
    pipeline.drain("counts")
    expected = {}
    for rest in range(7):
        mine = [number for number in range(1, 101) if number % 7 == rest]
        row = {"rest": rest, "n": len(mine), "total": str(sum(mine))}
        expected[json.dumps({"rest": rest}, separators=(",", ":")).encode()] = row
    assert folded(committed(pipeline.broker, "upserts")) == expected


_TYPES = """
CREATE TABLE kinds (
  id bigint PRIMARY KEY, small smallint, flag boolean, amount numeric(10,2), ratio double precision, day date,
  clock time, at timestamp, zoned timestamptz, label text, raw bytea, code uuid, doc jsonb, tags text[],
  attributes map[text=>text]
);
INSERT INTO kinds VALUES
  (1, -3, true, 12.50, 0.1, '2024-02-29', '10:00:00.5', '2024-01-01 00:00:00.123456', '1969-12-31 23:59:59.999+00',
   'a "b" \\ ü' || chr(10), '\\x00ff'::bytea, '6b1f0f6e-6b0e-5d3b-9a55-2f6f2d1f5c11', '{"a": [1, null]}',
   array['x', null], map['k' => 'v']);
INSERT INTO kinds (id) VALUES (2);
"""


def test_each_type_has_its_form_in_json(pipeline: Pipeline) -> None:
    pipeline.run(_TYPES)
    topic_sink(pipeline, "kinds", "kinds", "KEY (id) HEADERS attributes FORMAT JSON ENVELOPE UPSERT")
    pipeline.drain("kinds")
    one, two = sorted(committed(pipeline.broker, "kinds"), key=lambda each: each.key or b"")
    assert json.loads(one.value or b"") == {
        "id": 1, "small": -3, "flag": True, "amount": "12.50", "ratio": 0.1, "day": "2024-02-29", "clock": "10:00:00.5",
        "at": "1704067200123.456", "zoned": "-1.000", "label": 'a "b" \\ ü\n', "raw": "\\x00ff",
        "code": "6b1f0f6e-6b0e-5d3b-9a55-2f6f2d1f5c11", "doc": {"a": [1, None]}, "tags": ["x", None],
        "attributes": {"k": "v"},
    }  # fmt: skip
    assert one.headers == (("k", b"v"),)
    assert [value for name, value in json.loads(two.value or b"").items() if name != "id"] == [None] * 14
    assert two.headers == ()


def test_one_column_is_written_as_it_is(pipeline: Pipeline) -> None:
    pipeline.run(
        "CREATE TABLE words (word text PRIMARY KEY); INSERT INTO words VALUES ('one'), ('zwei ü');"
        "CREATE TABLE blobs (blob bytea PRIMARY KEY); INSERT INTO blobs VALUES ('\\x00ff'::bytea);"
    )
    topic_sink(pipeline, "words", "words", "KEY (word) FORMAT TEXT ENVELOPE UPSERT")
    topic_sink(pipeline, "blobs", "blobs", "KEY (blob) KEY FORMAT TEXT VALUE FORMAT BYTES ENVELOPE UPSERT")
    for relation in ("words", "blobs"):
        pipeline.drain(relation)
    pipeline.run("DELETE FROM words WHERE word = 'one';")
    pipeline.drain("words")
    found = [(each.key, each.value) for each in committed(pipeline.broker, "words")]
    assert sorted(found[:2]) == [(b"one", b"one"), ("zwei ü".encode(), "zwei ü".encode())]
    assert found[2:] == [(b"one", None)]
    assert [(each.key, each.value) for each in committed(pipeline.broker, "blobs")] == [(b"\\x00ff", b"\x00\xff")]


def test_a_source_of_the_topic_gives_the_relation_again(pipeline: Pipeline) -> None:
    pipeline.run(_VIEW)
    topic_sink(pipeline, "counts", "there", "KEY (rest) FORMAT JSON ENVELOPE DEBEZIUM", ", TOPIC PARTITION COUNT 2")
    pipeline.drain("counts")
    pipeline.broker.settle("there")
    columns = "(rest bigint, n bigint, total numeric(38,10), PRIMARY KEY (rest) NOT ENFORCED)"
    pipeline.source("back", columns, "there", "FORMAT JSON ENVELOPE DEBEZIUM")
    pipeline.sink("back", "KEY (rest) MODE UPSERT")
    pipeline.drain("back")
    totals = [[number for number in range(1, 101) if number % 7 == rest] for rest in range(7)]
    expected = [(rest, len(mine), sum(mine)) for rest, mine in enumerate(totals)]
    assert [(rest, n, int(total)) for rest, n, total in pipeline.rows("back")] == expected


def test_avro_is_registered_and_read_again(pipeline: Pipeline) -> None:
    with stub_registry() as registry:
        pipeline.run(f"CREATE CONNECTION registry TO CONFLUENT SCHEMA REGISTRY (URL '{registry.url}');")
        pipeline.run(f"{_TYPES} COMMENT ON COLUMN kinds.small IS 'how small';")
        using = "FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION registry"
        options = "(AVRO VALUE FULLNAME 'shop.kind', NULL DEFAULTS, VALUE COMPATIBILITY LEVEL 'FULL')"
        topic_sink(pipeline, "kinds", "avro", f"KEY (id) {using} {options} ENVELOPE UPSERT")
        registry.refused.add("avro-value")
        with pytest.raises(SinkqlError, match="SQ4267"):
            pipeline.drain("kinds")
        registry.refused.clear()
        pipeline.drain("kinds")
        found = {}
        for each in committed(pipeline.broker, "avro"):
            key, value = (_avro(registry, part) for part in (each.key, each.value))
            found[key["id"]] = value
        assert found[1] == {
            "id": 1, "small": -3, "flag": True, "amount": Decimal("12.50"), "ratio": 0.1, "day": date(2024, 2, 29),
            "clock": time(10, 0, 0, 500_000), "at": datetime(2024, 1, 1, microsecond=123_456, tzinfo=UTC),
            "zoned": datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC), "label": 'a "b" \\ ü\n', "raw": b"\x00\xff",
            "code": UUID("6b1f0f6e-6b0e-5d3b-9a55-2f6f2d1f5c11"), "doc": '{"a": [1, null]}', "tags": ["x", None],
            "attributes": {"k": "v"},
        }  # fmt: skip
        assert [value for name, value in found[2].items() if name != "id"] == [None] * 14
        assert registry.levels == {"avro-value": "FULL"}
        (id_,) = registry.subjects["avro-value"]
        schema = json.loads(registry.schemas[id_]["schema"])
        assert (schema["name"], schema["fields"][0]) == ("shop.kind", {"name": "id", "type": "long"})
        assert schema["fields"][1] == {
            "name": "small", "type": ["null", "int"], "default": None, "doc": "how small",
        }  # fmt: skip


def test_a_source_of_avro_gives_the_relation_again(pipeline: Pipeline) -> None:
    with stub_registry() as registry:
        pipeline.run(f"CREATE CONNECTION registry TO CONFLUENT SCHEMA REGISTRY (URL '{registry.url}');")
        pipeline.run("CREATE TABLE people (id bigint PRIMARY KEY, name text, score numeric(10,2));")
        pipeline.run("INSERT INTO people VALUES (1, 'ann', 1.50), (2, 'bob', NULL), (3, 'cid', -7);")
        using = "FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION registry ENVELOPE DEBEZIUM"
        topic_sink(pipeline, "people", "envelopes", f"KEY (id) {using}")
        pipeline.drain("people")
        pipeline.run("UPDATE people SET name = 'bo' WHERE id = 2; DELETE FROM people WHERE id = 3;")
        pipeline.drain("people")
        pipeline.broker.settle("envelopes")
        pipeline.source("back", "", "envelopes", using)
        pipeline.sink("back", "KEY (id) MODE UPSERT")
        pipeline.drain("back")
        assert pipeline.rows("back") == [(1, "ann", Decimal("1.50")), (2, "bo", None)]


def _avro(registry: StubRegistry, message: bytes | None) -> Any:
    assert message is not None
    mark, id_ = struct.unpack(">bI", message[:5])
    assert mark == 0
    schema = fastavro.parse_schema(json.loads(registry.schemas[id_]["schema"]))
    return fastavro.schemaless_reader(BytesIO(message[5:]), schema, None)


def test_a_view_under_a_topic_does_not_change_what_is_written(pipeline: Pipeline) -> None:
    pipeline.run(_VIEW)
    topic_sink(pipeline, "counts", "fixed", "KEY (rest) FORMAT JSON ENVELOPE UPSERT")
    pipeline.drain("counts")
    with pytest.raises(SinkqlError) as raised:
        pipeline.run(
            "CREATE OR REPLACE MATERIALIZED VIEW counts AS SELECT counter % 7 AS rest, count(*) + 1 AS n, "
            "sum(counter) AS total FROM numbers GROUP BY counter % 7;"
        )
    assert raised.value.code == "SQ2985"
    assert "cannot be retracted" in str(raised.value)


def test_the_catalog_tells_of_a_topic(pipeline: Pipeline) -> None:
    pipeline.run(_VIEW)
    topic_sink(pipeline, "counts", "told", "KEY (rest) KEY FORMAT TEXT VALUE FORMAT JSON ENVELOPE DEBEZIUM")
    (shown,) = pipeline.session.execute("SHOW CREATE SINK counts_sink;")
    assert "ENVELOPE DEBEZIUM" in str(shown.rows)
    (sinks,) = pipeline.session.execute(
        "SELECT type, envelope_type, format, key_format, value_format FROM mz_catalog.mz_sinks;"
    )
    assert list(map(tuple, sinks.rows)) == [("kafka", "debezium", None, "text", "json")]
    (topics,) = pipeline.session.execute("SELECT topic FROM mz_catalog.mz_kafka_sinks;")
    assert list(map(tuple, topics.rows)) == [("told",)]
    pipeline.drain("counts")
    pipeline.run("DROP SINK counts_sink;")
    assert len(committed(pipeline.broker, "told")) == 7


def test_records_that_do_not_decode_are_in_a_topic_beside_it(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is written once, even if the process dies between the two transactions; the batch then keeps its end."""
    broker, topic = pipeline.broker, pipeline.broker.topic()
    broker.send(topic, '{"id": 1}', '{"id": "x"}', "[", key="k")
    pipeline.source("s", "(id bigint)", topic, "FORMAT JSON WITH (ON ERROR = DEAD LETTER)")
    topic_sink(pipeline, "s", "good", "KEY (id) NOT ENFORCED FORMAT JSON ENVELOPE UPSERT")

    def die(*arguments: object) -> None:
        raise SinkqlError("SQ4201", "it died")

    loop = pipeline.loop("s")
    loop.start(epoch=1, once=True)
    with monkeypatch.context() as patched:
        patched.setattr(loop.writer, "commit", die)
        with pytest.raises(SinkqlError, match="it died"):
            drain(loop)
    assert [each.value for each in committed(broker, "good")] == []
    assert len(committed(broker, "good__errors")) == 2
    broker.send(topic, "{", '{"id": 2}')
    pipeline.drain("s")
    pipeline.drain("s")
    assert sorted(each.value or b"" for each in committed(broker, "good")) == [b'{"id":1}', b'{"id":2}']
    letters = [json.loads(each.value or b"") for each in committed(broker, "good__errors")]
    kept = ("source", "position", "code", "key", "raw")
    assert sorted(tuple(each[name] for name in kept) for each in letters) == [
        ("materialize.public.s", f"{topic}/0/1", "SQ3101", "\\x6b", "\\x" + b'{"id": "x"}'.hex()),
        ("materialize.public.s", f"{topic}/0/2", "SQ3101", "\\x6b", "\\x5b"),
        ("materialize.public.s", f"{topic}/0/3", "SQ3101", None, "\\x7b"),
    ]
    assert all(each["message"] for each in letters)
    with pytest.raises(SinkqlError) as refused:
        pipeline.run("REPLAY ERRORS FROM s")
    assert refused.value.code == "SQ3394"


def test_a_topic_of_such_records_that_was_deleted_is_recreated(pipeline: Pipeline) -> None:
    broker, topic = pipeline.broker, pipeline.broker.topic()
    broker.send(topic, '{"id": 1}', "[")
    pipeline.source("s", "(id bigint)", topic, "FORMAT JSON WITH (ON ERROR = DEAD LETTER)")
    topic_sink(pipeline, "s", "tidied", "KEY (id) NOT ENFORCED FORMAT JSON ENVELOPE UPSERT")
    pipeline.drain("s")
    broker.delete("tidied__errors")
    broker.send(topic, '{"id": 2}', "{")
    pipeline.drain("s")
    letters = [json.loads(each.value or b"")["raw"] for each in committed(broker, "tidied__errors")]
    assert letters == ["\\x7b"]
    assert len(committed(broker, "tidied")) == 2


def test_a_record_as_large_as_its_topic_takes_is_a_dead_letter(pipeline: Pipeline) -> None:
    broker, topic = pipeline.broker, pipeline.broker.topic()
    large = random.Random(1).randbytes(450_000).hex()
    broker.send(topic, large, '{"id": 1}')
    pipeline.source("s", "(id bigint)", topic, "FORMAT JSON WITH (ON ERROR = DEAD LETTER)")
    topic_sink(pipeline, "s", "large", "FORMAT JSON ENVELOPE DEBEZIUM", ", COMPRESSION TYPE = NONE")
    pipeline.drain("s")
    (dead_letter,) = (json.loads(each.value or b"") for each in committed(broker, "large__errors"))
    assert bytes.fromhex(dead_letter["raw"][2:]) == large.encode()
    assert len(committed(broker, "large")) == 1
