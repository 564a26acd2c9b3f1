"""Whole processes: one Spark application a cluster, and how signals end them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from support.leftover import left, marked
from support.patience import PATIENCE_S
from support.running import rows
from support.silent import silent

pytestmark = pytest.mark.slow

_TESTS = Path(__file__).parents[1]


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


def start(
    processes: list[subprocess.Popen[str]], *arguments: str, mark: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    program = _TESTS / "support" / "supervised.py"
    process = subprocess.Popen(
        [sys.executable, str(program), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            **(mark or {}),
            "PYTHONPATH": os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")]),
        },
        start_new_session=True,
    )
    processes.append(process)
    return process


def lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    for line in process.stdout:
        yield line.strip()


def test_clusters_have_applications_of_their_own(processes: list[subprocess.Popen[str]], tmp_path: Path) -> None:
    process = start(processes, str(tmp_path), "once", "one", "two")
    told = list(lines(process))
    assert process.wait() == 0
    assert told[-1] == "['caught up', 'caught up']"
    assert told.count("SparkStarted") == 2
    for table in ("one", "two"):
        assert [(n,) for n in range(1, 51)] == rows(tmp_path, table)


def test_the_first_signal_ends_a_run_after_its_batch(processes: list[subprocess.Popen[str]], tmp_path: Path) -> None:
    process = start(processes, str(tmp_path), "on", "one")
    told = lines(process)
    next(line for line in told if line.startswith("SinkCommitted"))
    process.send_signal(signal.SIGINT)
    assert list(told)[-1] == "['stopped']"
    assert process.wait() == 0
    found = rows(tmp_path, "one")
    assert [(n,) for n in range(1, len(found) + 1)] == found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_while_spark_starts_ends_it_then(
    processes: list[subprocess.Popen[str]], tmp_path: Path, number: signal.Signals
) -> None:
    mark = marked()
    process = start(processes, str(tmp_path), "on", "one", "two", mark=mark)
    told = lines(process)
    for _ in range(2):
        next(line for line in told if line.startswith("SparkStarting"))
    process.send_signal(number)
    if number == signal.SIGHUP:
        process.send_signal(number)  # a terminal that goes may say so twice
    rest = list(told)
    assert process.wait() == 128 + number
    assert rest[-1] == "['stopped', 'stopped']"
    assert not any(line.startswith(("SparkStarted", "SinkCommitted")) for line in rest)
    assert left(mark) == []


@pytest.mark.parametrize("clusters", [["one"], ["one", "two"]])
def test_a_signal_while_a_catalog_does_not_answer_ends_it_then(
    processes: list[subprocess.Popen[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clusters: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    mark = marked()
    with silent() as (url, asked):
        process = start(processes, url, "on", *clusters, mark=mark)
        told = lines(process)
        for _ in clusters:
            asked.get(timeout=PATIENCE_S)
        process.send_signal(signal.SIGINT)
        rest = list(told)
        assert process.wait() == 130
    assert rest[-1] == str(["stopped" for _ in clusters])
    assert left(mark) == []


def test_the_second_signal_ends_it_at_once(processes: list[subprocess.Popen[str]], tmp_path: Path) -> None:
    process = start(processes, str(tmp_path), "on", "one")
    next(line for line in lines(process) if line.startswith("SparkStarting"))
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    assert process.wait() in (130, 143)
