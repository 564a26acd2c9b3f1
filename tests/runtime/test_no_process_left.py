"""An interrupted start of Spark leaves no process, whatever interrupts it and when."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from runtime.conftest import SparkOfNoProcess
from sinkql.runtime.process.signals import StopSignal
from sinkql.runtime.process.supervisor import _signals
from sinkql.runtime.spark.application import SparkApplication
from sinkql.runtime.spark.jvm import Jvm
from sinkql.runtime.spark.session import SparkStart
from sinkql.runtime.spark.settings import CancelledError, SparkSettings
from support.command import launch
from support.leftover import left, marked
from support.patience import PATIENCE_S

_TESTS = Path(__file__).parents[1]


@pytest.mark.slow
def test_an_interrupted_start_leaves_no_process(tmp_path: Path) -> None:
    mark = marked()
    path = os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")])
    program = str(_TESTS / "support" / "interrupted.py")
    running = launch(program, str(tmp_path), folder=tmp_path, environment={**mark, "PYTHONPATH": path})
    try:
        assert running.rest() == []
        assert running.end() == 0
    finally:
        running.kill()
    assert left(mark) == []


def test_a_jvm_that_does_not_end_is_killed_with_what_it_started() -> None:
    mark = marked()
    jvm = Jvm()
    jvm._process = subprocess.Popen(
        ["sh", "-c", "sleep 1000 & sleep 1000"],
        stdin=subprocess.PIPE,
        env={**os.environ, **mark},
        start_new_session=True,
    )
    with jvm.ending(patience=0.05):
        _fail()
    assert jvm._process.returncode == -signal.SIGKILL
    assert left(mark) == []


@pytest.mark.parametrize(
    ("master", "conf", "java", "submitted", "killed"),
    [
        ("local[2]", {"spark.driver.memory": "1g"}, "-XX:SharedArchiveFile=spark.jsa", "--jars a.jar", True),
        ("local[2]", {"spark.eventLog.enabled": "true"}, "", "", False),
        ("local[2]", {}, "-XX:ArchiveClassesAtExit=spark.jsa", "", False),
        ("local[2]", {}, "-Dspark.eventLog.enabled=true", "", False),
        ("local[2]", {}, "", "--conf spark.eventLog.enabled=true", False),
        ("local[2]", {}, "", "-c 'spark.plugins=a.Plugin'", False),
        ("local[2]", {}, "", "--driver-java-options -agentlib:a", False),
        ("spark://far:7077", {}, "", "", False),
    ],
)
def test_a_spark_of_which_nobody_misses_anything_is_killed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    master: str,
    conf: dict[str, str],
    java: str,
    submitted: str,
    killed: bool,
) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", java)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"{submitted} pyspark-shell")
    mark = marked()
    starting = SparkStart(SparkSettings(master, conf, tmp_path))
    running = subprocess.Popen(["sleep", "1000"], env={**os.environ, **mark}, start_new_session=True)
    starting._jvm._process, starting._begun = running, True
    starting._session.set_exception(CancelledError())
    try:
        starting.end()
        assert starting._jvm.killed == killed
        if killed:
            assert running.wait(PATIENCE_S) == -signal.SIGKILL
    finally:
        running.kill()
        running.wait()


def test_a_spark_that_died_is_started_again(
    spark_of_no_process: SparkOfNoProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = spark_of_no_process("local[2]")
    spark.begin()
    first = spark._start
    assert first is not None
    first._jvm._process = subprocess.Popen(["sleep", "1000"], stdin=subprocess.PIPE, start_new_session=True)
    gone, session = object(), object()
    first._session.set_result(gone)
    spark.begin()
    assert (spark._start, spark.death(gone)) == (first, None)
    first._jvm._process.kill()
    assert (_told(spark, gone), _told(spark, session)) == (("SQ4004", "signal 9"), None)
    spark.begin()
    assert spark._start is not None
    assert spark._start is not first
    spark._start._session.set_result(session)
    assert (_told(spark, gone), _told(spark, session)) == (("SQ4004", "signal 9"), None)
    monkeypatch.setattr(SparkStart, "end", lambda starting, patience=0.0: None)
    spark.end(0.0)


def _told(spark: SparkApplication, session: Any) -> tuple[str, str | None] | None:
    error = spark.death(session)
    return None if error is None else (error.code, error.detail)


def test_a_hangup_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with _signals(StopSignal(), []):
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def _fail() -> None:
    raise Py4JNetworkError("an answer did not come")
