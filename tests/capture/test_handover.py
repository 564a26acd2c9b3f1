"""Captures of one log take turns, and one is suspended at any point: neither the log nor a sink has a gap."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from sinkql.capture.log import LogDirectory, LogWriter
from sinkql.capture.log_store import FencedLogError, FolderLogStore, LogStore
from sinkql.capture.object_log_store import ObjectLogStore
from sinkql.object_store.objects import Objects
from sinkql.object_store.s3 import S3Credentials
from sinkql.storage import failpoint, files
from sinkql.storage.key_value import FolderStore
from support.seaweed import Seaweed

Open = Callable[[], LogStore]


@pytest.fixture(params=["folder", "bucket"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    if request.param == "folder":
        return lambda: FolderLogStore(tmp_path)
    server: Seaweed = request.getfixturevalue("bucket")
    return lambda: ObjectLogStore.from_path(
        f"s3://data/handover/{tmp_path.name}/", S3Credentials(server.storage), "here"
    )


class Sink:
    """A sink that reads a log entry by entry; captures may delete the entries that it has read."""

    def __init__(self, directory: LogDirectory) -> None:
        self.directory, self.at, self.to = directory, -1, "0"

    def begin_again(self) -> None:
        """Read a log that was discarded from its beginning."""
        self.at, self.to = -1, "0"

    def read(self) -> None:
        """Read the next entry, which begins at the end of the last one."""
        entry = self.directory.entry(self.at + 1)
        if entry is not None:
            assert entry.start == self.to
            self.at, self.to = entry.entry, entry.to


class Capture:
    """The writer of a log under one lease."""

    def __init__(self, open_store: Open, folder: Path, epoch: int, sink: Sink) -> None:
        directory = LogDirectory(folder, open_store(), FolderStore(folder))
        self.log = LogWriter.open(directory, epoch, new_id=f"log {epoch}")
        self.sink = sink

    def step(self, chance: random.Random) -> None:
        """Add an entry, or delete the entries that the sink has read. Raises FencedLogError."""
        log = self.log
        if chance.random() < 0.6 or len(log.entries) < 2:
            to = str(int(log.to or "0") + 1)
            log.add("changes", to=to, at=0.0, start="0")
        else:
            log.delete_first(sum(each.entry <= self.sink.at for each in log.entries))


@contextmanager
def asleep(at: int, other: Callable[[], None]) -> Iterator[None]:
    """Run another process's steps at the `at`-th point of the block where processes could interfere."""
    left = at

    def place() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            other()

    def around(owner: Any, name: str) -> None:
        really = getattr(owner, name)

        def called(*given: Any, **named: Any) -> Any:
            place()
            found = really(*given, **named)
            place()
            return found

        patch.setattr(owner, name, called)

    with pytest.MonkeyPatch.context() as patch:
        around(files, "create_new")
        for name in ("put", "get", "delete"):
            around(Objects, name)
        patch.setattr(failpoint, "point", lambda name: place())
        yield


def _history(open_store: Open, folder: Path, seed: int) -> None:
    """Run captures in turn; each is suspended in a step while the next one runs, and then completes it."""
    chance, epoch = random.Random(seed), 1
    sink = Sink(LogDirectory(folder, open_store(), FolderStore(folder)))
    capture = Capture(open_store, folder, epoch, sink)

    def take_over() -> None:
        nonlocal epoch
        epoch += 1
        if chance.random() < 0.3:
            Capture(open_store, folder, epoch, sink).log.directory.store.discard()
            sink.begin_again()
        other = Capture(open_store, folder, epoch, sink)
        for _ in range(chance.randint(1, 8)):
            other.step(chance)
            sink.read()

    for _ in range(4):
        for _ in range(chance.randint(1, 4)):
            capture.step(chance)
            sink.read()
        with asleep(chance.randint(1, 8), take_over):
            try:
                capture.step(chance)
            except FencedLogError:
                assert epoch > capture.log.epoch
        for _ in range(chance.randint(0, 2)):
            sink.read()
        epoch += 1
        capture = Capture(open_store, folder, epoch, sink)
    while int(sink.to) < int(capture.log.to):
        before = sink.at
        sink.read()
        assert sink.at == before + 1
    assert capture.log.directory.numbers() == [each.entry for each in capture.log.entries]


