"""Topics of Avro, Protobuf and Debezium, from a real broker and a stub registry, as tables that DuckDB reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import date
from io import BytesIO
from typing import Any

import fastavro
import pytest
from google.protobuf.message_factory import GetMessageClass

from kafka.pipeline import Pipeline
from sinkql.connectors.confluent.protobuf_schema import Types, compile_schema
from sinkql.decode import text_column
from sinkql.errors import SinkqlError
from support.registry import StubRegistry, stub_registry

pytestmark = pytest.mark.server

_AVRO = "FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION registry"
_ROW = {
    "type": "record", "name": "Value", "fields": [
        {"name": "id", "type": "long"},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "name", "type": ["null", "string"], "default": None},
    ],
}  # fmt: skip
_DATE = {"type": "int", "connect.version": 1, "connect.name": "io.debezium.time.Date"}
_DATED = {**_ROW, "fields": [*_ROW["fields"], {"name": "days", "type": {"type": "array", "items": ["null", _DATE]}}]}
_KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
_ENVELOPE = {
    "type": "record", "name": "Envelope", "fields": [
        {"name": "before", "type": ["null", _DATED]}, {"name": "after", "type": ["null", "Value"]},
        {"name": "op", "type": "string"},
    ],
}  # fmt: skip


@pytest.fixture
def registry(pipeline: Pipeline) -> Iterator[StubRegistry]:
    """Yield a stub registry with a password, which the catalog's connection `registry` uses."""
    with stub_registry() as stub:
        stub.login = "me", "opensesame"
        pipeline.run(
            f"CREATE SECRET p AS 'opensesame'; CREATE CONNECTION registry TO CONFLUENT SCHEMA REGISTRY "
            f"(URL '{stub.url}', USER 'me', PASSWORD SECRET p);"
        )
        yield stub


def send(pipeline: Pipeline, topic: str, messages: Sequence[tuple[bytes | None, bytes | None]]) -> None:
    """Append messages, each as key and value."""
    for key, value in messages:
        pipeline.broker.send(topic, value, key=key)


def avro(stub: StubRegistry, subject: str, schema: Any, value: Any) -> bytes:
    """Register a schema, and return a message written with it."""
    id_ = stub.register(subject, schema)
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return b"\0" + id_.to_bytes(4, "big") + stream.getvalue()


def test_rows_of_avro_follow_the_schema_that_each_was_written_with(pipeline: Pipeline, registry: StubRegistry) -> None:
    topic = pipeline.broker.topic()
    subject = f"{topic}-value"
    first = {"id": 1, "day": date(2026, 1, 2), "tags": ["a", "b"], "name": "x"}
    send(pipeline, topic, [(None, avro(registry, subject, _ROW, first))])
    pipeline.source("avro", "", topic, _AVRO)
    pipeline.sink("avro")
    older = {**_ROW, "fields": [_ROW["fields"][2], {"name": "id", "type": "int"}, _ROW["fields"][1]]}
    newer = {**_ROW, "fields": [*_ROW["fields"], {"name": "more", "type": {"type": "map", "values": "double"}}]}
    second: dict[str, Any] = {"id": 2, "day": None, "tags": []}
    third = {"id": 3, "day": date(1, 1, 1), "tags": ["c"], "name": None, "more": {"k": 1.5}}
    sent = [avro(registry, subject, older, second), avro(registry, subject, newer, third)]
    send(pipeline, topic, [(None, each) for each in sent])
    pipeline.drain("avro")
    assert pipeline.rows("avro", "id, day, tags, name") == [
        (1, date(2026, 1, 2), ["a", "b"], "x"), (2, None, [], None), (3, date(1, 1, 1), ["c"], None),
    ]  # fmt: skip


