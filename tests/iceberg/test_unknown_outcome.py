"""Lost, late and refused commit replies, through a proxy to a real REST catalog: each row is committed once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from sinkql.errors import SinkqlError
from support.lake import Lake, Sink
from support.patience import joined
from support.proxy import Rule, proxy
from support.seaweed import Seaweed

pytestmark = pytest.mark.server

LOST = ["drop", "truncate", "400", "401", "403", "404", "409", "429", "500", "502", "503", "504"]
NOT_APPLIED = ["before", "refuse-400", "refuse-409", "refuse-429", "refuse-500", "refuse-503", "refuse-504"]


@pytest.fixture
def through(server: Seaweed, tmp_path: Path) -> Iterator[tuple[Lake, Rule]]:
    with proxy(server.rest) as (port, rule):
        yield Lake(tmp_path, server, port), rule


@pytest.mark.share(14)
@pytest.mark.parametrize("upsert", [False, True], ids=["append", "upsert"])
@pytest.mark.parametrize("mode", LOST)
def test_commit_with_a_lost_reply_counts_once(
    through: tuple[Lake, Rule], name: str, mode: str, *, upsert: bool
) -> None:
    lake, rule = through
    sink = Sink(lake, name, upsert=upsert)
    sink.start()
    rule.modes = [mode]
    committed = sink.put((1, "a"), (2, "b"))
    assert committed.checkpoint == sink.writer.load_checkpoint()
    sink.put((3, "c"))
    assert lake.rows(name) == [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.share(6)
@pytest.mark.parametrize("mode", NOT_APPLIED)
def test_commit_that_never_arrived_is_sent_again(through: tuple[Lake, Rule], name: str, mode: str) -> None:
    lake, rule = through
    sink = Sink(lake, name)
    sink.start()
    rule.modes = [mode]
    sink.put((1, "a"))
    assert lake.rows(name) == [(1, "a")]


@pytest.mark.share(4)
@pytest.mark.parametrize("mode", ["drop", "409", "504", "before"])
def test_claim_with_a_lost_reply_counts_once(through: tuple[Lake, Rule], name: str, mode: str) -> None:
    lake, rule = through
    rule.modes = [mode]
    sink = Sink(lake, name)
    assert sink.start().epoch == 1
    sink.put((1, "a"))
    snapshots = lake.table(name).metadata.snapshots
    assert len(snapshots) == 2


def test_late_request_after_the_retry_changes_nothing(through: tuple[Lake, Rule], name: str) -> None:
    lake, rule = through
    sink = Sink(lake, name)
    sink.start()
    rule.modes = ["late"]
    sink.put((1, "a"))
    rule.release()
    assert rule.late_status == [409]
    assert sink.writer.refresh().end == {"numbers": {"batch": 1}}
    assert lake.rows(name) == [(1, "a")]


def test_late_request_before_the_retry_is_found(through: tuple[Lake, Rule], name: str) -> None:
    lake, rule = through
    sink = Sink(lake, name)
    sink.start()
    checkpoint, task, results = sink.attempt([(1, "a")])
    rule.modes = ["late"]
    # The first request arrives just before the retry.
    posted = Event()

    def second() -> None:
        rule.release()
        posted.set()

    def first() -> None:
        rule.between = second

    rule.between = first
    committed = sink.finish((checkpoint, task, results))
    assert posted.is_set()
    assert rule.late_status == [200]
    assert committed.checkpoint == sink.writer.refresh()
    assert lake.rows(name) == [(1, "a")]


def test_late_request_after_a_takeover_fails(through: tuple[Lake, Rule], name: str) -> None:
    lake, rule = through
    old = Sink(lake, name)
    old.start()
    attempt = old.attempt([(1, "old")])
    direct = Lake(lake.folder, lake.server)
    new = Sink(direct, name, folder=lake.folder / "new")

    def take_over() -> None:
        new.start()
        new.put((1, "new"))

    rule.modes = ["late"]
    rule.between = take_over
    with pytest.raises(SinkqlError) as caught:
        old.finish(attempt)
    assert caught.value.code == "SQ5101"
    assert caught.value.exit_code == 5
    rule.release()
    assert rule.late_status == [409]
    assert lake.rows(name) == [(1, "new")]


def test_earlier_attempt_that_arrives_late_stops_the_next_one(through: tuple[Lake, Rule], name: str) -> None:
    lake, rule = through
    sink = Sink(lake, name)
    sink.start()
    given_up = sink.attempt([(1, "a")])
    rule.modes = ["late", *["refuse-400"] * 3]
    with pytest.raises(SinkqlError):
        sink.finish(given_up)
    again = sink.attempt([(1, "a")])
    rule.between = rule.release
    with pytest.raises(SinkqlError) as caught:
        sink.finish(again)
    assert caught.value.code == "SQ5207"
    assert lake.rows(name) == [(1, "a")]
    restarted = Sink(lake, name)
    assert restarted.start().end == {"numbers": {"batch": 1}}


def test_permanent_400_is_given_up_after_a_few_tries(through: tuple[Lake, Rule], name: str) -> None:
    lake, rule = through
    sink = Sink(lake, name)
    sink.start()
    before = rule.commits
    rule.modes = ["refuse-400"] * 20
    with pytest.raises(SinkqlError) as caught:
        sink.put((1, "a"))
    assert caught.value.code == "SQ4204"
    assert rule.commits - before == 4
    rule.modes.clear()
    assert lake.rows(name) == []


def test_two_runs_at_once_only_one_writes(server: Seaweed, tmp_path: Path, name: str) -> None:
    lake = Lake(tmp_path, server)
    first, second = Sink(lake, name, folder=tmp_path / "a"), Sink(lake, name, folder=tmp_path / "b")
    first.start()
    attempt = first.attempt([(1, "first")])
    second.start()
    for refused in (lambda: first.finish(attempt), first.writer.refresh):
        with pytest.raises(SinkqlError) as caught:
            refused()
        assert caught.value.code == "SQ5101"
    second.put((1, "second"))
    assert lake.rows(name) == [(1, "second")]


def test_claims_at_once_end_with_one_holder(any_lake: Lake, name: str) -> None:
    sinks = [Sink(any_lake, name, folder=any_lake.folder / str(number)) for number in range(4)]
    sinks[0].writer.open()
    outcomes: list[str] = []

    def claim(sink: Sink) -> None:
        try:
            sink.start()
            outcomes.append("claimed")
        except SinkqlError as error:
            outcomes.append(error.code)

    threads = [Thread(target=claim, args=(sink,), daemon=True) for sink in sinks]
    for thread in threads:
        thread.start()
    joined(*threads)
    assert set(outcomes) <= {"claimed", "SQ5101"}
    held = []
    for sink in sinks:
        try:
            held.append(sink.writer.refresh())
        except (SinkqlError, AssertionError):
            continue
    assert len(held) == 1
    epochs = [each.summary["sinkql.epoch"] for each in any_lake.table(name).metadata.snapshots if each.summary]
    assert len(set(epochs)) == len(epochs)
