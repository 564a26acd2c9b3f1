"""The clock of commits advances with data and due rows, and never goes back, not even in a replay or full refresh."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from operators.pipeline import output
from sinkql import physical
from sinkql.connector_api.registry import discover
from sinkql.connector_api.stream import Limit
from sinkql.errors import SinkqlError
from sinkql.runtime.batch.clock import CLOCK
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.batch.pacing import Pacer, PacingOrders
from sinkql.storage import failpoint
from support.running import contexts, counter, job, loop_of, rows

START = 1_700_000_000_000
MINUTE = 60_000


def timed(source: physical.Read, *, seconds: int = 1) -> physical.Bound:
    """Return a view of numbers n, each visible until n × `seconds` after the start."""
    end = output(source, "$until", f"counter::bigint * {seconds * 1000} + {START}")
    below = physical.Map(source, (output(source, "counter", "counter"), end))
    return physical.Bound(below, "shown", None, "$until", ("counter",))


@dataclass
class Timed:
    """A sink of generated numbers that expire, at the time of the test's clock."""

    folder: Path
    up_to: int = 5
    now: int = START
    follows: tuple[physical.Earlier, ...] = ()
    seconds: int = 1
    loop: BatchLoop = field(init=False)

    def __post_init__(self) -> None:
        body = timed(counter(up_to=self.up_to), seconds=self.seconds)
        each = job(body, self.folder, key=("counter",))
        self.job = msgspec.structs.replace(each, follows=self.follows)

    def start(self, *, epoch: int = 1, once: bool = False) -> None:
        self.loop = loop_of(self.job, contexts(self.folder, self.job), discover(), now_ms=lambda: self.now)
        self.pacer = Pacer(self.loop.readers, next_temporal_change=lambda: self.loop.next_temporal_change)
        self.loop.start(epoch=epoch, once=once)

    def run(self) -> int:
        """Commit all due batches; return their number."""
        orders = PacingOrders(self.loop.checkpoint.end, timedelta(0), 1_000_000, self.loop.targets)
        batches = 0
        if self.loop.needs_full_refresh():
            self.loop.full_refresh()
        while (end := self.pacer.next_end(self.loop.checkpoint.end, orders, self.now)) != self.loop.checkpoint.end:
            self.loop.commit_batch(self.loop.checkpoint.end, end)
            batches += 1
        return batches

    @property
    def at(self) -> int:
        return int(self.loop.checkpoint.end[CLOCK]["at"])

    def due(self) -> int | None:
        return self.loop.next_temporal_change

    def numbers(self) -> list[int]:
        return [number for (number,) in rows(self.folder)]


def later(sink: Timed, seconds: float) -> Timed:
    sink.now = START + int(seconds * 1000)
    return sink


def test_a_row_goes_on_time_though_no_data_comes_and_nothing_due_commits_nothing(tmp_path: Path) -> None:
    sink = Timed(tmp_path)
    sink.start()
    assert (sink.run(), sink.numbers(), sink.at) == (1, [1, 2, 3, 4, 5], START)
    assert sink.due() == START + 1000
    assert later(sink, 0.999).run() == 0
    assert sink.at == START
    assert (later(sink, 1).run(), sink.numbers(), sink.at) == (1, [2, 3, 4, 5], START + 1000)
    assert (later(sink, 4.5).run(), sink.numbers(), sink.at) == (1, [5], START + 4500)
    assert (later(sink, 1000).run(), sink.numbers()) == (1, [])
    assert sink.due() is None
    assert later(sink, 10_000).run() == 0


def test_a_start_continues_at_the_time_of_the_last_commit(tmp_path: Path) -> None:
    sink = Timed(tmp_path)
    sink.start()
    sink.run()
    again = later(Timed(tmp_path), 2)
    again.start(epoch=2)
    assert again.at == START
    assert again.due() == START + 1000
    assert (again.run(), again.numbers(), again.at) == (1, [3, 4, 5], START + 2000)


def test_a_batch_that_is_in_the_table_already_is_not_done_again(tmp_path: Path) -> None:
    sink = Timed(tmp_path)
    sink.start()
    begin = sink.loop.checkpoint.end
    sink.run()
    assert sink.loop.commit_batch(begin, sink.loop.checkpoint.end) is None
    assert sink.numbers() == [1, 2, 3, 4, 5]