def test_a_log_has_no_gap_if_a_capture_is_suspended_anywhere(open_store: Open, tmp_path: Path) -> None:
    many = 20 if isinstance(open_store(), FolderLogStore) else 2
    for seed in range(many):
        _history(_in(open_store, tmp_path, seed), tmp_path / str(seed), seed)


@pytest.mark.soak
def test_a_log_has_no_gap_over_many_histories(open_store: Open, tmp_path: Path) -> None:
    many = 5_000 if isinstance(open_store(), FolderLogStore) else 300
    for seed in range(many):
        _history(_in(open_store, tmp_path, seed), tmp_path / str(seed), seed)


def _in(open_store: Open, folder: Path, seed: int) -> Open:
    """Return a function that opens a separate store for this history."""

    def opened() -> LogStore:
        store = open_store()
        if isinstance(store, FolderLogStore):
            return FolderLogStore(folder / str(seed))
        assert isinstance(store, ObjectLogStore)
        return ObjectLogStore(store.bucket, f"{store.prefix}{seed}/", store.access, store.owner)

    return opened


@pytest.mark.parametrize("at", range(1, 9))
def test_a_deleted_entry_is_not_written_again(open_store: Open, tmp_path: Path, at: int) -> None:
    directory = LogDirectory(tmp_path, open_store(), FolderStore(tmp_path))
    slept = LogWriter.open(directory, 1, new_id="log")
    slept.add("open", start="0", to="0", at=0.0, kept="log")
    slept.add("changes", to="1", at=0.0)
    slept.add("changes", to="2", at=0.0)
    other = LogDirectory(tmp_path, open_store(), FolderStore(tmp_path))
    ends: list[str] = []

    def take_over() -> None:
        second = LogWriter.open(other, 2, new_id="other")
        while int(second.to) < 6:
            second.add("changes", to=str(int(second.to) + 1), at=0.0)
        second.delete_first(len(second.entries))
        ends.append(second.to)

    with asleep(at, take_over), suppress(FencedLogError):
        slept.add("changes", to="3", at=0.0)
    third = LogWriter.open(LogDirectory(tmp_path, open_store(), FolderStore(tmp_path)), 3, new_id="third")
    assert [each.to for each in third.entries][-1:] == ends or not ends


def test_a_capture_that_deletes_entries_leaves_a_new_log_alone(open_store: Open, tmp_path: Path) -> None:
    for at in range(1, 9) if isinstance(open_store(), FolderLogStore) else (1, 4):
        _forgets_late(_in(open_store, tmp_path, at), tmp_path / str(at), at)


def _forgets_late(open_store: Open, folder: Path, at: int) -> None:
    def opened(epoch: int) -> LogWriter:
        return LogWriter.open(LogDirectory(folder, open_store(), FolderStore(folder)), epoch, new_id=f"log {epoch}")

    def grow(log: LogWriter, count: int) -> None:
        for number in range(1, count + 1):
            log.add("changes", to=str(number), at=0.0, start="0")

    slept = opened(1)
    grow(slept, 6)

    def begin_again() -> None:
        opened(2).directory.store.discard()
        grow(opened(3), 3)

    with asleep(at, begin_again):
        slept.delete_first(4)
    there = LogDirectory(folder, open_store(), FolderStore(folder)).numbers()
    last = opened(4)
    assert [each.entry for each in last.entries] == there
    assert there == ([0, 1, 2] if last.id == "log 3" else [4, 5])
    grow(last, 4)
    assert last.directory.numbers() == [each.entry for each in last.entries]
