"""Messages that do not decode: skipped and counted, or stored in a dead-letter table that DuckDB reads."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from confluent.test_bad_avro import FIXED
from confluent.test_bad_avro import VALUES as BAD_AVRO
from decode.test_bad_json import BAD as BAD_JSON
from decode.test_debezium import BAD as BAD_CHANGES
from decode.test_debezium import change
from kafka.pipeline import Pipeline
from sinkql.connector_api.registry import discover
from sinkql.connector_api.stream import ReadCounts, RowError
from sinkql.connectors.kafka.reader import KafkaReader
from sinkql.errors import SinkqlError
from sinkql.runtime.sink.requests import run_replay_request
from support.kafka import Kafka
from support.registry import stub_registry
from support.running import MemoryControl

pytestmark = pytest.mark.server


def test_messages_that_do_not_decode_are_kept_in_a_table_of_their_own(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic(2, retention_ms="-1")  # the messages have old timestamps
    broker.send(topic, '{"id": 1}', '{"id": "x"}', '{"id": 2}', "[", key="k", timestamp=1000, headers=[("h", b"\xff")])
    pipeline.source("s", "(id bigint)", topic, "FORMAT JSON WITH (ON ERROR = DEAD LETTER)")
    pipeline.sink("s")
    pipeline.drain("s")
    assert pipeline.rows("s") == [(1,), (2,)]
    kept = "source, position, code, key, raw, about"
    about = json.dumps({"headers": [["h", "/w=="]], "timestamp": 1000})
    source = "materialize.public.s"
    assert pipeline.rows("s__errors", kept) == [
        (source, f"{topic}/0/1", "SQ3101", b"k", b'{"id": "x"}', about),
        (source, f"{topic}/0/3", "SQ3101", b"k", b"[", about),
    ]
    broker.send(topic, "{", '{"id": 3}', partition=1)
    loop = pipeline.drain("s")
    assert pipeline.rows("s") == [(1,), (2,), (3,)]
    assert [row[0] for row in pipeline.rows("s__errors", "raw")] == [b"[", b"{", b'{"id": "x"}']
    assert loop.dead_letters.table is not None


_JSON = [each for each in BAD_JSON if "record" not in each[0]]
_AVRO = [each for each in BAD_AVRO if each[0] != {**FIXED, "logicalType": "decimal", "precision": 4}]
POLICIES = ("FAIL", "SKIP", "DEAD LETTER")


_LEAST = 60
"""The least number of kinds of bad records of each format."""


def _run(
    pipeline: Pipeline,
    topic: str,
    columns: str,
    clauses: str,
    good: int,
    bad: list[bytes],
    mode: str = "ENVELOPE NONE",
) -> None:
    """Read a topic under each policy: `good` rows with consecutive ids, and bad messages at odd offsets."""
    assert len(bad) >= _LEAST
    for policy in POLICIES:
        name = policy[:4].lower()
        pipeline.source(f"{name}_s", columns, topic, f"{clauses} WITH (ON ERROR = {policy})")
        pipeline.run(f"CREATE MATERIALIZED VIEW {name} AS SELECT id FROM {name}_s;")
        pipeline.sink(name, mode)
    rows = [(number,) for number in range(good)]
    with pytest.raises(SinkqlError, match="invalid row"):
        pipeline.drain("fail")
    assert pipeline.rows("fail") == []
    for name in ("skip", "dead"):
        loop = pipeline.drain(name)
        assert pipeline.rows(name) == rows
        assert isinstance(loop.report.control, MemoryControl)
        assert sum(each["counts"]["failed"] for each in loop.report.control.commits) == len(bad)
    letters = pipeline.rows("dead__errors", "position, raw, message")
    assert sorted(raw for _, raw, _ in letters) == sorted(bad)
    assert all(message for _, _, message in letters)
    job = pipeline.job("fail")
    (read,) = job.reads()
    reader = discover().reader(read, pipeline.session.context(job))
    for place in range(len(bad)):  # each bad message stops a sink, which reports its offset
        split = {"partition": 0, "from": 2 * place + 1, "to": 2 * place + 2}
        with pytest.raises(SinkqlError) as raised:
            list(reader.read(split, ReadCounts()))
        assert (raised.value.code, f"at {topic}/0/{2 * place + 1}:" in raised.value.message) == ("SQ3101", True)


def test_each_kind_of_bad_json_under_each_policy(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    types = list(dict.fromkeys(type_ for type_, _, _, _ in _JSON))
    bad = []
    for number, (type_, _, value, _) in enumerate(_JSON):
        column = "v" if type_ == "text" else f"v{types.index(type_)}"
        bad.append(value if isinstance(value, bytes) else f'{{"id": 2, "{column}": {value}}}'.encode())
        broker.send(topic, f'{{"id": {number}}}', bad[-1])
    columns = [f"{'v' if each == 'text' else f'v{place}'} {each}" for place, each in enumerate(types)]
    _run(pipeline, topic, f"(id bigint NOT NULL, {', '.join(columns)})", "FORMAT JSON", len(bad), bad)


def test_each_kind_of_bad_avro_under_each_policy(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    types = [json.loads(each) for each in dict.fromkeys(json.dumps(type_) for type_, _, _, _ in _AVRO)]
    id_ = {"name": "id", "type": "long", "default": -1}
    optional = [each if isinstance(each, list) else ["null", each] for each in types]
    fields = [{"name": f"v{place}", "type": each, "default": None} for place, each in enumerate(optional)]
    with stub_registry() as stub:
        own = [
            stub.register(topic, {"type": "record", "name": "row", "fields": [{"name": f"v{place}", "type": each}]})
            for place, each in enumerate(types)
        ]
        right = stub.register(topic, {"type": "record", "name": "row", "fields": [id_]})
        stub.register(f"{topic}-value", {"type": "record", "name": "row", "fields": [id_, *fields]})
        pipeline.run(f"CREATE CONNECTION registry TO CONFLUENT SCHEMA REGISTRY (URL '{stub.url}');")
        bad = []
        for number, (type_, _, value, _) in enumerate(_AVRO):
            bad.append(b"\0" + own[types.index(type_)].to_bytes(4, "big") + value)
            broker.send(topic, b"\0" + right.to_bytes(4, "big") + _long(number), bad[-1])
        _run(pipeline, topic, "", "FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION registry", len(bad), bad)


def test_each_kind_of_bad_change_under_each_policy(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    types = list(dict.fromkeys(type_ for type_, _, _ in BAD_CHANGES))
    bad = []
    for number, (type_, message, _) in enumerate(BAD_CHANGES):
        bad.append(message.replace(b'"v"', f'"v{types.index(type_)}"'.encode()))
        broker.send(topic, change("c", {"id": number}), bad[-1])
    columns = ", ".join(f"v{place} {each}" for place, each in enumerate(types))
    clauses = "FORMAT JSON ENVELOPE DEBEZIUM"
    _run(
        pipeline,
        topic,
        f"(id bigint, {columns}, PRIMARY KEY (id) NOT ENFORCED)",
        clauses,
        len(bad),
        bad,
        "KEY (id) MODE UPSERT",
    )


_KEYS: Mapping[str, Any] = {"type": "record", "name": "k", "fields": [{"name": "id", "type": "long"}]}
_VALUES: Mapping[str, Any] = {"type": "record", "name": "v", "fields": [{"name": "n", "type": "long"}]}
_CHANGES: Mapping[str, Any] = {
    "type": "record", "name": "e", "fields": [
        {"name": "before", "type": ["null", _VALUES]}, {"name": "after", "type": ["null", "v"]},
        {"name": "op", "type": "string"},
    ],
}  # fmt: skip
_PROTOBUF = 'syntax = "proto3"; message V { int64 n = 1; }'
_HEAD = b"\0\0\0\0\1"
_KEYED = "(id bigint, n bigint, PRIMARY KEY (id) NOT ENFORCED)"
Sent = tuple[bytes | None, bytes | None]
_FORMATS: Mapping[str, tuple[str, str, Sent, Sent]] = {
    # columns, clauses, a valid and an invalid message, each as key and value
    "JSON": ("(n bigint)", "FORMAT JSON", (b"k", b'{"n": 1}'), (b"k", b'{"n": 1')),
    "JSON as one column": ("", "FORMAT JSON", (None, b"[1]"), (None, b"[1")),
    "CSV": ("(n bigint, t text)", "FORMAT CSV WITH 2 COLUMNS", (None, b"1,a"), (None, b"1")),
    "TEXT": ("(n bigint)", "FORMAT TEXT", (None, b"1"), (None, b"\xff")),
    "AVRO": ("", f"FORMAT AVRO USING SCHEMA '{json.dumps(_VALUES)}'", (None, _HEAD + b"\2"), (None, _HEAD)),
    "AVRO of a registry": ("", "FORMAT AVRO USING {registry}", (None, b"{id}\2"), (None, b"{id}")),
    "PROTOBUF": ("", "FORMAT PROTOBUF USING {registry}", (None, b"{id}\0\x08\1"), (None, b"{id}\0\x08")),
    "a key of JSON": (
        "(n bigint)", "KEY FORMAT JSON VALUE FORMAT JSON INCLUDE KEY", (b"1", b'{"n": 1}'), (b"x", b'{"n": 1}')
    ),
    "a key of TEXT": (
        "(n bigint)", "KEY FORMAT TEXT VALUE FORMAT JSON INCLUDE KEY", (b"1", b'{"n": 1}'), (b"\xff", b'{"n": 1}')
    ),
    "a key of AVRO": (
        "", f"KEY FORMAT AVRO USING SCHEMA '{json.dumps(_KEYS)}' VALUE FORMAT TEXT INCLUDE KEY",
        (_HEAD + b"\2", b"a"), (_HEAD, b"a"),
    ),
    "no key": (_KEYED, "KEY FORMAT TEXT VALUE FORMAT JSON ENVELOPE UPSERT", (b"1", b'{"n": 1}'), (None, b'{"n": 1}')),
    "changes of JSON": (
        _KEYED, "FORMAT JSON ENVELOPE DEBEZIUM", (b"{}", change("c", {"id": 1})), (b"{}", b'{"op": "c"}')
    ),
    "changes of AVRO": (
        "", f"KEY FORMAT AVRO USING SCHEMA '{json.dumps(_VALUES)}' VALUE FORMAT AVRO USING SCHEMA "
        f"'{json.dumps(_CHANGES)}' ENVELOPE DEBEZIUM",
        (_HEAD + b"\2", _HEAD + b"\0\2\2\2c"), (_HEAD + b"\2", _HEAD + b"\0\2"),
    ),
    "a header": ("(n bigint)", "FORMAT JSON INCLUDE HEADER 'h' AS h", (b"good", b'{"n": 1}'), (b"\xff", b'{"n": 1}')),
}  # fmt: skip


def test_a_bad_message_of_each_format_under_each_policy(broker: Kafka, pipeline: Pipeline) -> None:
    """It stops the sink, is skipped or becomes a dead letter; a retry of it fails, but not of a valid message."""
    schemas: dict[str, tuple[Any, str]] = {
        "AVRO of a registry": (_VALUES, "AVRO"), "PROTOBUF": (_PROTOBUF, "PROTOBUF")
    }  # fmt: skip
    with stub_registry() as stub:
        pipeline.run(f"CREATE CONNECTION registry TO CONFLUENT SCHEMA REGISTRY (URL '{stub.url}');")
        for number, (name, (columns, clauses, good, bad)) in enumerate(_FORMATS.items()):
            topic, id_ = broker.topic(), b""
            if name in schemas:
                id_ = b"\0" + stub.register(f"{topic}-value", *schemas[name]).to_bytes(4, "big")
            sent = [(key, None if value is None else value.replace(b"{id}", id_)) for key, value in (good, bad, good)]
            for key, value in sent:
                broker.send(topic, value, key=key, headers=[("h", key)])
            made = clauses.replace("{registry}", "CONFLUENT SCHEMA REGISTRY CONNECTION registry")
            pipeline.source(f"r{number}", columns, topic, f"{made} WITH (ON ERROR = DEAD LETTER)")
            pipeline.sink(f"r{number}", "MODE APPEND")
            job = pipeline.job(f"r{number}")
            reader = discover().reader(job.reads()[0], pipeline.session.context(job))
            assert isinstance(reader, KafkaReader)
            split = {"partition": 0, "from": 0, "to": 3}
            with pytest.raises(SinkqlError) as stopped:
                list(replace(reader, policy="fail").read(split, ReadCounts()))
            assert (stopped.value.code, f"at {topic}/0/1:" in stopped.value.message) == ("SQ3101", True), name
            letters: list[RowError] = []
            for read_counts in (ReadCounts(), ReadCounts(letters=letters.append)):
                read_counts.decoded = sum(batch.num_rows for batch in reader.read(split, read_counts))
                read_counts.settle(name)
                assert (read_counts.rows, read_counts.decoded, read_counts.failed) == (3, 2, 1), name
            (dead_letter,) = letters
            kept = (dead_letter.position, dead_letter.code, dead_letter.key, dead_letter.raw, bool(dead_letter.message))
            assert kept == (f"{topic}/0/1", "SQ3101", *sent[1], True), name
            right = RowError(f"{topic}/0/1", "SQ3101", "", sent[0][1] or b"", sent[0][0])
            still, found = reader.retry_dead_letters([dead_letter, right])
            assert (len(still.failures), len(found.failures), found.batch.num_rows) == (1, 0, 1), name


def _replay(pipeline: Pipeline, relation: str) -> None:
    """Replay the dead letters of a relation's sink that decode now, as a running sink does on request."""
    (job,) = (each for each in pipeline.session.jobs() if each.sink.endswith(f".{relation}_sink"))
    result = pipeline.session.execute(f"REPLAY ERRORS FROM {job.reads()[0].name.rpartition('.')[2]}")
    assert [each.code for each in result[0].notices] == ["SQ2355"]
    run_replay_request(pipeline.drain(relation), pipeline.session.context(job).notes, threading.Lock(), lambda: False)


