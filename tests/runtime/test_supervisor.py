"""Whole processes: one Spark application per cluster, and the effect of signals."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.command import Running, launch
from support.leftover import left, marked
from support.patience import PATIENCE_S
from support.running import rows
from support.silent import silent

pytestmark = pytest.mark.slow

_TESTS = Path(__file__).parents[1]
Start = Callable[..., Running]


@pytest.fixture
def mark() -> dict[str, str]:
    return marked()


@pytest.fixture
def start(tmp_path: Path, mark: dict[str, str]) -> Iterator[Start]:
    """Return a function that starts the program in the test's folder, marked for later cleanup."""
    started: list[Running] = []

    def start(*arguments: str) -> Running:
        path = os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")])
        program = str(_TESTS / "support" / "supervised.py")
        started.append(launch(program, *arguments, folder=tmp_path, environment={**mark, "PYTHONPATH": path}))
        return started[-1]

    yield start
    for running in started:
        running.kill()


def _starts_with(*words: str) -> Callable[[str], bool]:
    return lambda line: line.startswith(words)


def test_clusters_have_applications_of_their_own_which_the_first_signal_ends_after_their_batches(
    start: Start, tmp_path: Path
) -> None:
    clusters = ("one", "two")
    running = start(str(tmp_path), *clusters)
    for cluster in clusters:
        if f"SinkCommitted materialize.public.{cluster}\n" not in running.printed:
            running.wait_for_line(_starts_with(f"SinkCommitted materialize.public.{cluster}"))
    assert running.interrupt() == 0
    assert running.rest()[-1] == "['stopped', 'stopped']\n"
    assert running.printed.count("SparkStarted \n") == 2
    for cluster in clusters:
        found = rows(tmp_path, cluster)
        assert [(n,) for n in range(1, len(found) + 1)] == found != []


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_while_spark_starts_ends_it_then(
    start: Start, tmp_path: Path, mark: dict[str, str], number: signal.Signals
) -> None:
    running = start(str(tmp_path), "one", "two")
    for _ in range(2):
        running.wait_for_line(_starts_with("SparkStarting"))
    running.process.send_signal(number)
    if number == signal.SIGHUP:
        running.process.send_signal(number)  # a closing terminal may send it twice
    rest = running.rest()
    assert running.end() == 128 + number
    assert rest[-1] == "['stopped', 'stopped']\n"
    assert not any(line.startswith(("SparkStarted", "SinkCommitted")) for line in rest)
    assert left(mark) == []


@pytest.mark.soak
@pytest.mark.parametrize("clusters", [["one"], ["one", "two"]])
def test_a_signal_while_a_catalog_does_not_answer_ends_it_then(
    start: Start, mark: dict[str, str], clusters: list[str]
) -> None:
    with silent() as (url, asked):
        running = start(url, *clusters)
        for _ in clusters:
            asked.get(timeout=PATIENCE_S)
        running.process.send_signal(signal.SIGINT)
        rest = running.rest()
        assert running.end() == 130
    assert rest[-1] == f"{['stopped' for _ in clusters]}\n"
    assert left(mark) == []


def test_the_second_signal_ends_it_at_once(start: Start, tmp_path: Path) -> None:
    running = start(str(tmp_path), "one")
    running.wait_for_line(_starts_with("SparkStarting"))
    running.process.send_signal(signal.SIGTERM)
    running.process.send_signal(signal.SIGINT)
    assert running.end() in (130, 143)