def test_changes_of_debezium_in_avro_are_an_upsert_table(pipeline: Pipeline, registry: StubRegistry) -> None:
    topic = pipeline.broker.topic()

    def changed(id_: int, op: str, name: str | None) -> tuple[bytes, bytes]:
        row: dict[str, Any] = {"id": id_, "day": None, "tags": [str(name), "x"], "name": name, "days": [id_, None]}
        after, before = (None, row) if op == "d" else (row, None)
        value = avro(registry, f"{topic}-value", _ENVELOPE, {"before": before, "after": after, "op": op})
        return avro(registry, f"{topic}-key", _KEY, {"id": id_}), value

    sent: list[Any] = [changed(1, "r", "a"), changed(2, "c", "b"), changed(1, "u", "A"), changed(2, "d", None)]
    send(pipeline, topic, [*sent, (sent[3][0], None)])
    pipeline.source("orders", "", topic, f"{_AVRO} ENVELOPE DEBEZIUM")
    pipeline.sink("orders", "KEY (id) MODE UPSERT")
    pipeline.drain("orders")
    assert pipeline.rows("orders", "id, name, tags, days") == [(1, "A", ["A", "x"], [date(1970, 1, 2), None])]
    send(pipeline, topic, [changed(1, "d", None), changed(2, "c", "again")])
    pipeline.drain("orders")
    assert pipeline.rows("orders", "id, name") == [(2, "again")]


@pytest.mark.parametrize("schema", [False, True], ids=["plain", "with schemas"])
def test_changes_of_debezium_in_json_are_an_upsert_table(pipeline: Pipeline, schema: bool) -> None:
    topic = pipeline.broker.topic()
    fields: list[Any] = [
        {"field": "id", "type": "int64"},
        {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
    ]
    fields.append({"field": "days", "type": "array", "items": fields[1]})
    described = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}

    def changed(id_: int, op: str, day: int | None = None) -> tuple[bytes, bytes]:
        row = {"id": id_, "day": day, "days": [day, 0], "tags": ["a", None]}
        payload = {"before": row if op == "d" else None, "after": None if op == "d" else row, "op": op}
        return b"", json.dumps({"schema": described, "payload": payload} if schema else payload).encode()

    send(pipeline, topic, [changed(1, "c", 0), changed(2, "c", 1), changed(1, "u", 2), changed(2, "d")])
    columns = "(id bigint, day date, days date list, tags text[], PRIMARY KEY (id) NOT ENFORCED)"
    pipeline.source("orders", columns, topic, "FORMAT JSON ENVELOPE DEBEZIUM")
    pipeline.sink("orders", "KEY (id) MODE UPSERT")
    pipeline.drain("orders")
    assert pipeline.rows("orders", "id, day, days, tags") == [
        (1, date(1970, 1, 3), [date(1970, 1, 3), date(1970, 1, 1)], {"items": ["a", None], "dimensions": 1}),
    ]  # fmt: skip


