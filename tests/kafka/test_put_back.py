"""Brokers that lost messages or were restored from a copy are reported until a user accepts the loss."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka.pipeline import Pipeline
from sinkql.errors import SinkqlError
from support.kafka import Kafka, kafka

pytestmark = [pytest.mark.server, pytest.mark.soak]


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipeline]:
    """Return a catalog with a separate broker."""
    monkeypatch.chdir(tmp_path)
    with kafka() as own, Pipeline.at(own, tmp_path) as found:
        yield found


def _put(broker: Kafka, numbers: range) -> None:
    producer = broker.producer()
    for number in numbers:
        producer.produce("t", json.dumps({"id": number}).encode())
    producer.flush(60)


def _told(pipeline: Pipeline) -> str:
    with pytest.raises(SinkqlError) as told:
        pipeline.drain("t")
    (job,) = pipeline.session.jobs()
    error = told.value
    pipeline.session.catalog.control.status(job.sink_id, "stalled", error=f"{error.code}: {error.message}")
    return error.code


@pytest.mark.parametrize("lost", ["cut", "put back"])
def test_messages_in_the_place_of_others_are_told(pipeline: Pipeline, lost: str) -> None:
    broker = pipeline.broker
    broker.topic(1, "t")
    pipeline.source("t", "(id bigint)", "t", "FORMAT JSON")
    pipeline.sink("t")
    _put(broker, range(60))
    pipeline.drain("t")
    copy = Path(broker.folder).with_name(Path(broker.folder).name + "-copy")
    if lost == "put back":
        broker.stop(signal.SIGTERM)
        subprocess.run(["cp", "-a", str(broker.folder), str(copy)], check=True)
        broker.start()
    _put(broker, range(60, 100))
    pipeline.drain("t")
    assert pipeline.rows("t", "id") == [(each,) for each in range(100)]
    broker.stop(signal.SIGKILL)
    if lost == "put back":
        shutil.rmtree(broker.folder)
        copy.rename(broker.folder)
    else:
        (log,) = Path(broker.folder).rglob("t-0/*.log")
        log.write_bytes(log.read_bytes()[: log.stat().st_size * 6 // 10])
        for each in ("*.index", "*.timeindex", "*.snapshot"):
            for path in log.parent.glob(each):
                path.unlink()
    broker.start()
    assert _told(pipeline) == "SQ3372"
    _put(broker, range(1000, 1100))
    assert _told(pipeline) == "SQ3372"
    assert _told(pipeline) == "SQ3372"
    pipeline.run("ALTER SOURCE t SKIP;")
    pipeline.drain("t")
    assert pipeline.rows("t", "id") == [(each,) for each in (*range(100), *range(1000, 1100))]
    _put(broker, range(2000, 2003))
    pipeline.drain("t")
    assert pipeline.rows("t", "id")[-1] == (2002,)
