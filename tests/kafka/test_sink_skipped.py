"""A sink into a topic whose captured source lost changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from capture.pipeline import Running, Sinks, drain, registry
from capture.server import Server
from kafka.pipeline import Pipeline
from kafka.sinking import committed, folded, topic_sink
from sinkql import physical
from sinkql.capture import messages
from sinkql.capture.runner import discard
from sinkql.connector_api.cdc import LogRetention
from sinkql.errors import SinkqlError
from sinkql.runtime.batch.loop import BatchLoop
from support.kafka import Kafka
from support.running import loop_of

pytestmark = pytest.mark.server


def _loop(pipeline: Pipeline, sinks: Sinks) -> BatchLoop:
    """Return the loop of the sink of `people`, with the captured table as its input."""
    made = pipeline.job("people")
    read = sinks.job("a").write.input
    body = physical.Normalize(read, "latest", ("id",))
    write = msgspec.structs.replace(made.write, input=body, change="retract")
    job = msgspec.structs.replace(made, write=write, sink_id="id-a")
    folder = sinks.folder / "sinks" / job.sink_id
    folder.mkdir(parents=True, exist_ok=True)
    context = replace(pipeline.session.context(made), folder=folder, sink_id="id-a")
    return loop_of(job, context, registry())


def test_sink_into_a_topic_continues_after_changes_that_were_lost(
    broker: Kafka, pipeline: Pipeline, tmp_path: Path
) -> None:
    pipeline.run("CREATE TABLE people (id bigint PRIMARY KEY, v text);")
    topic_sink(pipeline, "people", "skipping", "KEY (id) FORMAT JSON ENVELOPE UPSERT")
    server = Server.make(tmp_path / "server.db")
    server.commit([("t", 1, "ann"), ("t", 2, "bob")])
    sinks = Sinks(tmp_path, keeping=LogRetention(keep="log"))
    with Running(sinks):
        drain(_loop(pipeline, sinks))
    server.commit([("t", 1, "lost")])
    with Running(sinks) as running:
        running.until(lambda: server.confirmed() == server.end())
    discard(sinks.directory)
    with Running(sinks) as running:
        with pytest.raises(SinkqlError) as failed:
            drain(_loop(pipeline, sinks))
        assert failed.value.code == "SQ3436"
        messages.send(sinks.directory.messages, "skip", messages.LossAcceptance(failed.value.code))
        running.until(lambda: messages.latest_epoch(sinks.directory.messages).begin)
        server.commit([("t", 2, "ben")])
        drain(_loop(pipeline, sinks))
    assert sorted(each["v"] for each in folded(committed(broker, "skipping")).values()) == ["ann", "ben"]
