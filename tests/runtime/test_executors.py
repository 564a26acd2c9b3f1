"""Missing or lost executors of a remote cluster: waiting sinks report them and continue once there are some."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from py4j.protocol import Py4JError

from runtime.conftest import SparkOfNoProcess
from sinkql.errors import SinkqlError
from sinkql.runtime.spark import cluster as spark_cluster
from sinkql.runtime.spark.cluster import Executors
from sinkql.runtime.spark.jvm import Jvm
from sinkql.runtime.spark.settings import SparkSettings
from support.patience import PATIENCE_S

_WAITING = "spark.scheduler.maxRegisteredResourcesWaitingTime"


@dataclass
class Cluster:
    """A stand-in for Java's and Python's contexts of a cluster with `executors`; `jobs` are the active jobs."""

    executors: int = 0
    jobs: tuple[int, ...] = ()
    stopped: bool = False
    tried: int = 0
    applications: tuple[str, ...] = ("own",)
    status: str = "ALIVE"
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def context(self) -> Any:
        return _Double(
            _jsc=_Double(
                sc=lambda: _Double(
                    isStopped=lambda: self.stopped,
                    getExecutorMemoryStatus=lambda: _Double(size=lambda: self.executors + 1),
                ),
                cancelAllJobs=self.cancelled.set,
            ),
            applicationId="own",
            getConf=lambda: _Double(get=lambda _: "10.0.0.1"),
            statusTracker=lambda: _Double(getActiveJobsIds=lambda: self.jobs),
            _jvm=self._java(),
            parallelize=lambda *_: _Double(map=lambda _: _Double(collect=self._try)),
        )

    def _try(self) -> None:
        self.tried += 1

    def _java(self) -> Any:
        """Return stand-ins of the Java objects on the way to the master."""
        master = _Double(askSync=lambda *_: self._state())
        environment = _Double(setupEndpointRef=lambda *_: master)
        spark = _Double(
            deploy=_Double(**{"DeployMessages$RequestMasterState$": _Double(**{"MODULE$": None})}),
            rpc=_Double(RpcAddress=_Double(fromSparkURL=lambda url: url)),
            SparkEnv=_Double(get=lambda: _Double(rpcEnv=lambda: environment)),
        )
        scala = _Double(reflect=_Double(ClassTag=_Double(Any=lambda: None)))
        return _Double(org=_Double(apache=_Double(spark=spark)), scala=scala)

    def _state(self) -> Any:
        known = [_Double(id=partial(str, each)) for each in self.applications]
        return _Double(status=lambda: _Double(toString=lambda: self.status), activeApps=lambda: known)


class _Double:
    def __init__(self, **parts: object) -> None:
        self.__dict__.update(parts)


_NOWHERE = Path("none")


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_cluster, "_WATCH_SECONDS", 0.001)
    monkeypatch.setattr(spark_cluster, "_LOOK_SECONDS", 0.001)
    monkeypatch.setattr(spark_cluster, "_ASK_SECONDS", 0.001)
    monkeypatch.setattr(spark_cluster, "own_address", lambda _: "10.0.0.1")


def _executors(cluster: Cluster, *, waiting: str = "0s", end: Callable[[], None] = lambda: None) -> Executors:
    return Executors(cluster.context, _settings(waiting), end)


def _settings(waiting: str, *, master: str = "spark://far:7077", folder: Path = _NOWHERE) -> SparkSettings:
    return SparkSettings(master, {_WAITING: waiting}, folder)


def test_who_waits_for_the_first_executor_is_told_and_may_wait_on() -> None:
    cluster = Cluster()
    executors = _executors(cluster)
    with pytest.raises(SinkqlError) as missing:
        executors.try_first(lambda: False)
    assert (missing.value.code, missing.value.retryable, cluster.tried) == ("SQ4051", True, 0)
    assert missing.value.detail == "executors must reach this process at 10.0.0.1"
    cluster.executors = 1
    for _ in range(2):
        executors.try_first(lambda: False)
    assert cluster.tried == 1
    executors.leave()


@pytest.mark.parametrize(
    ("reason", "code", "detail"),
    [
        ('pods is forbidden: User "u" cannot create pods', "SQ4056", 'pods is forbidden: User "u" cannot create pods'),
        ("internal error", "SQ4051", "executors must reach this process at 10.0.0.1\ninternal error"),
    ],
    ids=["forbidden", "failed"],
)
def test_who_gets_no_executor_of_kubernetes_is_told_what_it_says(
    tmp_path: Path, reason: str, code: str, detail: str
) -> None:
    settings = _settings("0s", master="k8s://https://far:6443", folder=tmp_path)
    failing = (
        "WARN: x\nio.fabric8.kubernetes.client.KubernetesClientException: Failure executing: POST at: https://far/pods."
    )
    settings.log.write_text(f"{failing} Message: {reason}. Received status: Status(code=403).\n\tat a.b(C.java:1)\n")
    executors = Executors(Cluster().context, settings, lambda: None)
    with pytest.raises(SinkqlError) as missing:
        executors.try_first(lambda: False)
    assert (missing.value.code, missing.value.detail, missing.value.retryable) == (code, detail, True)
    executors.leave()


def test_who_is_to_stop_waits_no_longer() -> None:
    cluster = Cluster()
    executors = _executors(cluster, waiting="1h")
    executors.try_first(lambda: True)
    assert cluster.tried == 0
    executors.leave()


def test_jobs_that_wait_for_executors_are_broken_off_with_the_reason() -> None:
    cluster = Cluster(jobs=(7,))
    executors = _executors(cluster)
    assert cluster.cancelled.wait(PATIENCE_S)
    assert executors.error is not None
    assert executors.error.code == "SQ4051"
    executors.leave()


def test_an_application_without_jobs_may_have_no_executors() -> None:
    cluster, looked = Cluster(), threading.Semaphore(0)
    context = cluster.context

    def active_jobs() -> tuple[int, ...]:
        looked.release()
        return ()

    context.statusTracker = lambda: _Double(getActiveJobsIds=active_jobs)
    executors = Executors(context, _settings("0s"), lambda: None)
    for _ in range(20):
        assert looked.acquire(timeout=PATIENCE_S)
    assert (executors.error, cluster.cancelled.is_set()) == (None, False)
    executors.leave()


def test_an_application_that_the_master_gave_up_ends_with_the_reason() -> None:
    cluster, ended = Cluster(stopped=True), threading.Event()
    executors = _executors(cluster, end=ended.set)
    assert ended.wait(PATIENCE_S)
    assert executors.error is not None
    assert "has removed the application" in executors.error.message


def test_an_application_that_its_master_does_not_know_ends_with_the_reason() -> None:
    cluster, ended = Cluster(applications=("another",), jobs=(7,)), threading.Event()
    executors = _executors(cluster, waiting="1h", end=ended.set)
    assert ended.wait(PATIENCE_S)
    assert executors.error is not None
    assert (executors.error.code, executors.error.retryable) == ("SQ4051", True)
    assert "has forgotten the application" in executors.error.message


def test_who_waits_for_the_first_executor_learns_that_the_master_does_not_know_the_application() -> None:
    context = Cluster(applications=()).context

    def end() -> None:
        context._jsc.sc = mock.Mock(side_effect=Py4JError)

    executors = Executors(context, _settings("1h"), end)
    with pytest.raises(SinkqlError) as missing:
        executors.try_first(lambda: False)
    assert "has forgotten the application" in missing.value.message


@pytest.mark.parametrize(("applications", "status"), [(("another", "own"), "ALIVE"), ((), "RECOVERING")])
def test_an_application_that_a_master_knows_or_may_know_continues(applications: tuple[str, ...], status: str) -> None:
    cluster, ended = Cluster(applications=applications, status=status, jobs=(7,)), threading.Event()
    executors = _executors(cluster, end=ended.set)
    assert cluster.cancelled.wait(PATIENCE_S)
    assert executors.error is not None
    assert "has given no executor" in executors.error.message
    assert not ended.is_set()
    executors.leave()


def test_a_batch_that_failed_with_its_application_is_told_so_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_cluster, "_WATCH_SECONDS", 3600.0)
    cluster, jvm = Cluster(stopped=True), Jvm()
    executors = _executors(cluster, end=jvm.abandon)
    error = executors.look()
    assert error is not None
    assert (error.code, jvm.ended_with) == ("SQ4051", 0)
    executors.leave()


def test_an_application_that_was_given_up_as_it_began_is_told_from_what_does_not_start() -> None:
    told = Py4JError("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.")
    error = spark_cluster.startup_error(told, "spark://far:7077", {"spark.driver.host": "10.0.0.1"})
    assert error is not None
    assert (error.code, error.detail) == ("SQ4051", "executors must reach this process at 10.0.0.1")
    assert spark_cluster.startup_error(Py4JError("no such class"), "spark://far:7077", {}) is None


@pytest.mark.parametrize(
    ("told", "code", "detail"),
    [
        ("Received 403 on websocket. Message: Forbidden.", "SQ4056", "Received 403 on websocket. Message: Forbidden."),
        (
            "An error has occurred.\nCaused by: java.io.IOException: Connection refused: /127.0.0.1:1",
            "SQ4050",
            "An error has occurred.\nConnection refused: /127.0.0.1:1",
        ),
    ],
    ids=["forbidden", "unanswered"],
)
def test_an_application_that_kubernetes_refuses_as_it_begins_is_told(told: str, code: str, detail: str) -> None:
    error = Py4JError(f"An error occurred while calling x.\n: io.fabric8.client.KubernetesClientException: {told}")
    refused = spark_cluster.startup_error(error, "k8s://https://far:6443", {})
    assert refused is not None
    assert (refused.code, refused.detail, refused.retryable) == (code, detail, True)


def test_an_application_that_stops_by_itself_is_not_ended() -> None:
    cluster, ended = Cluster(), threading.Event()
    executors = _executors(cluster, end=ended.set)
    executors.leave()
    cluster.stopped = True
    for thread in threading.enumerate():
        if thread.name == "executors":
            thread.join(PATIENCE_S)
    assert (executors.error, ended.is_set()) == (None, False)


def test_java_that_has_ended_ends_the_watch() -> None:
    cluster = Cluster()
    context = cluster.context

    def gone() -> None:
        raise Py4JError("gone")

    context._jsc.sc = gone
    Executors(context, _settings("120s"), lambda: None)
    for thread in threading.enumerate():
        if thread.name == "executors":
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def test_a_start_that_found_no_master_is_tried_again(spark_of_no_process: SparkOfNoProcess) -> None:
    spark = spark_of_no_process("spark://far:7077")
    spark.begin()
    first = spark._start
    assert first is not None
    first._session.set_exception(SinkqlError("SQ4050", "no master"))
    spark.begin()
    second = spark._start
    assert second is not None
    assert second is not first
    second._session.set_exception(SinkqlError("SQ4053", "not packed"))
    spark.begin()
    assert spark._start is second
    spark._folder.release()
