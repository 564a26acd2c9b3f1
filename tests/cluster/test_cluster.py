"""Sinks on a Spark cluster whose machines share nothing but the network and S3."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyspark
import pytest

from cluster.pipeline import Pipeline
from leak.scanner import Canary, Place, canary, hits, pages_of, processes_of, text_of
from support.command import run, start
from support.patience import PATIENCE_S
from support.port import held_ports
from support.seaweed import SECRET, Seaweed
from support.spark_cluster import SparkCluster

pytestmark = [pytest.mark.slow, pytest.mark.server]

_DEPLOY = Path(__file__).parents[2] / "deploy"
_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
_FILES = (40_000,) * 4
_SINK = "materialize.public.s"
_WAITING = "spark.scheduler.maxRegisteredResourcesWaitingTime"
_PAGES = ("jobs", "stages", "environment", "executors")
_PLANTED = ("environ of", "page /environment/", "/events/")
_SEEN = (*_PLANTED, "cmdline of", "page /app/", "/stderr", "catalog.db", "spark.log", "stdout")


def test_files_in_s3_become_a_table_in_s3_and_no_secret_shows(
    server: Seaweed, cluster: SparkCluster, tmp_path: Path
) -> None:
    planted = canary("planted")
    (tmp_path / "events").mkdir()
    with held_ports(1) as (port,):
        conf = {
            "spark.executorEnv.PLANTED": planted.core,
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": f"file://{tmp_path}/events",
            "spark.eventLog.compress": "false",
            "spark.ui.enabled": "true",
            "spark.ui.port": str(port),
        }
        pipeline = Pipeline(server, cluster, tmp_path, "append", conf)
        pipeline.put(*_FILES)
        running = start("exec", "pipeline.sql", folder=tmp_path)
        try:
            running.wait_for_rows({_SINK: pipeline.count})
            places = [*_seen_on(cluster), *processes_of(running.process.pid)]
            places += pages_of(
                f"http://127.0.0.1:{port}", *(f"/{page}/" for page in _PAGES), "/stages/stage/?id=0&attempt=0"
            )
            places += [each for each in _files(tmp_path) if not each[0].endswith("pipeline.sql")]
            assert running.interrupt() == 0
        finally:
            running.kill()
    places += [*_files(tmp_path / "events"), *text_of("stdout", *running.printed, *running.errors)]
    assert pipeline.expected == pipeline.rows()
    assert [path for path in pipeline.written() if "-t" not in path] == []  # by tasks, not by the driver
    assert [each for each in _SEEN if not any(each in where for where, _ in places)] == []
    assert hits(places, [Canary("s3", SECRET)]) == []
    found = {where for where, _, _ in hits(places, [planted])}
    assert [each for each in _PLANTED if not any(each in where for where in found)] == []


def _seen_on(cluster: SparkCluster) -> Iterator[Place]:
    """Yield what can be seen on the machines of a cluster while a sink runs there."""
    pages = f"http://127.0.0.1:{cluster.port}"
    (application,) = cluster.state()["activeapps"]
    yield from pages_of(pages, "/", "/json/", f"/app/?appId={application['id']}")
    for worker in cluster.workers:
        yield from processes_of(worker.first)
        for name in ("tmp", "home", "var/spark"):
            yield from _files(worker.root / name)


def _files(folder: Path) -> Iterator[Place]:
    """Yield all files below a folder, with their names, but for what is unpacked of the archive."""
    for place, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith("sinkql")]
        for each in files:
            path = Path(place, each)
            with suppress(OSError):  # of what has gone meanwhile
                yield str(path), str(path).encode() + path.read_bytes()


@pytest.mark.soak
def test_a_sink_whose_workers_are_killed_says_what_it_waits_for_and_goes_on(
    server: Seaweed, cluster: SparkCluster, tmp_path: Path
) -> None:
    pipeline = Pipeline(server, cluster, tmp_path, "killed", {_WAITING: "5s"})
    pipeline.put(*_FILES)
    running = start("exec", "pipeline.sql", folder=tmp_path)
    try:
        running.wait_for_rows({_SINK: pipeline.count})
        for worker in cluster.workers:
            worker.kill()
        pipeline.put(*_FILES)
        stalled = running.wait_for(lambda event: event.get("event") == "stalled")
        assert stalled["error"]["code"] == "SQ4051"
        for worker in cluster.workers:
            worker.start()
        running.wait_for_rows({_SINK: pipeline.count})
        assert running.interrupt() == 0
    finally:
        running.kill()
    assert pipeline.expected == pipeline.rows()


@pytest.mark.soak
@pytest.mark.parametrize(
    ("conf", "code", "told"),
    [
        ({"spark.executor.memory": "100g"}, "SQ4051", "has given no executor for 5 seconds"),
        ({"spark.pyspark.python": "python9"}, "SQ4052", 'the executors have no program "python9"'),
        ({"spark.pyspark.python": "true"}, "SQ4052", "the executors' true does not run SinkQL"),
    ],
)
def test_a_cluster_that_cannot_run_sinks_says_why(
    server: Seaweed, cluster: SparkCluster, tmp_path: Path, conf: dict[str, str], code: str, told: str
) -> None:
    waiting = "5s" if code == "SQ4051" else "300s"
    pipeline = Pipeline(server, cluster, tmp_path, "refused", {_WAITING: waiting, **conf})
    pipeline.put(*_FILES)
    done = run("--output", "json", "exec", "--once", "pipeline.sql", folder=tmp_path)
    assert done.returncode == 4
    (stopped,) = [event for line in done.stdout.splitlines() if (event := json.loads(line))["event"] == "stopped"]
    assert stopped["error"]["code"] == code
    assert told in stopped["error"]["message"]


@pytest.mark.soak
def test_executors_come_and_go(server: Seaweed, cluster: SparkCluster, tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    conf = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "0",
        "spark.dynamicAllocation.maxExecutors": "2",
        "spark.dynamicAllocation.executorIdleTimeout": "5s",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{tmp_path}/events",
        "spark.eventLog.compress": "false",
    }
    pipeline = Pipeline(server, cluster, tmp_path, "elastic", conf)
    pipeline.put(*_FILES)
    running = start("exec", "pipeline.sql", folder=tmp_path)
    try:
        running.wait_for_rows({_SINK: pipeline.count})
        cluster.wait_for_cores(0)
        pipeline.put(*_FILES)
        running.wait_for_rows({_SINK: pipeline.count})
        cluster.workers[0].decommission()
        pipeline.put(*_FILES)
        running.wait_for_rows({_SINK: pipeline.count})
        cluster.wait_for_workers(1)
        cluster.workers[0].kill()
        cluster.workers[0].start()
        cluster.wait_for_workers(2)
        assert running.interrupt() == 0
    finally:
        running.kill()
    assert pipeline.expected == pipeline.rows()
    logged = "".join(each.read_text() for log in (tmp_path / "events").iterdir() for each in _texts(log))
    assert "SparkListenerExecutorRemoved" in logged


@pytest.mark.soak
def test_sinks_run_in_the_spark_that_they_are_submitted_to(
    server: Seaweed, cluster: SparkCluster, tmp_path: Path
) -> None:
    pipeline = Pipeline(server, cluster, tmp_path, "submitted")
    pipeline.put(*_FILES)
    (tmp_path / "events").mkdir()
    logged = ("--conf", "spark.eventLog.enabled=true", "--conf", f"spark.eventLog.dir=file://{tmp_path}/events")
    done = subprocess.run(
        [_SUBMIT, *logged, _DEPLOY / "submit.py", "--output", "json", "exec", "--once", "pipeline.sql"],
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_DRIVER_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert pipeline.expected == pipeline.rows()
    assert [path for path in pipeline.written() if "-t" not in path] == []
    (log,) = (tmp_path / "events").iterdir()  # which none but that one was told to write
    assert "SparkListenerApplicationEnd" in "".join(each.read_text() for each in _texts(log))


def _texts(log: Path) -> list[Path]:
    return list(log.iterdir()) if log.is_dir() else [log]
