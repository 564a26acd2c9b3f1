"""Brokers and topics that sources read → what may keep them from running, now or later, and what to do."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from sinkql import logical
from sinkql.connector_api.health_check import CheckContext, HealthCheck, SourceUnderCheck
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connectors.kafka.admin import Admin, Topic, admin_of, gone
from sinkql.connectors.kafka.client import Client
from sinkql.connectors.kafka.consumer import written_at
from sinkql.errors import SinkqlError

_DAY_MS = 86_400_000
_OPEN_S = 60.0
_AHEAD_S = 60.0


def examine(connection: logical.Connection, examined: CheckContext, access: OutsideAccess) -> Iterator[HealthCheck]:
    """Yield what is found; raises SQ427x where no broker lets the user in."""
    client = Client.planned(connection, access)
    admin = admin_of(client)
    for host, port in admin.brokers():
        yield _reached(client, host, port)
    for reading in examined.readings:
        name = reading.text("TOPIC")
        if name is not None:
            yield from _topic(client, admin, name, reading)
    written = {name for sink in examined.sinks for name in (sink.options["topic"], sink.options["progress_topic"])}
    for name in sorted(written):
        yield _written(admin, name)


def _reached(client: Client, host: str, port: int) -> HealthCheck:
    """Try the address that a broker gives to its clients, which may be another than that of the connection."""
    name = f"broker {host}:{port}"
    try:
        client.reach(host, port)
    except (OSError, SinkqlError) as error:
        return HealthCheck(
            name,
            "wrong",
            f"the brokers say that it is there, and it cannot be reached from this machine: {error}",
            "Correct advertised.listeners of the broker, or open the port in the firewall between.",
        )
    return HealthCheck(name, "ok", "it can be reached")


def _topic(client: Client, admin: Admin, name: str, reading: SourceUnderCheck) -> Iterator[HealthCheck]:
    called = f"topic {name}"
    try:
        topic = admin.topic(name)
        if topic is None:
            raise gone(client, name)
        operations = admin.operations(name)
    except SinkqlError as error:
        yield HealthCheck(called, "wrong", error.message, error.hint)
        return
    if operations and not operations & {"READ", "ALL"}:
        command = "kafka-acls --add --allow-principal User:NAME --operation READ --operation DESCRIBE"
        found = "the user may describe it, and not read it"
        yield HealthCheck(called, "wrong", found, f"Run {command} --topic '{name}' --bootstrap-server HOST:PORT.")
        return
    partitions = "1 partition" if len(topic.partitions) == 1 else f"{len(topic.partitions)} partitions"
    yield HealthCheck(called, "ok", f"{partitions}, which the user may read")
    config = admin.config(name)
    yield _retention(name, config, keyed=reading.statement.envelope in ("UPSERT", "DEBEZIUM"))
    for sink, offsets in reading.positions.items():
        check = _position(client, admin, topic, config, reading.name, sink, offsets)
        if check is not None:
            yield check
    yield from _open_transactions(client, admin, topic)
    yield from _clock(admin, topic)


def _written(admin: Admin, name: str) -> HealthCheck:
    """Tell whether sinks may write to a topic; one that is not there they make."""
    called = f"topic {name}, which sinks write"
    try:
        if admin.topic(name) is None:
            return HealthCheck(called, "ok", "it is not there yet: the first sink that runs makes it")
        operations = admin.operations(name)
    except SinkqlError as error:
        return HealthCheck(called, "wrong", error.message, error.hint)
    if operations and not operations & {"WRITE", "ALL"}:
        command = "kafka-acls --add --allow-principal User:NAME --operation WRITE --operation DESCRIBE"
        fix = f"Run {command} --topic '{name}' --bootstrap-server HOST:PORT."
        return HealthCheck(called, "wrong", "the user may describe it, and not write to it", fix)
    return HealthCheck(called, "ok", "the user may write to it")


def _retention(topic: str, config: Mapping[str, str], *, keyed: bool) -> HealthCheck:
    name = f"retention of topic {topic}"
    policy = config.get("cleanup.policy", "")
    if not policy:
        return HealthCheck(name, "ok", "not known: the user may not see the topic's settings")
    kept_ms = int(config.get("retention.ms", "-1"))
    kept = "for ever" if kept_ms < 0 else f"for {kept_ms / _DAY_MS:.1f} days"
    change = f"kafka-configs --alter --topic '{topic}' --bootstrap-server HOST:PORT --add-config"
    if "delete" in policy and 0 <= kept_ms < _DAY_MS:
        found = f"messages are kept {kept}: a source that is not read for so long loses some"
        return HealthCheck(name, "warning", found, f"Run {change} retention.ms={7 * _DAY_MS}.")
    if "compact" in policy and not keyed:
        found = "Kafka drops messages that a later one of the same key follows: a sink that is behind misses them"
        fix = f"Read the topic with ENVELOPE UPSERT, or run {change} cleanup.policy=delete."
        return HealthCheck(name, "warning", found, fix)
    if "delete" in policy and keyed and kept_ms >= 0:
        found = f"messages are kept {kept}: a sink that begins later misses rows that did not change since"
        return HealthCheck(name, "warning", found, f"Run {change} cleanup.policy=compact.")
    return HealthCheck(
        name, "ok", f"messages are kept {kept}" if "delete" in policy else "the last message of each key stays"
    )


def _position(
    client: Client,
    admin: Admin,
    topic: Topic,
    config: Mapping[str, str],
    source: str,
    sink: str,
    offsets: Mapping[str, Any],
) -> HealthCheck | None:
    """Return whether the messages that a sink reads next are there, and for how long; None for one that has all."""
    name = f"sink {sink} in topic {topic.name}"
    at = {int(partition): offset for partition, offset in offsets.get("partitions", {}).items()}
    begins, ends = admin.beginnings(topic.name, topic.partitions), admin.ends(topic.name, topic.partitions)
    lost = [each for each in topic.partitions if at.get(each, 0) < begins[each] and begins[each] > 0]
    if lost and "delete" in config.get("cleanup.policy", "delete"):
        missing = sum(begins[each] - at.get(each, 0) for each in lost)
        found = f"{missing:,} offsets that follow those in its table are gone"
        return HealthCheck(
            name, "wrong", found, f"Run ALTER SOURCE {source} SKIP, which has it go on with what is left."
        )
    behind = [each for each in topic.partitions if at.get(each, 0) < ends[each]]
    kept_ms = int(config.get("retention.ms", "-1"))
    if not behind or kept_ms < 0:
        return None
    times = [written_at(client, topic.name, each, max(at.get(each, 0), begins[each])) for each in behind]
    oldest = min((each for each in times if each is not None), default=None)
    if oldest is None or (time.time() - oldest) * 1000 < kept_ms / 2:
        return None
    return HealthCheck(
        name,
        "warning",
        f"what it reads next was written {(time.time() - oldest) / 3600:.1f} hours ago, and messages are kept for "
        f"{kept_ms / 3_600_000:.1f}",
        "Run the sink before they go, or keep them for longer.",
    )


def _open_transactions(client: Client, admin: Admin, topic: Topic) -> Iterator[HealthCheck]:
    """Yield the transactions that are open for long: nothing behind their beginning is read."""
    stable, ends = admin.ends(topic.name, topic.partitions), admin.ends(topic.name, topic.partitions, committed=False)
    for partition, offset in stable.items():
        if offset < ends[partition]:
            at = written_at(client, topic.name, partition, offset)
            open_s = time.time() - at if at is not None else 0.0
            if open_s > _OPEN_S:
                yield HealthCheck(
                    f"partition {topic.name}/{partition}",
                    "warning",
                    f"a transaction is open for {open_s / 60:.0f} minutes: nothing from offset {offset} on is read",
                    f"Find its producer with kafka-transactions --bootstrap-server HOST:PORT find-hanging --topic "
                    f"'{topic.name}', and end it.",
                )


def _clock(admin: Admin, topic: Topic) -> Iterator[HealthCheck]:
    ahead_s = max((at / 1000 for at in admin.newest(topic.name, topic.partitions).values()), default=0) - time.time()
    if ahead_s > _AHEAD_S:
        yield HealthCheck(
            f"clock of topic {topic.name}",
            "warning",
            f"its newest message is {ahead_s:.0f} seconds in the future, so the lag of its sinks is not right",
            "Set the clocks of the producers, the brokers and this machine by a time server.",
        )
