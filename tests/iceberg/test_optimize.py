"""OPTIMIZE SINK compacts the files that exist at the request, each once, even while batches commit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sinkql.connectors.iceberg.compact.compaction import Attempt, Compaction, WrongIndexError
from sinkql.connectors.iceberg.compact.upsert import UpsertCompaction
from sinkql.connectors.iceberg.file.deletes import live_files
from sinkql.connectors.iceberg.write.compaction import CompactionSchedule
from sinkql.runtime.sink.requests import OptimizeProgress
from support.lake import Lake, Sink

ROUNDS = 200


def churn(batch: int) -> list[tuple[int, str | None]]:
    """Return a batch's rows; they update keys of all earlier batches."""
    return [(each, f"{batch}.{each}") for each in range(12)] + [(100 + batch, None)]


def started(lake: Lake, name: str, *, upsert: bool, batches: int = 7, **options: Any) -> Sink:
    sink = Sink(lake, name, upsert=upsert, options=options)
    sink.start()
    for batch in range(batches):
        sink.put(*churn(batch))
    return sink


def expected(*, upsert: bool, batches: int) -> list[tuple[int, str | None]]:
    rows = [row for batch in range(batches) for row in churn(batch)]
    return sorted(dict(rows).items()) if upsert else rows


def optimize(sink: Sink, lake: Lake, name: str) -> OptimizeProgress:
    work = OptimizeProgress()
    while not work.finished:
        sink.writer.refresh()
        work.add(*sink.writer.maintenance.optimize())
    return work


@pytest.mark.share(3)
@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.parametrize("upsert", [False, True])
def test_it_ends_though_batches_come_between(lake: Lake, name: str, *, upsert: bool, steps: int) -> None:
    sink = started(lake, name, upsert=upsert, retain_snapshots=1)
    before = live_files(lake.table(name)).data.keys()
    work, batch = OptimizeProgress(), 7
    while not work.finished:
        sink.put(*churn(batch))
        batch += 1
        assert batch < ROUNDS
        left = iter([*[True] * (steps or ROUNDS), False])
        sink.writer.refresh()
        work.add(*sink.writer.maintenance.optimize(partial(next, left)))
    assert work.total().problem is None
    assert not before & live_files(lake.table(name)).data.keys()
    assert len(lake.table(name).metadata.snapshots) == 1
    assert sorted(lake.rows(name)) == sorted(expected(upsert=upsert, batches=batch))


@pytest.mark.parametrize("upsert", [False, True])
def test_snapshots_stay_until_it_is_done(lake: Lake, name: str, *, upsert: bool) -> None:
    sink = started(lake, name, upsert=upsert, retain_snapshots=1)
    before = len(lake.table(name).metadata.snapshots)
    sink.writer.refresh()
    left = iter([True, True, False])
    done, finished = sink.writer.maintenance.optimize(lambda: next(left))
    assert (list(done), finished) == ([], False)  # the compaction still reads the files
    assert len(lake.table(name).metadata.snapshots) == before


class Mode:
    """Compactions of three steps that find no files due; `whole` records whether each had a scope."""

    def __init__(self) -> None:
        self.whole: list[bool] = []

    def compact(self, attempt: Attempt, kept: object) -> Iterator[bool]:
        self.whole.append(attempt.scope is not None)
        yield True
        yield False
        yield True

    def skipped_files(self) -> str | None:
        return None


def test_what_had_been_begun_is_not_all() -> None:
    mode: Any = Mode()
    target: Any = SimpleNamespace()
    table: Any = object()
    kept: Any = object()
    compacting = CompactionSchedule(target, mode, target)
    left = iter([True, False])
    compacting.compact_next(table, kept, go_on=lambda begun: next(left))
    told = []
    for _ in range(4):
        compacting.compact_next(table, kept, go_on=lambda begun: True, whole=True)
        told.append(compacting.finished)
    assert mode.whole == [False, True, True]
    assert told == [False, False, True, False]


@pytest.mark.parametrize("upsert", [False, True])
def test_a_file_that_cannot_be_read_is_left_and_told_of(lake: Lake, name: str, *, upsert: bool) -> None:
    sink = started(lake, name, upsert=upsert)
    before = sorted(live_files(lake.table(name)).data)
    damaged = Path(before[0].removeprefix("file://"))
    whole = damaged.read_bytes()
    damaged.write_bytes(b"no Parquet")
    done = optimize(sink, lake, name).total()
    assert str(damaged) in str(done.problem)
    assert done.files_before > done.files_after > 0
    assert len(live_files(lake.table(name)).data) < len(before)
    assert f"file://{damaged}" in live_files(lake.table(name)).data
    damaged.write_bytes(whole)
    assert sorted(lake.rows(name)) == sorted(expected(upsert=upsert, batches=7))


def test_an_index_that_is_wrong_is_recreated(lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = started(lake, name, upsert=True)
    finish, left = UpsertCompaction._finish, [True]

    def wrong_once(self: UpsertCompaction, *arguments: Any) -> tuple[Compaction, Any] | None:
        if left:
            left.pop()
            raise WrongIndexError("a file", "it has other rows")
        return finish(self, *arguments)

    monkeypatch.setattr(UpsertCompaction, "_finish", wrong_once)
    assert optimize(sink, lake, name).total().problem is None
    assert len(live_files(lake.table(name)).data) <= 2
    assert lake.rows(name) == expected(upsert=True, batches=7)