def test_a_message_that_becomes_far_too_wide_fails_alone(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each element of a `jsonb list` is a separate document."""
    monkeypatch.setattr(text_column, "_WIDEST", 1 << 12)
    topic = pipeline.broker.topic()
    wide = json.dumps([json.dumps("a" * 2048)] * 2)
    good = '{"op": "c", "after": {"id": %d, "v": [1]}}'
    messages = [good % 1, f'{{"op": "c", "after": {{"id": 2, "v": {wide}}}}}', good % 3]
    send(pipeline, topic, [(b"", each.encode()) for each in messages])
    columns = "(id bigint, v jsonb list, PRIMARY KEY (id) NOT ENFORCED)"
    pipeline.source("s", columns, topic, "FORMAT JSON ENVELOPE DEBEZIUM WITH (ON ERROR = DEAD LETTER)")
    pipeline.sink("s", "KEY (id) MODE UPSERT")
    pipeline.drain("s")
    assert pipeline.rows("s", "id, v") == [(1, ["1"]), (3, ["1"])]
    assert pipeline.rows("s__errors", "position, message") == [(f"{topic}/0/1", "its values take too much memory")]


def test_keys_of_json_may_have_their_schema_beside_them(pipeline: Pipeline) -> None:
    topics = pipeline.broker.topic(), pipeline.broker.topic()

    def key(id_: int) -> bytes:
        schema = {"type": "struct", "fields": [{"type": "int64", "optional": False, "field": "id"}]}
        return json.dumps({"schema": schema, "payload": {"id": id_}}).encode()

    def changed(id_: int, op: str, name: str | None = None) -> tuple[bytes, bytes]:
        after = None if op == "d" else {"id": id_, "name": name}
        return key(id_), json.dumps({"before": None, "after": after, "op": op}).encode()

    send(pipeline, topics[0], [changed(1, "c", "a"), changed(2, "c", "b"), changed(1, "d"), changed(2, "u", "c")])
    send(pipeline, topics[1], [(key(1), b'{"name": "a"}'), (b'{"id": 2}', b'{"name": "b"}'), (key(1), None)])
    columns = "(id bigint, name text, PRIMARY KEY (id) NOT ENFORCED)"
    for topic, envelope in zip(topics, ("DEBEZIUM", "UPSERT"), strict=True):
        name = envelope.lower()
        pipeline.source(name, columns, topic, f"KEY FORMAT JSON VALUE FORMAT JSON ENVELOPE {envelope}")
        pipeline.sink(name, "KEY (id) MODE UPSERT")
        pipeline.drain(name)
    assert pipeline.rows("debezium", "id, name") == [(2, "c")]
    assert pipeline.rows("upsert", "id, name") == [(2, "b")]


def test_rows_of_protobuf_are_columns(pipeline: Pipeline, registry: StubRegistry) -> None:
    topic = pipeline.broker.topic()
    text = 'syntax = "proto3"; message A { int64 id = 1; optional string name = 2; }'
    id_ = registry.register(f"{topic}-value", text, "PROTOBUF")
    made = GetMessageClass(Types(compile_schema(text, {})).find("A"))
    head = b"\0" + id_.to_bytes(4, "big") + b"\0"
    sent = [head + made(id=1, name="a").SerializeToString(), head + made(id=2).SerializeToString()]
    send(pipeline, topic, [(None, each) for each in sent])
    pipeline.source("proto", "", topic, _AVRO.replace("AVRO", "PROTOBUF"))
    pipeline.sink("proto")
    pipeline.drain("proto")
    assert pipeline.rows("proto", "id, name") == [(1, "a"), (2, None)]


def test_a_bad_message_is_told_by_its_offset(pipeline: Pipeline, registry: StubRegistry) -> None:
    topic = pipeline.broker.topic()
    good = avro(registry, f"{topic}-value", _KEY, {"id": 1})
    send(pipeline, topic, [(None, good), (None, good + b"\0"), (None, good)])
    pipeline.source("strict", "", topic, _AVRO)
    pipeline.sink("strict")
    with pytest.raises(SinkqlError, match=f"{topic}/0/1: it continues after its last value") as caught:
        pipeline.drain("strict")
    assert caught.value.code == "SQ3101"
    pipeline.source("lax", "", topic, f"{_AVRO} WITH (ON ERROR = SKIP)")
    pipeline.sink("lax")
    pipeline.drain("lax")
    assert pipeline.rows("lax", "id") == [(1,), (1,)]


def test_what_the_registry_does_not_have_is_told(pipeline: Pipeline, registry: StubRegistry) -> None:
    topic = pipeline.broker.topic()
    registry.register("elsewhere", '"string"')
    registry.register("elsewhere", "message A {}", "PROTOBUF")
    registry.register(f"{topic}-value", json.dumps({"type": "record", "name": "r", "fields": []}))

    def refusal(clauses: str) -> tuple[str, str]:
        with pytest.raises(SinkqlError) as caught:
            pipeline.source("s", "", topic, clauses)
        return caught.value.code, caught.value.message

    assert refusal(_AVRO) == (
        "SQ2485", "the schema of the topic's values is invalid: its record has no fields",
    )  # fmt: skip
    assert refusal(f"{_AVRO} VALUE STRATEGY ID 9") == (
        "SQ2482", 'the schema registry of connection "materialize.public.registry" has no schema 9',
    )  # fmt: skip
    assert refusal(f"{_AVRO} VALUE STRATEGY ID 2")[0] == "SQ2483"
    assert refusal(f"{_AVRO} VALUE STRATEGY ID 1 INCLUDE KEY") == (
        "SQ2482", f'the schema registry of connection "materialize.public.registry" has no subject "{topic}-key"',
    )  # fmt: skip
    registry.statuses = [503]
    assert refusal(f"{_AVRO} VALUE STRATEGY ID 1")[0] == "SQ4265"
