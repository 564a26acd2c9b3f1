"""The processed-files log: its contents, the files that it writes, and the files that remain after a sweep."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crash.pipeline import Pipeline
from sinkql.connector_api.registry import discover
from sinkql.connector_api.stream import Context
from sinkql.connectors.files.content import SeenFile
from sinkql.connectors.files.processed_files import ProcessedFilesLog
from sinkql.connectors.files.reader import FilesReader
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.local.engine import LocalEngine
from sinkql.storage import failpoint
from support.fault import armed
from support.readers import duckdb_folder
from support.running import csv_files, drain, loop_of

_FILE = 100


def _files(numbers: range) -> list[SeenFile]:
    return [SeenFile(f"{number:06}", 1, 2, 3, 4, ((1, 0, "d" * 32),)) for number in numbers]


def _appended(log: ProcessedFilesLog, commits: int) -> list[str]:
    heads: list[str] = []
    for number in range(commits):
        heads.append(log.append(heads[-1] if heads else None, _files(range(number, number + 1))))
    return heads


def test_a_log_writes_little_more_than_its_own_files_and_needs_few_segments(tmp_path: Path) -> None:
    log = ProcessedFilesLog(tmp_path)
    heads = _appended(log, 400)
    written = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert written < 400 * 40 * _FILE
    assert max(len(log.names(head)) for head in heads) <= 32
    needed = sum((tmp_path / name).stat().st_size for name in log.names(heads[-1]))
    assert needed < 400 * 2 * _FILE


def test_any_two_heads_tell_what_came_between_them(tmp_path: Path) -> None:
    heads: list[str | None] = [None, *_appended(ProcessedFilesLog(tmp_path), 200)]
    log, chance = ProcessedFilesLog(tmp_path), random.Random(3)
    for _ in range(60):
        start, end = sorted(chance.sample(range(201), 2))
        log = log if chance.random() < 0.7 else ProcessedFilesLog(tmp_path)
        assert [file.name for file in _files(range(start, end))] == sorted(
            file.name for file in log.added(heads[start], heads[end])
        )
        at = chance.choice([start, end])
        assert {file.name: file for file in _files(range(at))} == log.seen(heads[at])


def test_what_two_heads_do_not_need_can_go(tmp_path: Path) -> None:
    log = ProcessedFilesLog(tmp_path)
    heads = _appended(log, 300)
    assert log.unneeded(heads[-2:], before=time.time() - 60) == ()
    for name in log.unneeded(heads[-2:], before=time.time() + 60):
        (tmp_path / name).unlink()
    assert len(list(tmp_path.iterdir())) <= 64
    for count, head in ((299, heads[-2]), (300, heads[-1])):
        assert {file.name: file for file in _files(range(count))} == ProcessedFilesLog(tmp_path).seen(head)


def test_nothing_goes_while_a_head_is_missing_or_damaged(tmp_path: Path) -> None:
    """The files that the head needs are unknown then."""
    *_, head = _appended(ProcessedFilesLog(tmp_path), 20)
    assert ProcessedFilesLog(tmp_path).unneeded([head], before=time.time() + 60)
    (tmp_path / head).write_bytes(b"[]")
    assert ProcessedFilesLog(tmp_path).unneeded([head], before=time.time() + 60) == ()
    (tmp_path / head).unlink()
    assert ProcessedFilesLog(tmp_path).unneeded([head], before=time.time() + 60) == ()


def test_a_folder_that_has_just_what_the_last_head_needs_continues(tmp_path: Path) -> None:
    """Another host has only these files, without the previous head if it was merged."""
    heads = _appended(ProcessedFilesLog(tmp_path / "old"), 70)
    without = []
    for number, (before, head) in enumerate(itertools.pairwise(heads)):
        new = tmp_path / f"new{number}"
        new.mkdir()
        for name in ProcessedFilesLog(tmp_path / "old").names(head):
            shutil.copy(tmp_path / "old" / name, new / name)
        without += [number] if not (new / before).exists() else []
        log = ProcessedFilesLog(new)
        for name in log.unneeded([before, head], before=time.time() + 60):
            (new / name).unlink()
        more = log.append(head, _files(range(number + 2, number + 3)))
        assert set(ProcessedFilesLog(new).seen(more)) == {f"{each:06}" for each in range(number + 3)}
    assert without


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipeline]:
    """Yield a pipeline of twenty files with a commit for each, whose log is swept at every second commit."""
    (tmp_path / "in").mkdir()
    for number in range(20):
        (tmp_path / "in" / f"{number:03}.json").write_text(f'{{"n": {number}}}\n')
    monkeypatch.setattr("sinkql.runtime.batch.maintenance._SWEEP_EVERY", 2)
    monkeypatch.setattr("sinkql.runtime.batch.maintenance._SKEW_SECONDS", 0.0)
    failpoint._passes.clear()
    yield Pipeline(tmp_path, "append", batch_rows=1)
    failpoint._passes.clear()


def _loop(pipeline: Pipeline) -> BatchLoop:
    job, registry = pipeline.job(), discover()
    pipeline.state.mkdir(parents=True, exist_ok=True)
    context = Context(job.sink, job.sink_id, pipeline.state, lambda _: "")
    return loop_of(job, context, registry, engine=LocalEngine(1))


def _run(pipeline: Pipeline) -> BatchLoop:
    loop = _loop(pipeline)
    loop.start(epoch=1, once=True)
    drain(loop)
    return loop


def _kept(pipeline: Pipeline) -> tuple[set[str], set[str]]:
    """Return the names of segments in the state folder and in the table's folder."""
    table = (path.name for path in (pipeline.folder / "lake").rglob("*-files-*.json.stats"))
    return (
        {path.name for path in (pipeline.state / "files").rglob("files-*.json")},
        {name[name.rindex("files-") :].removesuffix(".stats") for name in table},
    )


