"""Check the brokers and the topics of sources and sinks for problems, present and future, and suggest fixes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sinkql import logical
from sinkql.connector_api.health_check import CheckContext, HealthCheck, SourceUnderCheck
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connectors.kafka.admin import Admin, Topic, admin_of, missing_topic_error
from sinkql.connectors.kafka.client import Client
from sinkql.connectors.kafka.consumer import written_at
from sinkql.connectors.kafka.options import WriteOptions
from sinkql.errors import SinkqlError
from sinkql.machine import clock

_DAY_MS = 86_400_000
_OPEN_S = 60.0
_AHEAD_S = 60.0


def examine(connection: logical.Connection, examined: CheckContext, access: OutsideAccess) -> Iterator[HealthCheck]:
    """Yield the health checks. Raise SQ427x if no broker accepts the user."""
    client = Client.planned(connection, access)
    admin = admin_of(client)
    for host, port in admin.brokers():
        yield _check_broker(client, host, port)
    for reading in examined.readings:
        name = reading.text("TOPIC")
        if name is not None:
            yield from _check_topic(client, admin, name, reading)
    sinks = [WriteOptions.from_plan(sink.options) for sink in examined.sinks]
    for name in sorted({name for options in sinks for name in (options.topic, options.progress_topic)}):
        yield _check_writable(admin, name)


def _check_broker(client: Client, host: str, port: int) -> HealthCheck:
    """Check the address that a broker advertises, which may differ from that of the connection."""
    name = f"broker {host}:{port}"
    try:
        client.reach(host, port)
    except (OSError, SinkqlError) as error:
        return HealthCheck(
            name,
            "wrong",
            f"the brokers advertise this address, but this machine cannot reach it: {error}",
            "Correct advertised.listeners of the broker, or open the port in the firewall.",
        )
    return HealthCheck(name, "ok", "reachable")


def _check_topic(client: Client, admin: Admin, name: str, reading: SourceUnderCheck) -> Iterator[HealthCheck]:
    title = f"topic {name}"
    try:
        topic = admin.topic(name)
        if topic is None:
            raise missing_topic_error(client, name)
        operations = admin.operations(name)
    except SinkqlError as error:
        yield HealthCheck(title, "wrong", error.message, error.hint)
        return
    if operations and not operations & {"READ", "ALL"}:
        command = "kafka-acls --add --allow-principal User:NAME --operation READ --operation DESCRIBE"
        message = "the user may describe it, but not read it"
        yield HealthCheck(title, "wrong", message, f"Run {command} --topic '{name}' --bootstrap-server HOST:PORT.")
        return
    partitions = "1 partition" if len(topic.partitions) == 1 else f"{len(topic.partitions)} partitions"
    yield HealthCheck(title, "ok", f"{partitions}, which the user may read")
    config = admin.config(name)
    yield _check_retention(name, config, keyed=reading.statement.envelope in ("UPSERT", "DEBEZIUM"))
    for sink, offsets in reading.positions.items():
        check = _check_position(client, admin, topic, config, reading.name, sink, offsets)
        if check is not None:
            yield check
    yield from _check_transactions(client, admin, topic)
    yield from _check_clock(admin, topic)


def _check_writable(admin: Admin, name: str) -> HealthCheck:
    """Check whether sinks may write to a topic; sinks create a topic that does not exist."""
    title = f"topic {name}, which sinks write"
    try:
        if admin.topic(name) is None:
            return HealthCheck(title, "ok", "it does not exist yet: the first sink that runs creates it")
        operations = admin.operations(name)
    except SinkqlError as error:
        return HealthCheck(title, "wrong", error.message, error.hint)
    if operations and not operations & {"WRITE", "ALL"}:
        command = "kafka-acls --add --allow-principal User:NAME --operation WRITE --operation DESCRIBE"
        fix = f"Run {command} --topic '{name}' --bootstrap-server HOST:PORT."
        return HealthCheck(title, "wrong", "the user may describe it, but not write to it", fix)
    return HealthCheck(title, "ok", "the user may write to it")


def _check_retention(topic: str, config: Mapping[str, str], *, keyed: bool) -> HealthCheck:
    name = f"retention of topic {topic}"
    policy = config.get("cleanup.policy", "")
    if not policy:
        return HealthCheck(name, "ok", "unknown: the user may not see the topic's settings")
    retention_ms = int(config.get("retention.ms", "-1"))
    retention = "forever" if retention_ms < 0 else f"for {retention_ms / _DAY_MS:.1f} days"
    change = f"kafka-configs --alter --topic '{topic}' --bootstrap-server HOST:PORT --add-config"
    if "delete" in policy and 0 <= retention_ms < _DAY_MS:
        message = f"Kafka keeps messages {retention}: a sink that is stopped for longer loses some"
        return HealthCheck(name, "warning", message, f"Run {change} retention.ms={7 * _DAY_MS}.")
    if "compact" in policy and not keyed:
        message = "Kafka deletes messages that a later one of the same key replaces: a sink that is behind misses them"
        fix = f"Read the topic with ENVELOPE UPSERT, or run {change} cleanup.policy=delete."
        return HealthCheck(name, "warning", message, fix)
    if "delete" in policy and keyed and retention_ms >= 0:
        message = f"Kafka keeps messages {retention}: a sink that starts later misses rows that did not change since"
        return HealthCheck(name, "warning", message, f"Run {change} cleanup.policy=compact.")
    return HealthCheck(
        name,
        "ok",
        f"Kafka keeps messages {retention}" if "delete" in policy else "Kafka keeps the last message of each key",
    )


def _check_position(
    client: Client,
    admin: Admin,
    topic: Topic,
    config: Mapping[str, str],
    source: str,
    sink: str,
    offsets: Mapping[str, Any],
) -> HealthCheck | None:
    """Check whether the next messages of a sink exist, and for how long; None without a problem."""
    name = f"sink {sink} in topic {topic.name}"
    read = {int(partition): offset for partition, offset in offsets.get("partitions", {}).items()}
    begins, ends = admin.beginnings(topic.name, topic.partitions), admin.ends(topic.name, topic.partitions)
    behind_begin = [
        number for number in topic.partitions if read.get(number, 0) < begins[number] and begins[number] > 0
    ]
    if behind_begin and "delete" in config.get("cleanup.policy", "delete"):
        missing = sum(begins[number] - read.get(number, 0) for number in behind_begin)
        message = f"{missing:,} offsets after its last commit are lost"
        return HealthCheck(
            name, "wrong", message, f"Run ALTER SOURCE {source} SKIP to continue with the remaining messages."
        )
    behind = [number for number in topic.partitions if read.get(number, 0) < ends[number]]
    retention_ms = int(config.get("retention.ms", "-1"))
    if not behind or retention_ms < 0:
        return None
    times = [written_at(client, topic.name, number, max(read.get(number, 0), begins[number])) for number in behind]
    oldest = min((number for number in times if number is not None), default=None)
    if oldest is None or (clock.time() - oldest) * 1000 < retention_ms / 2:
        return None
    return HealthCheck(
        name,
        "warning",
        f"the next message was written {(clock.time() - oldest) / 3600:.1f} hours ago, and Kafka keeps messages for "
        f"{retention_ms / 3_600_000:.1f} hours",
        "Run the sink before Kafka deletes them, or increase retention.ms.",
    )


def _check_transactions(client: Client, admin: Admin, topic: Topic) -> Iterator[HealthCheck]:
    """Yield long-running transactions: sources read nothing after their beginning."""
    stable, ends = admin.ends(topic.name, topic.partitions), admin.ends(topic.name, topic.partitions, committed=False)
    for partition, offset in stable.items():
        if offset < ends[partition]:
            at = written_at(client, topic.name, partition, offset)
            open_s = clock.time() - at if at is not None else 0.0
            if open_s > _OPEN_S:
                yield HealthCheck(
                    f"partition {topic.name}/{partition}",
                    "warning",
                    f"a transaction has been open for {open_s / 60:.0f} minutes: sources stop before offset {offset}",
                    f"Find its producer with kafka-transactions --bootstrap-server HOST:PORT find-hanging --topic "
                    f"'{topic.name}', and abort it.",
                )


def _check_clock(admin: Admin, topic: Topic) -> Iterator[HealthCheck]:
    ahead_s = max((at / 1000 for at in admin.newest(topic.name, topic.partitions).values()), default=0) - clock.time()
    if ahead_s > _AHEAD_S:
        yield HealthCheck(
            f"clock of topic {topic.name}",
            "warning",
            f"its newest message is {ahead_s:.0f} seconds in the future, so the lag of its sinks is wrong",
            "Synchronize the clocks of the producers, the brokers and this machine with a time server.",
        )
