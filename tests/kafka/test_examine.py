"""`sinkql doctor` with a real broker: the checks of a topic that a source reads or a sink writes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from sinkql.cli.main import run_command
from sinkql.session import Session
from sinkql.session.server_check import checks_of_catalog
from support.kafka import PASSWORD, USER, Kafka
from support.patience import PATIENCE_S

pytestmark = pytest.mark.server

Doctor = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture
def doctor(
    broker: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Doctor:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)

    def run(topic: str, envelope: str = "NONE", options: str = "", address: str = broker.address) -> Any:
        """Return the checks of connection `k` and of a source of a topic, by name; verify the exit code."""
        options = options or f"BROKER '{address}', SECURITY PROTOCOL 'PLAINTEXT'"
        Path("script.sql").write_text(
            f"CREATE SECRET p AS env_var('KAFKA_PASSWORD'); CREATE CONNECTION k TO KAFKA ({options});"
            f"CREATE SOURCE s FROM KAFKA CONNECTION k (TOPIC '{topic}') KEY FORMAT TEXT VALUE FORMAT TEXT "
            f"ENVELOPE {envelope};"
        )
        capsys.readouterr()
        code = run_command(["doctor", "-f", "script.sql", "--output", "json"])
        printed = capsys.readouterr()
        found = [json.loads(line) for line in printed.out.splitlines()]
        assert code == (4 if any(each["state"] == "wrong" for each in found) else 0), printed.err
        return {each["name"].removeprefix("k: "): each for each in found}

    return run


def _not_ok(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: check["state"] for name, check in found.items() if check["state"] != "ok"}


def test_a_topic_that_can_be_read_is_fine(doctor: Doctor, broker: Kafka) -> None:
    topic = broker.topic(2)
    broker.send(topic, "a")
    found = doctor(topic)
    assert _not_ok(found) == {}
    assert found[f"topic {topic}"]["found"] == "2 partitions, which the user may read"
    assert f"broker {broker.address}" in found
    assert _not_ok(doctor("none")) == {"topic none": "wrong"}


def test_what_a_topic_keeps_must_fit_its_envelope(doctor: Doctor, broker: Kafka) -> None:
    short, compacted = broker.topic(retention_ms="3600000"), broker.topic(cleanup_policy="compact")
    found = doctor(short)[f"retention of topic {short}"]
    assert (found["state"], "retention.ms=604800000" in found["fix"]) == ("warning", True)
    found = doctor(compacted)[f"retention of topic {compacted}"]
    assert (found["state"], "ENVELOPE UPSERT" in found["fix"]) == ("warning", True)
    assert _not_ok(doctor(compacted, "UPSERT")) == {}
    plain = broker.topic()
    assert "cleanup.policy=compact" in doctor(plain, "UPSERT")[f"retention of topic {plain}"]["fix"]


def test_a_transaction_that_stays_open_is_told(doctor: Doctor, broker: Kafka) -> None:
    topic = broker.topic()
    broker.send(topic, "a")
    producer = broker.producer(transactional_id=f"{topic}-open")
    for age_s, expected in ((0, {}), (7200, {f"partition {topic}/0": "warning"})):
        producer.begin_transaction()
        producer.produce(topic, "b", partition=0, timestamp=int((time.time() - age_s) * 1000))
        assert producer.flush(PATIENCE_S) == 0
        assert _not_ok(doctor(topic)) == expected
        producer.abort_transaction()
        broker.settle(topic)
    assert _not_ok(doctor(topic)) == {}


def test_a_clock_that_is_ahead_is_told(doctor: Doctor, broker: Kafka) -> None:
    topic = broker.topic()
    broker.send(topic, "a", timestamp=int((time.time() + 600) * 1000))
    assert _not_ok(doctor(topic)) == {f"clock of topic {topic}": "warning"}


def test_a_user_is_told_what_it_may_not(doctor: Doctor, broker: Kafka) -> None:
    topic = broker.topic()
    acl = AclBinding(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{USER}", "*", AclOperation.DESCRIBE,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    broker.admin.create_acls([acl])[acl].result()
    sasl = f"SASL MECHANISMS 'PLAIN', SASL USERNAME '{USER}', SASL PASSWORD SECRET p"
    found = doctor(topic, options=f"BROKER '{broker.sasl_address}', SECURITY PROTOCOL 'SASL_PLAINTEXT', {sasl}")
    assert _not_ok(found) == {f"topic {topic}": "wrong"}
    assert "--operation READ" in found[f"topic {topic}"]["fix"]


def test_a_broker_that_is_not_where_it_says_is_told(
    doctor: Doctor, broker: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sinkql.connectors.kafka.admin import Admin

    monkeypatch.setattr(Admin, "brokers", lambda self: [("127.0.0.1", 1)])
    found = doctor(broker.topic())["broker 127.0.0.1:1"]
    assert (found["state"], "advertised.listeners" in found["fix"]) == ("wrong", True)


def test_an_address_is_enough(broker: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    topic = broker.topic(retention_ms="3600000")
    broker.send(topic, '{"a": 1}')
    run_command(["doctor", "--from", f"kafka://{broker.address}", "--output", "json"])
    found = {each["name"]: each["state"] for each in map(json.loads, capsys.readouterr().out.splitlines())}
    assert found[f"kafka: broker {broker.address}"] == "ok"
    assert found[f"kafka: topic {topic}"] == "ok"
    assert found[f"kafka: retention of topic {topic}"] == "warning"
    assert run_command(["doctor", "--from", "kafka://127.0.0.1:1"]) == 4


def test_a_sink_is_told_of_messages_that_go_before_it_reads_them(broker: Kafka, tmp_path: Path) -> None:
    hour_s = 3600
    topic = broker.topic(retention_ms=str(10 * hour_s * 1000))
    for each in ("a", "b"):
        broker.send(topic, each, timestamp=int((time.time() - 8 * hour_s) * 1000))
    with Session(tmp_path / "catalog.db") as session:
        session.execute(
            f"CREATE CONNECTION k TO KAFKA (BROKER '{broker.address}', SECURITY PROTOCOL 'PLAINTEXT');"
            "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', "
            f"URL = 'sqlite:///{tmp_path}/lake.db', WAREHOUSE = '{tmp_path}/lake');"
            f"CREATE SOURCE s FROM KAFKA CONNECTION k (TOPIC '{topic}') FORMAT TEXT;"
            "CREATE SINK a FROM s INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE 'n', TABLE 'a') MODE APPEND "
            "WITH (COMMIT INTERVAL '1s');"
        )
        (job,) = session.jobs()
        (read,) = job.reads()

        def found(offset: int) -> list[tuple[str, str]]:
            """Return the state and the fix of the sink's check after a commit up to `offset`."""
            offsets = {read.source: {"partitions": {"0": offset}}}
            session.catalog.control.committed(job.sink_id, rows=0, size=0, offsets=offsets, epoch=1)
            checks = list(checks_of_catalog(session.catalog))
            return [(each.state, each.fix or "") for each in checks if each.name == f"k: sink a in topic {topic}"]

        assert found(2) == []
        assert found(1) == [("warning", "Run the sink before Kafka deletes them, or increase retention.ms.")]
        partition = TopicPartition(topic, 0, 2)
        broker.admin.delete_records([partition])[partition].result()
        assert found(2) == []
        (lost,) = found(1)
    assert (lost[0], "ALTER SOURCE s SKIP" in lost[1]) == ("wrong", True)