_POINTS = ("files-listed", "files-merge", "attached", "position-unneeded", "position-detached", "committed")


@pytest.mark.share(2)
@pytest.mark.parametrize("point", _POINTS)
def test_a_log_whose_sink_fails_at_any_step_is_whole_and_swept_in_both_places(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    with monkeypatch.context() as patched:
        for name, value in armed(f"{point}#9=fail" if point != "files-merge" else f"{point}#1=fail").items():
            patched.setenv(name, value)
        with pytest.raises(failpoint.FaultError):
            _run(pipeline)
    loop = _run(pipeline)
    (reader,) = loop.readers.values()
    found = duckdb_folder(str(next((pipeline.folder / "lake").rglob("metadata")).parent), "n")
    assert [(number,) for number in range(20)] == sorted(found)
    for path in (pipeline.state / "files").rglob("files-*.json"):
        os.utime(path, (1, 1))
    loop.maintenance.sweep_source_files(loop.targets)
    files = reader.files
    assert files is not None
    ends = [*loop.checkpoint.start.values(), *loop.checkpoint.end.values()]
    needed = {Path(name).name for end in ends for name in files.required_files(end)}
    state, table = _kept(pipeline)
    assert needed == state
    assert table <= needed
    assert {Path(name).name for end in loop.checkpoint.end.values() for name in files.required_files(end)} <= table


@pytest.mark.share(2)
@pytest.mark.parametrize(("what", "commits"), [("all", 6), ("all", 12), ("head", 6), ("older", 6), ("damaged", 6)])
def test_segments_lost_in_the_state_folder_come_back_from_the_table(
    pipeline: Pipeline, what: str, commits: int
) -> None:
    for number in range(3, 20):
        (pipeline.folder / "in" / f"{number:03}.json").unlink()
    for number in range(3, commits):
        loop = _run(pipeline)
        (pipeline.folder / "in" / f"{number:03}.json").write_text(f'{{"n": {number}}}\n')
    ((end, reader),) = zip(loop.checkpoint.end.values(), loop.readers.values(), strict=True)
    assert reader.files is not None
    head, *older = [pipeline.state / name for name in reader.files.required_files(end)]
    match what:
        case "all":
            shutil.rmtree(pipeline.state)
        case "head":
            head.unlink()
        case "older":
            older[1].unlink()
        case _:
            older[0].write_bytes(b"[]")
    _run(pipeline)
    found = duckdb_folder(str(next((pipeline.folder / "lake").rglob("metadata")).parent), "n")
    assert [(number,) for number in range(commits)] == sorted(found)


def test_figures_for_another_thread_change_nothing_of_what_a_batch_knows(tmp_path: Path) -> None:
    """Otherwise a full refresh would skip files that seem to be processed already."""
    (tmp_path / "in").mkdir()
    read = csv_files(tmp_path)
    reader = discover().reader(read, Context("s", "id", tmp_path / "state", lambda _: ""))
    assert isinstance(reader, FilesReader)
    offsets = [reader.initial(at_end=False)]
    for name in ("a", "b"):
        (tmp_path / "in" / f"{name}.csv").write_text("id\n1\n")
        offsets.append(reader.target(offsets[-1]))
    _, first, second = offsets
    seen = reader.log.seen(first["log"])
    assert reader.measure(second).committed == 2
    assert reader.lag(second) == 0.0
    assert set(seen) == {"a.csv"}
