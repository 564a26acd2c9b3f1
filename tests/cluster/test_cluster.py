"""Sinks on a Spark cluster whose machines share only the network and S3."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyspark
import pytest

from cluster.pipeline import Pipeline
from leak.scanner import Canary, Place, canary, hits, pages_of, processes_of, text_of
from sinkql.runtime.spark.package import cached_archives
from support.command import Running, launch_program, run, start
from support.port import held_ports
from support.seaweed import SECRET, Seaweed
from support.spark_cluster import SECRET_VARIABLE, SparkCluster, spark_cluster

pytestmark = [pytest.mark.slow, pytest.mark.server]

_DEPLOY = Path(__file__).parents[2] / "deploy"
_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
_FILES = (40_000,) * 4
"""Rows of files that tasks read, and not the driver."""
_SINK = "materialize.public.s"
_WAITING = "spark.scheduler.maxRegisteredResourcesWaitingTime"
_WORK, _AWAY = "var/spark/work", "var/spark/away"
_REMOVED = "has removed the application"
_PAGES = ("jobs", "stages", "environment", "executors")
_PLANTED = ("environ of", "page /environment/", "/events/")
_SEEN = (*_PLANTED, "cmdline of", "page /app/", "/stderr", "catalog.db", "spark.log", "stdout")


@pytest.mark.parametrize("executors", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_files_in_s3_become_a_table_in_s3_and_no_secret_shows(
    machines: None, server: Seaweed, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, executors: int
) -> None:
    planted = canary("planted")
    (tmp_path / "events").mkdir()
    with (
        held_ports(1) as (port,),
        spark_cluster(tmp_path_factory.mktemp("few"), workers=executors, unpacked=False) as cluster,
    ):
        conf = {
            "spark.executorEnv.PLANTED": planted.core,
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": f"file://{tmp_path}/events",
            "spark.eventLog.compress": "false",
            "spark.ui.enabled": "true",
            "spark.ui.port": str(port),
        }
        pipeline = Pipeline(server, cluster.url, tmp_path, f"append{executors}", conf, executors=executors)
        pipeline.put(*_FILES[: 2 * executors])
        running = start("exec", "pipeline.sql", folder=tmp_path)
        try:
            running.wait_for_rows({_SINK: pipeline.count})
            assert [*tmp_path.rglob("userFiles-*/sinkql*")] == []  # the driver unpacks no archive
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


@pytest.mark.soak
def test_a_secret_is_asked_for_and_does_not_show(
    machines: None, server: Seaweed, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    secret = canary("authenticate")
    with (
        held_ports(1) as (port,),
        spark_cluster(tmp_path_factory.mktemp("secured"), workers=1, secret=secret.core) as cluster,
    ):
        (tmp_path / "events").mkdir()
        conf = {
            "spark.authenticate": "true",
            "spark.network.crypto.enabled": "true",
            "spark.io.encryption.enabled": "true",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": f"file://{tmp_path}/events",
            "spark.eventLog.compress": "false",
            "spark.ui.enabled": "true",
            "spark.ui.port": str(port),
        }
        pipeline = Pipeline(server, cluster.url, tmp_path, "secured", conf)
        pipeline.put(*_FILES)
        running = start("exec", "pipeline.sql", folder=tmp_path, environment={SECRET_VARIABLE: secret.core})
        try:
            running.wait_for_rows({_SINK: pipeline.count})
            places = [*_seen_on(cluster), *processes_of(running.process.pid), *_files(tmp_path)]
            places += pages_of(f"http://127.0.0.1:{port}", *(f"/{page}/" for page in _PAGES))
            assert running.interrupt() == 0
        finally:
            running.kill()
        places += [*_files(tmp_path), *text_of("stdout", *running.printed, *running.errors)]
        assert pipeline.expected == pipeline.rows()
        pipeline.put(*_FILES)
        refused = run("--output", "json", "up", "--once", folder=tmp_path)
    assert [each for each in ("conf/spark-defaults.conf", *_SEEN[1:]) if not any(each in at for at, _ in places)] == []
    assert {where.partition(" of")[0] for where, _, _ in hits(places, [secret])} == {"environ"}
    assert refused.returncode == 4
    assert '"SQ4003"' in refused.stdout, refused.stdout


def _seen_on(cluster: SparkCluster) -> Iterator[Place]:
    """Yield everything that is visible on the machines of a cluster while a sink runs there."""
    pages = f"http://127.0.0.1:{cluster.port}"
    (application,) = cluster.state()["activeapps"]
    yield from pages_of(pages, "/", "/json/", f"/app/?appId={application['id']}")
    for worker in cluster.workers:
        yield from processes_of(worker.first)
        for name in ("tmp", "home", "var/spark"):
            yield from _files(worker.root / name)


def _files(folder: Path) -> Iterator[Place]:
    """Yield all files below a folder with their names, except for the archives of packages and what is in them."""
    archives = {each.stat().st_size for each in cached_archives()}
    for place, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith("sinkql")]
        for each in files:
            path = Path(place, each)
            with suppress(OSError):  # the file may have been deleted
                if path.stat().st_size in archives:  # hundreds of megabytes
                    continue
                yield str(path), str(path).encode() + path.read_bytes()


@pytest.mark.soak
def test_a_sink_whose_workers_are_killed_says_what_it_waits_for_and_continues(
    server: Seaweed, cluster: SparkCluster, tmp_path: Path
) -> None:
    pipeline = Pipeline(server, cluster.url, tmp_path, "killed", {_WAITING: "5s"})
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
    pipeline = Pipeline(server, cluster.url, tmp_path, "refused", {_WAITING: waiting, **conf})
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
    pipeline = Pipeline(server, cluster.url, tmp_path, "elastic", conf)
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
    pipeline = Pipeline(server, cluster.url, tmp_path, "submitted")
    pipeline.put(*_FILES)
    _to_end(_submit(tmp_path, "exec", "--once", "pipeline.sql"))
    assert pipeline.expected == pipeline.rows()
    assert [path for path in pipeline.written() if "-t" not in path] == []
    assert _applications(tmp_path / "events") == {"sinkql big": True}


@pytest.mark.soak
def test_of_two_clusters_one_runs_in_the_spark_that_they_are_submitted_to(
    server: Seaweed, cluster: SparkCluster, tmp_path: Path
) -> None:
    pipeline = Pipeline(server, cluster.url, tmp_path, "submitted_two", two=True)
    for number, arguments in enumerate((("exec", "--once", "pipeline.sql"), ("up", "--once"))):
        pipeline.put(*_FILES)
        _to_end(_submit(tmp_path, *arguments, events=f"events{number}"))
        assert pipeline.expected == pipeline.rows() == pipeline.rows("t2")
        assert _applications(tmp_path / f"events{number}") == {"sinkql big": True}


@pytest.mark.soak
@pytest.mark.parametrize("submitted", [True, False])
def test_an_application_that_its_master_removed_is_restarted(
    server: Seaweed, cluster: SparkCluster, tmp_path: Path, submitted: bool
) -> None:
    pipeline = Pipeline(server, cluster.url, tmp_path, f"removed_{submitted}".lower())
    pipeline.put(*_FILES)
    begin = _submit if submitted else lambda folder, *arguments: start(*arguments, folder=folder)
    running = begin(tmp_path, "exec", "pipeline.sql")
    try:
        running.wait_for_rows({_SINK: pipeline.count})
        (first,) = cluster.state()["activeapps"]
        for worker in cluster.workers:  # executors cannot create their folders until the master gives up
            (worker.root / _WORK).rename(worker.root / _AWAY)
            (worker.root / _WORK).touch()
            for each in worker.executors():
                os.kill(each, signal.SIGKILL)
        pipeline.put(*_FILES)
        stalled = running.wait_for(lambda event: event.get("event") == "stalled")
        assert (stalled["error"]["code"], _REMOVED in stalled["error"]["message"]) == ("SQ4051", True)
        for worker in cluster.workers:
            (worker.root / _WORK).unlink()
            (worker.root / _AWAY).rename(worker.root / _WORK)
        running.wait_for_rows({_SINK: pipeline.count})
        (second,) = cluster.state()["activeapps"]
        assert first["id"] != second["id"]
        running.process.send_signal(signal.SIGINT) if not submitted else os.kill(_driver(running), signal.SIGINT)
        _to_end(running)
    finally:
        running.kill()
    assert pipeline.expected == pipeline.rows()


def _driver(running: Running) -> int:
    """Return the id of the process that spark-submit started."""
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process may have ended
            status, command = (each / "status").read_text(), (each / "cmdline").read_bytes()
            if f"\nPPid:\t{running.process.pid}\n" in status and b"submit.py" in command:
                return int(each.name)
    raise AssertionError("spark-submit runs no driver")


def _to_end(running: Running) -> None:
    printed = running.rest()
    assert running.end() == 0, "".join([*printed, *running.errors])


def _submit(folder: Path, *arguments: str, events: str = "events") -> Running:
    """Start a command of SinkQL with spark-submit and an event log."""
    folder.joinpath(events).mkdir()
    logged = ("enabled=true", "compress=false", f"dir=file://{folder / events}")
    told = [f"--conf=spark.eventLog.{each}" for each in logged]
    return launch_program(
        *(str(_SUBMIT), *told, str(_DEPLOY / "submit.py"), "--output", "json", *arguments),
        folder=folder,
        environment={"PYSPARK_DRIVER_PYTHON": sys.executable},
    )


def _applications(events: Path) -> dict[str, bool]:
    """Return the names of the applications that wrote event logs, and whether they ended."""
    found = {}
    for log in events.iterdir():
        told = [json.loads(line) for each in _texts(log, "events_*") for line in each.read_text().splitlines()]
        (name,) = [event["App Name"] for event in told if event["Event"] == "SparkListenerApplicationStart"]
        found[name] = any(event["Event"] == "SparkListenerApplicationEnd" for event in told)
    return found


def _texts(log: Path, name: str = "*") -> list[Path]:
    return list(log.glob(name)) if log.is_dir() else [log]