def test_a_run_once_commits_what_is_due_by_its_start(tmp_path: Path) -> None:
    sink = Timed(tmp_path)
    sink.start(once=True)
    sink.now += MINUTE  # the clock advances during the run
    assert (sink.run(), sink.at) == (1, START)
    assert sink.loop.caught_up()
    again = later(Timed(tmp_path), 0.5)
    again.start(epoch=2, once=True)
    assert again.loop.caught_up()  # the time has changed, but nothing is due
    third = later(Timed(tmp_path), 2)
    third.start(epoch=3, once=True)
    assert not third.loop.caught_up()
    assert (third.run(), third.numbers()) == (1, [3, 4, 5])
    assert third.loop.caught_up()


def test_a_clock_that_is_a_little_behind_leaves_the_time_where_it_is(tmp_path: Path) -> None:
    sink = Timed(tmp_path)
    sink.start()
    sink.run()
    behind = later(Timed(tmp_path), -59)
    behind.start(epoch=2)
    assert behind.run() == 0
    assert behind.loop.readers[CLOCK].latest({"at": START}, Limit(1)) == {"at": START}
    assert behind.at == START


def test_a_clock_that_is_a_minute_behind_is_waited_for(tmp_path: Path) -> None:
    sink = Timed(tmp_path)
    sink.start()
    sink.run()
    behind = later(Timed(tmp_path), -60)
    with pytest.raises(SinkqlError, match="60 seconds behind the time of the sink's last commit") as caught:
        behind.start(epoch=2)
    assert caught.value.code == "SQ3213"
    assert caught.value.retryable
    assert caught.value.detail == (
        "the commit was made at 2023-11-14 22:13:20 UTC, the time here is 2023-11-14 22:12:20 UTC"
    )
    later(sink, -60)
    with pytest.raises(SinkqlError, match="60 seconds behind"):
        sink.loop.commit_batch(sink.loop.checkpoint.end, {**sink.loop.checkpoint.end, CLOCK: {"at": START + 1000}})


def test_lost_state_is_made_again_for_the_time_of_the_checkpoint(tmp_path: Path) -> None:
    sink = Timed(tmp_path)
    sink.start()
    sink.run()
    later(sink, 2).run()
    shutil.rmtree(sink.loop.folder / "state")
    again = later(Timed(tmp_path), 2)
    again.start(epoch=2)
    assert again.due() is not None
    assert (later(again, 3).run(), again.numbers()) == (1, [4, 5])
    assert (later(again, 4).run(), again.numbers()) == (1, [5])


def test_rows_that_are_computed_again_are_those_of_that_time(tmp_path: Path) -> None:
    sink = Timed(tmp_path, up_to=9)
    sink.start()
    sink.run()
    later(sink, 4).run()
    assert sink.numbers() == [5, 6, 7, 8, 9]
    other = later(Timed(tmp_path, 9, follows=(physical.Earlier(sink.job.plan, again=True),), seconds=2), 4)
    other.start(epoch=2)
    assert other.loop.needs_full_refresh()
    assert (other.run(), other.numbers(), other.at) == (0, [3, 4, 5, 6, 7, 8, 9], START + 4000)
    assert (later(other, 6).run(), other.numbers()) == (1, [4, 5, 6, 7, 8, 9])


class _KilledError(Exception):
    """The simulated end of the process."""


@pytest.mark.parametrize("point", ["data-files", "state-manifest", "committed"])
def test_a_batch_that_is_broken_off_comes_again_to_the_same(tmp_path: Path, point: str, fail_at: FailAt) -> None:
    sink = Timed(tmp_path)
    sink.start()
    sink.run()
    fail_at(point, _KilledError)
    with pytest.raises(_KilledError):
        later(sink, 2).run()
    again = later(Timed(tmp_path), 3)
    again.start(epoch=2)
    again.run()
    assert again.numbers() == [4, 5]
    assert later(again, 4).run() == 1
    assert again.numbers() == [5]


FailAt = Callable[[str, type[Exception]], None]


@pytest.fixture
def fail_at(monkeypatch: pytest.MonkeyPatch) -> FailAt:
    """Return a function that makes the next pass of a failpoint raise."""

    def fail(name: str, error: type[Exception]) -> None:
        def point(passed: str) -> None:
            if passed == name:
                monkeypatch.undo()
                raise error

        monkeypatch.setattr(failpoint, "point", point)

    return fail