@pytest.mark.share(2)
@pytest.mark.parametrize("upsert", [True, False])
def test_messages_whose_schema_comes_later_are_replayed(broker: Kafka, pipeline: Pipeline, upsert: bool) -> None:
    """A replayed message keeps its time and key, and does not overwrite a later row of its key."""
    topic = broker.topic(retention_ms="-1")  # the messages have old timestamps
    with stub_registry() as stub:
        row = {"type": "record", "name": "row", "fields": [{"name": "v", "type": "long"}]}
        first = stub.register(f"{topic}-value", row)
        pipeline.run(f"CREATE CONNECTION registry TO CONFLUENT SCHEMA REGISTRY (URL '{stub.url}');")
        pipeline.source(
            "s",
            "",
            topic,
            "KEY FORMAT TEXT VALUE FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION registry "
            f"INCLUDE KEY AS k, TIMESTAMP AS sent {'ENVELOPE UPSERT ' if upsert else ''}WITH (ON ERROR = DEAD LETTER)",
        )
        pipeline.sink("s", "KEY (k) MODE UPSERT" if upsert else "ENVELOPE NONE")
        later = first + 1
        for place, (schema, key) in enumerate([(first, "a"), (later, "b"), (first, "b"), (later, "c"), (99, "d")]):
            broker.send(topic, b"\0" + schema.to_bytes(4, "big") + _long(place), key=key, timestamp=1000 * (place + 1))
        pipeline.drain("s")
        seen = "k, v, epoch(sent)::integer"
        before = [("a", 0, 1), ("b", 2, 3)]
        assert pipeline.rows("s", seen) == before
        _replay(pipeline, "s")
        assert (pipeline.rows("s", seen), len(pipeline.rows("s__errors", "raw"))) == (before, 3)
        assert stub.register(f"{topic}-value", {**row, "doc": "later"}) == later
        for _ in range(2):
            _replay(pipeline, "s")
            late = [("c", 3, 4)] if upsert else [("b", 1, 2), ("c", 3, 4)]
            assert pipeline.rows("s", seen) == sorted([*before, *late])
            assert [row[0] for row in pipeline.rows("s__errors", "decode(key)")] == ["d"]


def _long(number: int) -> bytes:
    return bytes([number * 2]) if number < 64 else bytes([number * 2 & 127 | 128, number * 2 >> 7])


def test_a_sink_that_stopped_continues_once_its_source_leaves_such_records_out(
    broker: Kafka, pipeline: Pipeline
) -> None:
    topic = broker.topic()
    broker.send(topic, '{"id": 1}', "{")
    pipeline.source("s", "(id bigint)", topic, "FORMAT JSON")
    pipeline.sink("s")
    with pytest.raises(SinkqlError, match="invalid row") as raised:
        pipeline.drain("s")
    assert "ALTER SOURCE" in (raised.value.hint or "")
    pipeline.run("ALTER SOURCE s SET (ON ERROR = DEAD LETTER);")
    pipeline.drain("s")
    broker.send(topic, "[", '{"id": 2}')
    pipeline.run("ALTER SOURCE s RESET (ON ERROR);")
    with pytest.raises(SinkqlError, match="invalid row"):
        pipeline.drain("s")
    pipeline.run("ALTER SOURCE s SET (ON ERROR = SKIP);")
    pipeline.drain("s")
    assert (pipeline.rows("s"), pipeline.rows("s__errors", "raw")) == ([(1,), (2,)], [(b"{",)])
