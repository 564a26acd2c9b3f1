"""A sink whose query changes to another relation continues in its table."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import msgspec
import pytest

from runtime.test_batch import open_loop
from sinkql import physical
from sinkql.connector_api.registry import discover
from sinkql.connector_api.stream import NO_PLAN, ClaimRequest, PlanChange
from sinkql.errors import SinkqlError
from sinkql.runtime.batch.events import Event, SinkRereading, silent
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.sink import incarnation
from sinkql.runtime.sink.host import SharedSpark, SinkHost, SinkOutcome
from sinkql.runtime.sink.runner import SinkRunner
from sinkql.runtime.sink.workload import SinkAssignment
from support.lake import Lake, Sink
from support.running import FixedWorkload, MemoryControl, contexts, counter, csv_files, drain, job, output, rows


def _read(folder: Path, name: str) -> physical.Read:
    (folder / name).mkdir(exist_ok=True)
    read = csv_files(folder)
    return physical.Read(name, read.connector, {**read.options, "path": str(folder / name)}, read.columns)


def _put(folder: Path, name: str, *numbers: int) -> None:
    (folder / name).mkdir(exist_ok=True)
    (folder / name / f"{numbers[0]}.csv").write_text("id\n" + "".join(f"{number}\n" for number in numbers))


def _job(folder: Path, *names: str, follows: tuple[str, ...] = ()) -> physical.Job:
    reads = tuple(_read(folder, name) for name in names)
    body: physical.Operator = reads[0] if len(reads) == 1 else physical.Union(reads)
    return msgspec.structs.replace(job(body, folder), follows=tuple(map(physical.Earlier, follows)))


def _run(each: physical.Job, folder: Path, *, epoch: int) -> None:
    loop = open_loop(each, folder)
    loop.start(epoch=epoch, once=True)
    drain(loop)


def test_shared_sources_continue_and_new_ones_begin_at_their_end(tmp_path: Path) -> None:
    before = _job(tmp_path, "a")
    after = _job(tmp_path, "a", "b", follows=(before.plan,))
    _put(tmp_path, "a", 1, 2)
    _put(tmp_path, "b", 100)
    _run(before, tmp_path, epoch=1)
    _put(tmp_path, "a", 3)
    assert open_loop(after, tmp_path).start(epoch=2).plan == after.plan
    _put(tmp_path, "b", 101)
    _run(after, tmp_path, epoch=3)
    assert rows(tmp_path) == [(1,), (2,), (3,), (101,)]
    # A process with the old plan can no longer write.
    with pytest.raises(SinkqlError) as refused:
        open_loop(before, tmp_path).start(epoch=4)
    assert refused.value.code == "SQ3410"


def test_a_switch_that_was_claimed_alone_is_not_done_again(tmp_path: Path) -> None:
    before = _job(tmp_path, "a")
    after = _job(tmp_path, "b", follows=(before.plan,))
    _put(tmp_path, "a", 1)
    _put(tmp_path, "b", 100)
    _run(before, tmp_path, epoch=1)
    claimed = open_loop(after, tmp_path).start(epoch=2)
    _put(tmp_path, "b", 101)
    assert open_loop(after, tmp_path).start(epoch=3).end == claimed.end
    _run(after, tmp_path, epoch=4)
    assert rows(tmp_path) == [(1,), (101,)]


def test_a_way_back_writes_nothing_twice(tmp_path: Path) -> None:
    first, second = _job(tmp_path, "a"), _job(tmp_path, "b")
    _put(tmp_path, "a", 1)
    _run(first, tmp_path, epoch=1)
    _run(_job(tmp_path, "b", follows=(first.plan,)), tmp_path, epoch=2)
    _put(tmp_path, "a", 2)
    back = _job(tmp_path, "a", follows=(first.plan, second.plan))
    open_loop(back, tmp_path).start(epoch=3)
    _put(tmp_path, "a", 3)
    _run(back, tmp_path, epoch=4)
    assert rows(tmp_path) == [(1,), (3,)]


def test_a_sink_that_wrote_nothing_begins_with_all_there_is(tmp_path: Path) -> None:
    before = _job(tmp_path, "a")
    _put(tmp_path, "b", 100)
    assert open_loop(before, tmp_path).start(epoch=1).plan == NO_PLAN
    _run(_job(tmp_path, "b", follows=(before.plan,)), tmp_path, epoch=2)
    assert rows(tmp_path) == [(100,)]


def test_any_other_plan_is_refused(tmp_path: Path) -> None:
    before = _job(tmp_path, "a")
    _put(tmp_path, "a", 1)
    _run(before, tmp_path, epoch=1)
    with pytest.raises(SinkqlError) as refused:
        _run(_job(tmp_path, "b", follows=("0123456789abcdef",)), tmp_path, epoch=2)
    assert refused.value.code == "SQ3410"


def _anew(folder: Path) -> tuple[physical.Job, physical.Job]:
    """Return a job of all rows of "a", and a job of fewer rows that does a full refresh of its table."""
    before = job(_read(folder, "a"), folder, key=("id",))
    few = physical.Map(_read(folder, "a"), (), output("", "`id` > 1", "boolean"))
    earlier = (physical.Earlier(before.plan, again=True),)
    return before, msgspec.structs.replace(job(few, folder, key=("id",)), follows=earlier)


def test_rows_come_again_only_of_sources_that_still_have_all_that_was_read(tmp_path: Path) -> None:
    before, after = _anew(tmp_path)
    _put(tmp_path, "a", 1, 2)
    _run(before, tmp_path, epoch=1)
    _put(tmp_path, "a", 3)
    away = tmp_path / "away.csv"
    (tmp_path / "a" / "1.csv").rename(away)
    with pytest.raises(SinkqlError) as refused:
        _run(after, tmp_path, epoch=2)
    assert refused.value.code == "SQ3415"
    assert rows(tmp_path) == [(1,), (2,)]
    away.rename(tmp_path / "a" / "1.csv")
    _run(after, tmp_path, epoch=3)
    assert rows(tmp_path) == [(2,), (3,)]


def test_rows_of_files_that_were_copied_since_come_again_too(tmp_path: Path) -> None:
    before, after = _anew(tmp_path)
    _put(tmp_path, "a", 1)
    _put(tmp_path, "a", 2)
    _run(before, tmp_path, epoch=1)
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "copy").rename(tmp_path / "a")
    _put(tmp_path, "a", 3)
    _run(msgspec.structs.replace(after, max_rows_per_commit=1), tmp_path, epoch=2)
    assert rows(tmp_path) == [(2,), (3,)]


def test_parts_become_longer_where_there_are_many(tmp_path: Path) -> None:
    count = 400
    before = job(counter(up_to=count), tmp_path, key=("counter",))
    _run(before, tmp_path, epoch=1)
    body = physical.Map(counter(up_to=count), (), output("", "`counter` % 2 = 1", "boolean"))
    after = job(body, tmp_path, key=("counter",), max_rows=1)
    after = msgspec.structs.replace(after, follows=(physical.Earlier(before.plan, again=True),))
    loop = open_loop(after, tmp_path)
    loop.start(epoch=2, once=True)
    read: list[int] = []
    loop.full_refresh(lambda step, rows: read.append(rows) if step == "reading" else None)
    assert read[:50] == list(range(50))
    assert read[-1] == count
    assert len(read) < count / 2
    assert rows(tmp_path) == [(number,) for number in range(1, count + 1, 2)]


@pytest.mark.parametrize("wish", ["stopped", "dropped"])
def test_a_sink_that_computes_its_rows_again_stops_when_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wish: Literal["stopped", "dropped"]
) -> None:
    before, after = _anew(tmp_path)
    _put(tmp_path, "a", 1, 2)
    _run(before, tmp_path, epoch=1)
    control, workload = MemoryControl(), FixedWorkload([after])

    def tell(event: Event) -> None:
        if isinstance(event, SinkRereading):
            control.wanted[after.sink_id] = wish

    monkeypatch.setattr(incarnation, "_LOOK_SECONDS", 0.0)
    session: Any = SimpleNamespace  # Spark is not used
    host = SinkHost(
        SharedSpark(session, 2, tmp_path), discover(), control, tell, workload,
        lambda each: contexts(tmp_path, each), once=False,
    )  # fmt: skip
    host.desired_states.every_seconds = 0.0
    assert SinkRunner(host, workload.now()[0]).run() == SinkOutcome(after.sink, wish)
    assert control.statuses[-1] == (after.sink_id, wish, None)
    assert rows(tmp_path) == [(1,), (2,)]


def test_a_sink_that_is_renamed_continues_computing_its_rows_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = _anew(tmp_path)
    _put(tmp_path, "a", 1, 2)
    _run(before, tmp_path, epoch=1)
    begun = []

    def full_refresh(loop: BatchLoop, between: Callable[[str, int], None]) -> None:
        begun.append(loop.job.sink)
        workload.jobs = [msgspec.structs.replace(after, sink="renamed")]
        between("reading", 0)
        raise SinkqlError("SQ3415", "begun and not interrupted")

    monkeypatch.setattr(BatchLoop, "full_refresh", full_refresh)
    workload: Any = SimpleNamespace(
        jobs=[after], assignment=lambda sink_id: FixedWorkload(workload.jobs).assignment(sink_id)
    )
    session: Any = SimpleNamespace  # Spark is not used
    host = SinkHost(
        SharedSpark(session, 2, tmp_path),
        discover(),
        MemoryControl(),
        silent,
        workload,
        lambda each: contexts(tmp_path, each),
        once=False,
    )
    assert SinkRunner(host, SinkAssignment(after)).run().error is not None
    assert begun == [after.sink]


def test_a_switch_continues_from_what_the_table_says_at_the_claim(tmp_path: Path) -> None:
    sink = Sink(Lake(tmp_path), "t")
    stale = sink.start().end
    sink.put((1, "a"))
    begin = {**stale, "new": {"batch": 7}}
    checkpoint = sink.writer.claim(ClaimRequest(begin, epoch=2, switch=PlanChange("other", {"plan": {}})))
    assert (checkpoint.plan, checkpoint.end) == ("other", {"numbers": {"batch": 1}, "new": {"batch": 7}})
    again = sink.writer.claim(ClaimRequest(begin, epoch=3, switch=PlanChange("third", {"plan": {}})))
    assert (again.plan, again.end) == ("other", checkpoint.end)


def test_rows_of_others_go_also_where_a_sink_changes_before_its_first_batch(tmp_path: Path) -> None:
    def replacing(each: physical.Job) -> physical.Job:
        write = msgspec.structs.replace(each.write, options={**each.write.options, "existing_rows": "replace"})
        return msgspec.structs.replace(each, sink_id="id-other", write=write)

    for number, name in enumerate(("others", "a", "b"), 1):
        _put(tmp_path, name, number)
    _run(_job(tmp_path, "others"), tmp_path, epoch=1)
    before = replacing(_job(tmp_path, "a"))
    after = replacing(_job(tmp_path, "b", follows=(before.plan,)))
    for each in (before, after):
        open_loop(each, tmp_path).start(epoch=1)
    assert rows(tmp_path) == [(1,)]
    _run(after, tmp_path, epoch=3)
    assert rows(tmp_path) == [(3,)]
    _put(tmp_path, "b", 4)
    _run(after, tmp_path, epoch=4)
    assert rows(tmp_path) == [(3,), (4,)]
