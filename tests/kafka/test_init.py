"""`sinkql init --from kafka://…` infers sources from the messages of topics, and its script runs."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from sinkql.cli.main import run_command
from sinkql.connector_api.registry import discover
from sinkql.runtime.local.engine import LocalEngine
from sinkql.session import Session
from support.kafka import PASSWORD, USER, Kafka
from support.readers import Rows, duckdb_folder
from support.registry import stub_registry
from support.running import drain, loop_of

pytestmark = pytest.mark.server


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run(address: str, *topics: str) -> str:
    """Write a script for the topics and run all of its sinks once; return the script."""
    assert run_command(["init", "--from", address, "--namespace", "n", *topics]) == 0
    script = Path("pipeline.sql").read_text()
    with Session() as session:
        session.execute(script)
        for job in session.jobs():
            loop = loop_of(job, session.context(job), discover(), engine=LocalEngine(2))
            loop.start(epoch=1, once=True)
            drain(loop)
    return script


def _rows(topic: str, columns: str = "*") -> Rows:
    return duckdb_folder(Path("lake/n") / topic, columns)


def test_topics_are_tables_by_what_is_in_them(broker: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    orders, users, lines, blobs, empty, changes = (
        broker.topic(), broker.topic(cleanup_policy="compact"), broker.topic(), broker.topic(), broker.topic(),
        broker.topic(),
    )  # fmt: skip
    broker.send(orders, '{"id": 1, "at": "2026-03-01T12:00:00", "note": null}', '{"id": 2, "note": "a", "tags": [1]}')
    broker.send(users, '{"name": "Ann"}', key="u1")
    broker.send(users, '{"name": "Anna"}', key="u1")
    broker.send(lines, "a, b")
    broker.send(blobs, b"\xff\x00")
    row = {"id": 7, "born": 0, "name": "x"}
    schema = {"fields": [{"field": "after", "fields": [
        {"field": "id", "type": "int32"}, {"field": "born", "type": "int32", "name": "io.debezium.time.Date"},
    ]}]}  # fmt: skip
    for op, after in (("c", row), ("u", {**row, "name": "y"})):
        message = {"schema": schema, "payload": {"op": op, "before": None, "after": after}}
        broker.send(changes, json.dumps(message), key='{"schema": {}, "payload": {"id": 7}}')
    script = _run(f"kafka://{broker.address}", orders, users, lines, blobs, empty, changes)
    assert f'-- {empty} is left out: topic "{empty}" has no messages yet' in script
    assert sorted(_rows(orders, 'id, "at", note, tags')) == [
        (1, datetime(2026, 3, 1, 12), None, None), (2, None, "a", "[1]"),
    ]  # fmt: skip
    assert _rows(users) == [("u1", "Anna")]
    assert (_rows(lines), _rows(blobs)) == ([("a, b",)], [(b"\xff\x00",)])
    assert [str(value) for value in _rows(changes)[0]] == ["7", "1970-01-01", "y"]


def test_records_of_csv_are_columns_by_what_is_in_them(broker: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    commas, tabs, prose = broker.topic(), broker.topic(), broker.topic()
    broker.send(commas, '1,"a, b",2026-03-01', "2,,2026-03-02")
    broker.send(tabs, "x\t1.5", "y\t2")
    broker.send(prose, "well, no", "yes, well")
    script = _run(f"kafka://{broker.address}", commas, tabs, prose)
    assert "(column1 bigint, column2 text, column3 date)" in script.replace("\n", " ").replace("  ", " ")
    assert sorted(_rows(commas), key=str) == [(1, "a, b", date(2026, 3, 1)), (2, None, date(2026, 3, 2))]
    assert sorted(_rows(tabs)) == [("x", 1.5), ("y", 2.0)]
    assert sorted(_rows(prose)) == [("well, no",), ("yes, well",)]


def test_a_few_messages_that_do_not_decode_do_not_hide_what_the_others_are(
    broker: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = broker.topic()
    broker.send(topic, '{"id": 1}', "{oops", '{"id": 2}')
    script = _run(f"kafka://{broker.address}", topic)
    assert "-- Of the 3 sampled messages, 1 has a different format." in script
    assert sorted(_rows(topic)) == [(1,), (2,)]
    assert _rows(f"{topic}__errors", "decode(raw)") == [("{oops",)]


def test_messages_of_a_registry_are_read_by_their_schemas(broker: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    topic = broker.topic()
    with stub_registry() as schemas:
        schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}
        number = schemas.register(f"{topic}-value", json.dumps(schema))
        broker.send(topic, b"\0" + number.to_bytes(4, "big") + b"\x0e")
        address = f"kafka://{broker.address}"
        assert run_command(["init", "--from", address, "-o", "-", topic]) == 4
        assert "specify it with --registry URL" in capsys.readouterr().err
        given = ["preview", "--from", address, "--registry", schemas.url, topic, "--types", "--output", "json"]
        assert run_command(given) == 0
        printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert printed == [{"column": "id", "type": "bigint"}, {"id": 7}]


def test_a_preview_leaves_no_group(broker: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    topic = broker.topic(3)
    for partition in range(3):
        broker.send(topic, "a", partition=partition)
    assert (
        run_command(["preview", "--from", f"kafka://{broker.address}", topic, "--limit", "2", "--output", "json"]) == 0
    )
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [{"text": "a"}] * 2
    admin = AdminClient({"bootstrap.servers": broker.address})
    assert admin.list_consumer_groups().result().valid == []


def test_a_topic_that_is_none_or_has_nothing_is_told(broker: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    topic = broker.topic()
    for asked, told in ((f"{topic}x", f"hint: Did you mean {topic}"), (topic, f'topic "{topic}" has no messages yet')):
        assert run_command(["preview", "--from", f"kafka://{broker.address}", asked]) == 4
        assert told in capsys.readouterr().err


def test_a_password_comes_from_the_environment(broker: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = broker.topic()
    broker.send(topic, "a")
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    script = _run(f"kafka://{USER}@{broker.sasl_address}", topic)
    assert (PASSWORD in script, "AS env_var('KAFKA_PASSWORD')" in script) == (False, True)
    assert _rows(topic) == [("a",)]
