"""The topic that a sink writes to: made where it is not there, and never another one of the same name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sinkql.connectors.kafka.admin import Admin, Topic
from sinkql.errors import SinkqlError

PROGRESS_CONFIG = {"cleanup.policy": "compact", "segment.bytes": str(64 << 20), "min.cleanable.dirty.ratio": "0.1"}
"""The newest progress of each sink is kept, and little of what was before."""


def ensure_topic(admin: Admin, options: Mapping[str, Any]) -> Topic:
    """Return the topic of a sink's planned options, made if it is not there; raises SQ4284."""
    name = options["topic"]
    found = admin.topic(name)
    if found is not None:
        return found
    return admin.create(name, options.get("partitions", -1), options.get("replication", -1), options.get("config", {}))


def ensure_progress_topic(admin: Admin, options: Mapping[str, Any]) -> Topic:
    """Return the topic of progress, made if it is not there."""
    name = options["progress_topic"]
    found = admin.topic(name)
    if found is not None:
        return found
    return admin.create(name, 1, options.get("progress_replication", -1), PROGRESS_CONFIG)


def check_kept(admin: Admin, options: Mapping[str, Any]) -> None:
    """Raise SQ4289 where the topic of progress does not keep the newest record of each key."""
    name = options["progress_topic"]
    policy = admin.config(name).get("cleanup.policy", "compact")
    if "delete" in policy:
        raise SinkqlError(
            "SQ4289",
            f'topic "{name}", in which sinks keep how far they are, has cleanup.policy = {policy}',
            detail="Kafka would delete the newest record of a sink that has not written for a while.",
            hint=f"Run kafka-configs.sh --alter --entity-type topics --entity-name {name} --add-config "
            "cleanup.policy=compact, or name another PROGRESS TOPIC in the connection.",
        )


def check_same(admin: Admin, name: str, wanted: str) -> None:
    """Raise SQ4280 where the topic is gone, or is not the one of the id `wanted`."""
    found = admin.topic(name)
    if found is not None and found.id == wanted:
        return
    what = "does not exist any more" if found is None else "was deleted, and made anew"
    raise SinkqlError(
        "SQ4280",
        f'topic "{name}", which the sink has written to, {what}',
        hint="Drop the sink and create it again: it then writes all rows.",
    )
