"""A full disk: the error says so, and the sink continues once there is space again."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from crash import verify
from crash.child import open_loop
from crash.pipeline import BATCH_ROWS, Pipeline, write_input
from sinkql.connector_api.stream import Limit
from sinkql.connectors.iceberg.table.target import Patience
from sinkql.errors import LostStateError, SinkqlError
from sinkql.runtime.batch import failure
from sinkql.runtime.batch.loop import BatchLoop

pytestmark = pytest.mark.long

LIMITS = (0, 100, 400, 700, 1_000, 1_500, 2_000, 3_000, 5_000, 8_000, 16_000, 30_000)
"""File size limits in bytes; each stops the sink at another point."""


@contextmanager
def _room(size: int) -> Iterator[None]:
    """Limit the size of this process's files."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Patience, "wait", lambda self, failures: None)


def _drain(loop: BatchLoop, process: Any) -> None:
    while not loop.caught_up():
        start = loop.checkpoint.end
        end = {
            name: reader.latest(start[name], Limit(BATCH_ROWS), (loop.targets or {})[name])
            for name, reader in loop.readers.items()
        }
        process(start, end)


@pytest.mark.parametrize(
    "kind", [pytest.param("append", marks=pytest.mark.soak), pytest.param("upsert", marks=pytest.mark.soak), "view"]
)
@pytest.mark.usefixtures("hasty")
def test_sink_continues_when_there_is_room_again(tmp_path: Path, kind: str) -> None:
    write_input(tmp_path)
    pipeline = Pipeline(tmp_path, kind)
    loop = open_loop(pipeline)
    loop.start(epoch=1, once=True)
    refusals: list[SinkqlError] = []

    def process(start: Any, end: Any) -> None:
        for limit in LIMITS:
            try:
                with _room(limit):
                    loop.commit_batch(start, end)
                return
            except SinkqlError as error:
                refusals.append(error)
        loop.commit_batch(start, end)

    _drain(loop, process)
    assert len(refusals) >= 8
    assert all(error.retryable for error in refusals)
    assert {error.code for error in refusals} <= {"SQ4306", "SQ4207", "SQ4201"}
    assert not any(isinstance(error, LostStateError) for error in refusals)
    verify.check_rows(pipeline)
    verify.check_index(pipeline)
    verify.check_state(pipeline)


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", ["upsert", "view"])
@pytest.mark.usefixtures("hasty")
def test_sink_starts_when_there_is_room_again(tmp_path: Path, kind: str) -> None:
    write_input(tmp_path)
    pipeline = Pipeline(tmp_path, kind)
    first = open_loop(pipeline)
    first.start(epoch=1, once=True)
    _drain(first, first.commit_batch)
    for index in (pipeline.state / "index").glob("*"):
        index.unlink()
    write_input(tmp_path, first=200)
    loop = open_loop(pipeline)
    with _room(50), pytest.raises(SinkqlError) as caught:
        loop.start(epoch=1, once=True)
    assert caught.value.retryable
    again = open_loop(pipeline)
    again.start(epoch=1, once=True)
    _drain(again, again.commit_batch)
    verify.check_rows(pipeline)


@pytest.mark.usefixtures("hasty")
def test_state_that_cannot_be_rebuilt_for_want_of_room_is_rebuilt_later(tmp_path: Path) -> None:
    write_input(tmp_path)
    pipeline = Pipeline(tmp_path, "view")
    loop = open_loop(pipeline)
    loop.start(epoch=1, once=True)
    _drain(loop, loop.commit_batch)
    for run in (pipeline.state / "state").rglob("*.arrow"):
        run.unlink()
    write_input(tmp_path, first=200)
    again = open_loop(pipeline)
    again.start(epoch=1, once=True)
    refusals = []

    def process(start: Any, end: Any) -> None:
        try:
            with _room(100):
                again.commit_batch(start, end)
        except SinkqlError as error:
            refusals.append(error.code)
        again.commit_batch(start, end)

    _drain(again, process)
    assert set(refusals) == {"SQ4306"}
    verify.check_rows(pipeline)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_folder_that_is_read_only_is_no_lost_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    write_input(tmp_path)
    pipeline = Pipeline(tmp_path, "view")
    loop = open_loop(pipeline)
    loop.start(epoch=1, once=True)
    opened = os.open

    def closed(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
        if flags & os.O_CREAT:
            raise OSError(number, os.strerror(number), str(path))
        return opened(path, flags, *arguments, **named)

    def process(start: Any, end: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", closed)
            with pytest.raises(SinkqlError, match="cannot be read or written") as caught:
                loop.commit_batch(start, end)
        assert (caught.value.code, caught.value.retryable) == ("SQ4307", True)
        loop.commit_batch(start, end)

    _drain(loop, process)
    verify.check_rows(pipeline)


def test_what_java_says_of_a_full_disk_is_understood() -> None:
    text = "An error occurred\n\tat x.y.Z\nCaused by: java.io.IOException: No space left on device\n\tat java.base"
    error = failure.with_code(RuntimeError(text))
    assert (error.code, error.detail) == ("SQ4306", "Caused by: java.io.IOException: No space left on device")


def test_task_tells_of_a_full_disk() -> None:
    with pytest.raises(failure.TaskError, match="no space left on device") as caught, failure.as_task_error("key"):
        raise OSError(errno.ENOSPC, "No space left on device", "/state/run")
    found = failure.from_spark_error(
        RuntimeError(f"Job aborted\n\tat x.y.Z\nCaused by: {caught.value}\n\tat java.base"), "key"
    )
    assert found is not None
    assert (found.code, found.message) == ("SQ4306", 'no space left on device for file "/state/run"')
