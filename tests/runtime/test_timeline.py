"""Each tick is created once, jobs of any speed meet at common ticks, and a job delays only its readers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from sinkql.connector_api.stream import JobOffsets, Limit, Offsets, ReadCounts, Reader, Split, ViewLogReader
from sinkql.runtime.batch.timeline import Ticks, Timeline, TimelineInputs
from sinkql.storage.numbered_log import FolderNumberedLog

_LIMIT = Limit(1000)


class _Nothing(Reader):
    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        return []

    def read(self, split: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        return iter(())

    def initial(self, *, at_end: bool) -> Offsets:
        return {"at": 0}

    def target_reached(self, offsets: Offsets, target: Offsets) -> bool:
        return bool(offsets["at"] >= target["at"])


@dataclass
class Counting(_Nothing):
    """A source with `count` rows."""

    count: int = 0

    def target(self, start: Offsets) -> Offsets:
        return {"at": self.count}

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        end = self.count if until is None else until["at"]
        return {"at": max(start["at"], min(end, start["at"] + limit.rows))}

    def comparable_position(self, offsets: Offsets) -> Offsets | None:
        return offsets


@dataclass
class Logging(_Nothing, ViewLogReader):
    """The view log of a job: the positions of its sources at each entry."""

    entries: list[JobOffsets] = field(default_factory=list)

    @property
    def view_log(self) -> ViewLogReader:
        return self

    def target(self, start: Offsets) -> Offsets:
        return {"at": len(self.entries)}

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        return {"at": len(self.entries)}

    def positions_below(self, offsets: Offsets) -> JobOffsets | None:
        return self.entries[offsets["at"] - 1] if offsets["at"] else None

    def list_positions(self, start: Offsets) -> Iterator[tuple[Offsets, JobOffsets]]:
        for number in range(len(self.entries), max(0, start["at"] - 1), -1):
            yield {"at": number}, self.entries[number - 1]

    def last_change(self, offsets: Offsets) -> Offsets:
        return offsets


@dataclass
class Job:
    """A job that reads some inputs and keeps a view log."""

    folder: Path
    readers: dict[str, Reader]
    below: dict[str, tuple[str, ...]]
    log: Logging = field(default_factory=Logging)
    at: JobOffsets = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.timeline = Timeline(
            Ticks(FolderNumberedLog(self.folder)), TimelineInputs(self.below, self.readers), keeps_log=True
        )
        self.at = {name: {"at": 0} for name in self.readers}

    def step(self, limit: Limit = _LIMIT) -> bool:
        """Run a batch; return whether one was due."""
        step = self.timeline.ahead(self.at, limit)
        if step.ends == self.at:
            return False
        self.at = step.ends
        below = self.timeline.below(self.at)
        assert below is not None
        assert self.timeline.agrees(self.at)
        self.log.entries.append(below)
        return True


def source_job(folder: Path, **sources: Counting) -> Job:
    return Job(folder, dict(sources), {name: (name,) for name in sources})


def test_jobs_that_are_behind_meet_at_round_ticks(tmp_path: Path) -> None:
    source = Counting()
    quick, even, odd = (source_job(tmp_path, s=source) for _ in range(3))
    reader = Job(tmp_path, {"even": even.log, "odd": odd.log}, {"even": ("s",), "odd": ("s",)})
    steps = 0
    for turn in range(64):
        source.count += 1
        quick.step()
        if turn % 4 == 0:
            even.step()
        if turn % 4 == 2:
            odd.step()
        steps += reader.step()
    assert steps > 10
    assert reader.at["even"]["at"] > 10


def test_a_job_that_stands_holds_up_only_those_that_read_it(tmp_path: Path) -> None:
    source = Counting()
    standing, *going = (source_job(tmp_path, s=source) for _ in range(3))
    logs = {"standing": standing.log, "first": going[0].log, "second": going[1].log}

    def reading(*names: str) -> Job:
        return Job(tmp_path, {name: logs[name] for name in names}, dict.fromkeys(names, ("s",)))

    held, free = reading("standing", "first"), reading("first", "second")
    for turn in range(20):
        source.count += 1
        for job in (*going, *([standing] if turn < 5 else [])):
            job.step()
        held.step()
        free.step()
    assert free.at["first"]["at"] == free.at["second"]["at"] == 20
    assert held.at["first"]["at"] == 5


def test_who_waits_for_a_log_makes_no_tick(tmp_path: Path) -> None:
    source = Counting(5)
    quick, slow = (source_job(tmp_path, s=source) for _ in range(2))
    beside = Job(tmp_path, {"slow": slow.log, "s": source}, {"slow": ("s",), "s": ("s",)})
    for job in (quick, slow, beside):
        assert job.step()
    source.count = 7
    quick.step()
    source.count = 9
    assert not beside.step()
    assert [tick.sources["s"]["at"] for _, tick in Ticks(FolderNumberedLog(tmp_path)).newest_first()] == [7, 5]
    assert slow.step()
    assert beside.step()
    assert beside.at["s"] == {"at": 7}


def test_a_tick_of_more_sources_takes_none_back(tmp_path: Path) -> None:
    s, t = Counting(50), Counting(7)
    one, two = source_job(tmp_path, s=s), source_job(tmp_path, s=s, t=t)
    one.step()
    two.step(Limit(10))
    assert [tick.sources for _, tick in Ticks(FolderNumberedLog(tmp_path)).newest_first()] == [
        {"s": {"at": 50}, "t": {"at": 7}},
        {"s": {"at": 50}},
    ]


def test_a_limit_cuts_a_batch_of_sources_and_no_batch_of_logs(tmp_path: Path) -> None:
    source = Counting(100)
    far, near = source_job(tmp_path, s=source), source_job(tmp_path, s=source)
    assert far.step()
    steps = 0
    while near.step(Limit(30)):
        steps += 1
    assert steps == 4
    beside = Job(tmp_path, {"far": far.log, "s": source}, {"far": ("s",), "s": ("s",)})
    assert beside.step(Limit(1))
    assert beside.at == {"far": {"at": 1}, "s": {"at": 100}}


def test_there_is_more_where_a_limit_cut_what_a_tick_has(tmp_path: Path) -> None:
    source = Counting(70)
    job = source_job(tmp_path, s=source)
    told = []
    while (step := job.timeline.ahead(job.at, Limit(30))).ends != job.at:
        told.append((step.ends["s"]["at"], step.more))
        job.at = step.ends
    assert told == [(30, True), (60, True), (70, False)]


def test_who_is_beyond_all_ticks_makes_one_where_it_is(tmp_path: Path) -> None:
    source = Counting(10)
    first, second = source_job(tmp_path, s=source), source_job(tmp_path, s=source)
    second.at = {"s": {"at": 25}}
    second.log.entries.append({"s": {"at": 25}})
    first.step()
    source.count = 25
    assert not second.step()
    first.step()
    reader = Job(tmp_path, {"a": first.log, "b": second.log}, {"a": ("s",), "b": ("s",)})
    assert reader.step()
    assert (first.log.entries[-1], second.log.entries[-1]) == ({"s": {"at": 25}}, {"s": {"at": 25}})


def test_ticks_say_of_each_source_what_whoever_reads_it_said_last(tmp_path: Path) -> None:
    s, t = Counting(5), Counting(7)
    one, two = source_job(tmp_path, s=s), source_job(tmp_path, s=s, t=t)
    one.step()
    two.step()
    newest = Ticks(FolderNumberedLog(tmp_path)).newest()
    assert newest is not None
    assert newest[1].sources == {"s": {"at": 5}, "t": {"at": 7}}
    assert one.timeline.tick(one.timeline.below(one.at)) == 1
    assert two.timeline.tick(two.timeline.below(two.at)) == 2


def test_what_a_run_found_to_be_the_end_is_its_end_for_all(tmp_path: Path) -> None:
    source = Counting(5)
    one, two = source_job(tmp_path, s=source), source_job(tmp_path, s=source)
    for job in (one, two):
        job.timeline.since_ms = 1000
    targets = one.timeline.targets(one.at)
    assert targets == {"s": {"at": 5}}
    one.at = one.timeline.ahead(one.at, _LIMIT, targets).ends
    source.count = 9
    assert two.timeline.targets(two.at) == {"s": {"at": 5}}
    two.timeline.since_ms = 2000
    assert two.timeline.targets(two.at) == {"s": {"at": 9}}


def test_logs_that_came_to_one_place_without_a_tick_meet_there(tmp_path: Path) -> None:
    logs = [Logging([{"s": {"at": 5}}]), Logging([{"s": {"at": 3}}, {"s": {"at": 5}}])]
    reader = Job(tmp_path, {"a": logs[0], "b": logs[1]}, {"a": ("s",), "b": ("s",)})
    assert not reader.step()
    assert reader.timeline.targets(reader.at) == {"a": {"at": 1}, "b": {"at": 2}}
    assert reader.step()
    assert reader.at == {"a": {"at": 1}, "b": {"at": 2}}


def test_logs_that_are_behind_the_last_tick_make_none(tmp_path: Path) -> None:
    logs = [Logging([{"s": {"at": 3}}, {"s": {"at": 5}}]), Logging([{"s": {"at": 3}}, {"s": {"at": 5}}])]
    reader = Job(tmp_path, {"a": logs[0], "b": logs[1]}, {"a": ("s",), "b": ("s",)})
    ticks = Ticks(FolderNumberedLog(tmp_path))
    for at in (3, 5, 7):
        ticks.advance({"s": {"at": at}}, {})
    assert reader.timeline.targets(reader.at) == {"a": {"at": 2}, "b": {"at": 2}}
    newest = ticks.newest()
    assert newest is not None
    assert (newest[0], newest[1].sources) == (3, {"s": {"at": 7}})


def test_where_a_log_has_no_place_yet_no_tick_is_made(tmp_path: Path) -> None:
    logs = [Logging([]), Logging([{"s": {"at": 3}}])]
    reader = Job(tmp_path, {"a": logs[0], "b": logs[1]}, {"a": ("s",), "b": ("s",)})
    assert reader.timeline.targets(reader.at) is None
    assert Ticks(FolderNumberedLog(tmp_path)).newest() is None