def test_a_user_is_told_where_sinks_may_not_write(
    broker: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    topic, progress = broker.topic(), broker.topic()
    rights = {topic: (AclOperation.DESCRIBE,), progress: (AclOperation.DESCRIBE, AclOperation.WRITE)}
    for name, operations in rights.items():
        for each in operations:
            acl = AclBinding(
                ResourceType.TOPIC, name, ResourcePatternType.LITERAL, f"User:{USER}", "*", each,
                AclPermissionType.ALLOW,
            )  # fmt: skip
            broker.admin.create_acls([acl])[acl].result()
    with Session(tmp_path / "catalog.db") as session:
        session.execute(
            "CREATE SECRET p AS env_var('KAFKA_PASSWORD'); "
            f"CREATE CONNECTION k TO KAFKA (BROKER '{broker.sasl_address}', SECURITY PROTOCOL 'SASL_PLAINTEXT', "
            f"SASL MECHANISMS 'PLAIN', SASL USERNAME '{USER}', "
            f"SASL PASSWORD SECRET p, PROGRESS TOPIC '{progress}'); CREATE TABLE t (a bigint PRIMARY KEY);"
            f"CREATE SINK s FROM t INTO KAFKA CONNECTION k (TOPIC '{topic}') KEY (a) FORMAT JSON ENVELOPE UPSERT;"
        )
        found = {each.name: each for each in checks_of_catalog(session.catalog)}
    denied = found[f"k: topic {topic}, which sinks write"]
    assert (denied.state, "--operation WRITE" in (denied.fix or "")) == ("wrong", True)
    assert found[f"k: topic {progress}, which sinks write"].state == "ok"
